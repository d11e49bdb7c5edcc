"""`guard`: run a permission policy as a `PreToolUse` hook, so that it sees every tool call.

`can_use_tool` only sees calls that nothing else decided, and the CLI approves many on its own.
"""

from msgspec.structs import asdict

from claude_agent_py import hooks
from claude_agent_py.hooks.context import HookContext
from claude_agent_py.hooks.matcher import HookMatcher
from claude_agent_py.permissions.decisions import NO_REASON, Allow, Deny, build_reply, describe
from claude_agent_py.permissions.policies import Policy, wrap_policy
from claude_agent_py.permissions.prompts import check_input
from claude_agent_py.permissions.requests import PermissionContext, PermissionRequest
from claude_agent_py.wire.control.asks import CanUseToolRequest
from claude_agent_py.wire.fitting import check


def guard(policy: Policy, *, timeout: float | None = None) -> HookMatcher:
    """Ask a policy about every tool call, including calls that the CLI approves on its own.

    ::

        ClientOptions(hooks={"PreToolUse": [guard(within("repo"))]})

    A denied call does not run, whatever else allows it; `interrupt=True` also ends the turn. `Allow` and None leave the
    call to the usual permission check: a guard never approves. The `updated_input` of an `Allow` is used, and the check
    follows on the new input; its `updated_permissions` are ignored. A policy that raises, times out, or returns
    anything else denies the call. Guards run before the permission check, so the request has no `suggestions` and no
    `decision_reason`. Hooks run concurrently, so a guard does not see input changes of other hooks.

    The CLI reads the `@files` of a prompt without a tool, so prompts that contain `@` are sent verbatim, and the model
    reads such a file with a tool that the guard sees. `verbatim_prompts=False` in the options has the CLI read them.

    Args:
        policy: An async or plain function `(PermissionRequest, PermissionContext) -> Allow | Deny | None`.
        timeout: Seconds until the call is denied. None sets no limit.

    Raises:
        OptionsError: The policy is not a function of two arguments.
    """
    callback = wrap_policy(policy, option="hooks")

    async def guarded(input: hooks.PreToolUseInput, context: HookContext) -> "hooks.PreToolUseOutput | None":  # noqa: A002
        request = _request(input, context)
        return _answer(request.wire, await callback.call(request, request.context))

    guarded.__qualname__ = f"guard({callback.name})"
    matcher = HookMatcher(None, guarded, timeout=timeout, on_failure="block")
    matcher.only_for = "PreToolUse"
    return matcher


def _request(input: hooks.PreToolUseInput, context: HookContext) -> PermissionRequest:  # noqa: A002
    wire = CanUseToolRequest(
        tool_name=input.tool_name,
        tool_use_id=input.tool_use_id,
        input=input.tool_input or {},
        mcp_server=input.mcp_server,
        agent_id=context.agent_id,
    )
    check(wire)  # a policy may rely on the input being an object
    given = {**asdict(context), "tool_use_id": input.tool_use_id, "cwd": input.cwd or None}
    del given["event"]  # which only hooks have
    return PermissionRequest(wire, PermissionContext(**given))


def _answer(wire: CanUseToolRequest, opinion: object) -> "hooks.PreToolUseOutput | None":
    """Convert an opinion to the hook's output. Raises ValueError for anything else: the call is then denied."""
    if opinion is None:
        return None
    if not isinstance(opinion, Allow | Deny):
        raise ValueError(f"must be Allow(...), Deny(...) or None, not {describe(opinion)}")
    reply = check_input(wire, build_reply(opinion))
    if isinstance(opinion, Deny):
        ends = {"continue_": False, "stop_reason": reply["message"]} if opinion.interrupt else {}
        return hooks.PreToolUseOutput(
            permission_decision="deny", permission_decision_reason=reply["message"] or NO_REASON, **ends
        )
    return hooks.PreToolUseOutput(updated_input=reply["updatedInput"]) if "updatedInput" in reply else None
