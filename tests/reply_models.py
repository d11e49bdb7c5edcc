"""The reply model of each control request, by the request's subtype."""

import re
from collections.abc import Mapping

import msgspec

from claude_agent_py import control


def _subtype(model_name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=MCP)(?=[A-Z])", "_", model_name.removesuffix("Reply")).lower()
    return "get_context_usage" if words == "context_usage" else words


REPLIES: Mapping[str, type[msgspec.Struct]] = {
    _subtype(name): getattr(control, name) for name in dir(control) if name.endswith("Reply")
}
