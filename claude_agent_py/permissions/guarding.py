"""`guard`: run a permission policy as a hook, so that it sees every tool call and every shell command of a skill.

`can_use_tool` only sees calls that nothing else decided, and the CLI approves many on its own.
"""

from msgspec.structs import asdict

from claude_agent_py import hooks
from claude_agent_py.hooks.context import HookContext
from claude_agent_py.hooks.matcher import HookMatcher
from claude_agent_py.permissions.contexts import PermissionContext
from claude_agent_py.permissions.decisions import NO_REASON, Allow, Deny, build_reply, describe
from claude_agent_py.permissions.policies import Policy, wrap_policy
from claude_agent_py.permissions.prompts import check_input
from claude_agent_py.permissions.requests import PermissionRequest
from claude_agent_py.wire.control.asks import CanUseToolRequest
from claude_agent_py.wire.fitting import check


def guard(policy: Policy, *, timeout: float | None = None) -> HookMatcher:
    """Ask a policy about every tool call, including calls that the CLI approves on its own.

        ClientOptions(hooks={"PreToolUse": [guard(within("repo"))]})

    A denied call does not run, whatever else allows it; `interrupt=True` also ends the turn. `Allow` and None leave the
    call to the usual permission check: a guard never approves. The `updated_input` of an `Allow` is used, and the check
    follows on the new input; its `updated_permissions` are ignored. A policy that raises, times out, or returns
    anything else denies the call. Guards run before the permission check, so the request has no `suggestions` and no
    `decision_reason`. Hooks run concurrently, so a guard does not see input changes of other hooks.

    The text of a skill or command may contain shell commands (`` !`cmd` ``), which run without a tool call. With CLI
    2.1.332 and newer (event `PreSkillShellCommand`), the policy is asked about each as a call of `Bash` or
    `PowerShell`. The CLI cannot change such a command, so an `Allow` with another input denies it. In older CLIs, a
    guard turns these commands off.

    The CLI reads the `@files` of a prompt without a tool, so prompts that contain `@` are sent verbatim, and the model
    reads such a file with a tool that the guard sees. `verbatim_prompts=False` in the options has the CLI read them.

    Args:
        policy: An async or plain function `(PermissionRequest, PermissionContext) -> Allow | Deny | None`.
        timeout: Seconds until the call is denied. None sets no limit.

    Raises:
        OptionsError: The policy is not a function of two arguments.
    """
    callback = wrap_policy(policy, option="hooks")

    async def guarded(input: "hooks.HookInput", context: HookContext) -> "hooks.HookOutput | None":  # noqa: A002
        if not isinstance(input, hooks.PreToolUseInput | hooks.PreSkillShellCommandInput):
            raise ValueError("the input cannot be read")
        request = _request(input, context)
        return _answer(context.event, request.wire, await callback.call(request, request.context))

    guarded.__qualname__ = f"guard({callback.name})"
    matcher = HookMatcher(None, guarded, timeout=timeout, on_failure="block")
    matcher.only_for = ("PreToolUse", "PreSkillShellCommand")
    return matcher


def _request(
    input: "hooks.PreToolUseInput | hooks.PreSkillShellCommandInput",  # noqa: A002
    context: HookContext,
) -> PermissionRequest:
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


def _answer(event: str, wire: CanUseToolRequest, opinion: object) -> "hooks.HookOutput | None":
    """Convert an opinion to the hook's output. Raises ValueError for anything else: the call is then denied."""
    if opinion is None:
        return None
    if not isinstance(opinion, Allow | Deny):
        raise ValueError(f"must be Allow(...), Deny(...) or None, not {describe(opinion)}")
    reply = check_input(wire, build_reply(opinion))
    if isinstance(opinion, Deny):
        ends = {"continue_": False, "stop_reason": reply["message"]} if opinion.interrupt else {}
        denied = hooks.PreToolUseOutput if event == "PreToolUse" else hooks.PreSkillShellCommandOutput
        return denied(permission_decision="deny", permission_decision_reason=reply["message"] or NO_REASON, **ends)
    changed = reply.get("updatedInput", wire.input)
    if event == "PreToolUse":
        return hooks.PreToolUseOutput(updated_input=changed) if "updatedInput" in reply else None
    if changed != wire.input:
        return hooks.PreSkillShellCommandOutput(
            permission_decision="deny",
            permission_decision_reason="The policy allows a changed command only, and the CLI cannot change it.",
        )
    return None
