"""The hook that validates structured output with `output_type`, so that the model reads what its validators object to.

The CLI checks the JSON Schema only, and ends the turn with an answer that a validator of the type then refuses.
"""

from typing import Final

from pydantic import ValidationError
from pydantic_core import to_json

from claude_agent_py.hooks.context import HookContext
from claude_agent_py.hooks.matcher import HookMatcher
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.output_shape import REFUSAL
from claude_agent_py.wire.hooks import inputs, outputs
from claude_agent_py.wire.tools.registry import STRUCTURED_OUTPUT

MAX_REFUSED: Final = 4
"""How many answers to a prompt are refused. The next one ends the run, with `StructuredOutputError` if it is wrong."""


def output_hooks(options: ClientOptions) -> list[tuple[str, HookMatcher]]:
    """Return the hooks by event: none without `output_type`."""
    if options.output_shape is None:
        return []
    adapter = options.output_shape.adapter
    refused: dict[str | None, int] = {}

    def check(call: inputs.PreToolUseInput, context: HookContext) -> outputs.PreToolUseOutput | None:
        if call.agent_id is not None or refused.get(call.prompt_id, 0) >= MAX_REFUSED:
            return None  # the output of a subagent has a schema of its own
        try:
            adapter.validate_json(to_json(call.tool_input))
        except ValidationError as error:
            count = refused.get(call.prompt_id, 0) + 1
            refused.clear()
            refused[call.prompt_id] = count
            problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False)]
            reason = f"{REFUSAL} Correct it and call {STRUCTURED_OUTPUT} again.\n" + "\n".join(problems)
            return outputs.PreToolUseOutput(permission_decision="deny", permission_decision_reason=reason)
        return None

    return [("PreToolUse", HookMatcher(STRUCTURED_OUTPUT, check, on_failure="continue"))]
