"""`guard`: a permission policy that sees every tool call, as a hook.

Owns the step from a policy's opinion to a hook's answer. `can_use_tool` is asked only about what nothing else decided,
and the CLI approves a good deal by itself; a `PreToolUse` hook runs before each call, whatever approves it later. Knows
no policy by name.
"""

from typing import TYPE_CHECKING, Any

from claude_agent_py.callbacks import Callback, takes_arguments
from claude_agent_py.errors import OptionsError
from claude_agent_py.hooks.context import HookContext
from claude_agent_py.hooks.matcher import HookMatcher
from claude_agent_py.permissions.decisions import NO_REASON, Allow, Deny, describe, reply_of
from claude_agent_py.permissions.policies import Policy
from claude_agent_py.permissions.prompts import check_input
from claude_agent_py.permissions.requests import PermissionContext, PermissionRequest
from claude_agent_py.wire.asks import CanUseToolRequest
from claude_agent_py.wire.fitting import check

if TYPE_CHECKING:
    from claude_agent_py.wire.hooks.inputs import PreToolUseInput
    from claude_agent_py.wire.hooks.outputs import PreToolUseOutput


def guard(policy: Policy, *, timeout: float | None = None) -> HookMatcher:
    """Ask a policy about every tool call, also about those that the CLI approves by itself.

    ::

        ClientOptions(hooks={"PreToolUse": [guard(within("repo"))]})

    What it denies does not run, whatever else would allow it; `interrupt=True` also ends the turn. `Allow` and None
    leave the call to the usual permission check: a guard approves nothing. Of an `Allow`, `updated_input` is used (the
    check follows, on the new input), `updated_permissions` is not. A policy that raises, is too slow, or answers
    something else denies. Unlike a request of `can_use_tool` this one has no `suggestions` and no `decision_reason`:
    nobody has looked at the call yet. Hooks run at the same time, so this one does not see what another one makes of
    the input; nor does it see the files that a prompt names with `@`, which the CLI reads without a tool.

    Args:
        policy: `(PermissionRequest, PermissionContext) -> Allow | Deny | None`, async or plain.
        timeout: How long it may take, in seconds, then the call is denied; None means as long as the CLI waits.

    Raises:
        OptionsError: It is no such function.
    """
    if not callable(policy):
        raise OptionsError(f"a policy is a function, not {type(policy).__name__}", option="hooks")
    callback = Callback(policy)
    if not takes_arguments(policy, 2):
        raise OptionsError(f"{callback.name} must take two arguments: the request and the context", option="hooks")

    async def guarded(input: "PreToolUseInput", context: HookContext) -> "PreToolUseOutput | None":  # noqa: A002
        request = _request(input, context)
        return _answer(request.wire, await callback.call(request, request.context))

    return HookMatcher(None, guarded, timeout=timeout, on_failure="block")


def _request(input: "PreToolUseInput", context: HookContext) -> PermissionRequest:  # noqa: A002 - what it is
    wire = CanUseToolRequest(
        tool_name=input.tool_name,
        tool_use_id=input.tool_use_id,
        input=input.tool_input or {},
        mcp_server=input.mcp_server,
        agent_id=context.agent_id,
    )
    check(wire)  # an input that is no object must not get to a policy that expects one
    own = PermissionContext(
        request_id=context.request_id,
        agent_id=context.agent_id,
        task=context.task,
        cancellation=context.cancellation,
        tool_use_id=input.tool_use_id,
        cwd=input.cwd or None,
    )
    return PermissionRequest(wire, own)


def _answer(wire: CanUseToolRequest, opinion: Any) -> "PreToolUseOutput | None":
    """Make the hook's answer of an opinion.

    Raises:
        ValueError: It is none; the call is denied then.
    """
    from claude_agent_py.wire.hooks.outputs import PreToolUseOutput

    if opinion is None:
        return None
    if not isinstance(opinion, Allow | Deny):
        raise ValueError(f"expected Allow(...), Deny(...) or None, not {describe(opinion)}")
    reply = check_input(wire, reply_of(opinion))
    if isinstance(opinion, Deny):
        ends = {"continue_": False, "stop_reason": reply["message"]} if opinion.interrupt else {}
        return PreToolUseOutput(
            permission_decision="deny", permission_decision_reason=reply["message"] or NO_REASON, **ends
        )
    return PreToolUseOutput(updated_input=reply["updatedInput"]) if "updatedInput" in reply else None
