"""The reply model of each control request, by the request's subtype."""

import re
from collections.abc import Mapping

from claude_agent_py.wire.base import FrameModel
from claude_agent_py.wire.control import initialize, replies


def _subtype(model_name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=MCP)(?=[A-Z])", "_", model_name.removesuffix("Reply")).lower()
    return "get_context_usage" if words == "context_usage" else words


REPLIES: Mapping[str, type[FrameModel]] = {
    _subtype(name): model
    for name, model in {**vars(initialize), **vars(replies)}.items()
    if name.endswith("Reply") and issubclass(model, FrameModel)
}
