"""Convert the inputs and outputs of hooks between JSON and their models."""

import contextlib
from collections.abc import Mapping

import msgspec
from pydantic import ValidationError

from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.fitting import read
from claude_agent_py.wire.hooks import inputs, outputs
from claude_agent_py.wire.hooks.events import HOOK_EVENT_FACTS, HOOK_EVENTS


def prepare(event: str) -> None:
    """Build the models of an event, which its first hook would otherwise wait for."""
    HOOK_OUTPUTS.get(event, outputs.HookOutput).model_rebuild()
    with contextlib.suppress(msgspec.ValidationError):
        msgspec.convert({}, HOOK_INPUTS.get(event, inputs.UnknownHookInput))


# Inputs ---------------------------------------------------------------------------------------------------------------

HOOK_INPUTS: Mapping[str, type[inputs.HookInput]] = {event: getattr(inputs, f"{event}Input") for event in HOOK_EVENTS}
"""The input model of each event."""


def parse_hook_input(data: JSONObject) -> inputs.HookInput:
    """Convert a hook's input to its model, or to `UnknownHookInput` if no model matches it."""
    model = HOOK_INPUTS.get(str(data.get("hook_event_name")), inputs.UnknownHookInput)
    hook_input = read(model, data)
    if hook_input is None:
        # Keep the common fields even if their type is wrong.
        fields = {name: data[name] for name in inputs.UnknownHookInput.__struct_fields__ if name in data}
        hook_input = inputs.UnknownHookInput(**fields, _source=data)
    return hook_input


# Outputs --------------------------------------------------------------------------------------------------------------

HOOK_OUTPUTS: Mapping[str, type[outputs.HookOutput]] = {
    event: getattr(outputs, f"{event}Output") for event in HOOK_EVENTS if hasattr(outputs, f"{event}Output")
}
"""The output model of each event; events that are not listed use `HookOutput`."""


def parse_hook_output(event: str, value: object) -> outputs.HookOutput | outputs.AsyncHookOutput:
    """Convert the return value of a hook handler to an output model.

    Accepts the event's model, a `HookOutput`, an `AsyncHookOutput`, None (no effect), or a dict. A dict is flat with
    the field names of the model, or nested as on the wire and in the official SDK (`hookSpecificOutput`, `continue_`,
    `async_`).

    Raises:
        ValueError: The value has another type, belongs to another event, or has a field unknown to this event.
    """
    output = value
    if value is None:
        output = outputs.HookOutput()
    elif not isinstance(value, outputs.HookOutput) and isinstance(value, Mapping):
        output = _from_mapping(event, value)
    if isinstance(output, outputs.AsyncHookOutput):
        return output
    if not isinstance(output, outputs.HookOutput):
        raise ValueError(f"a hook must return its output model, a dict or None, not {type(value).__name__}")
    if output.EVENT not in (None, event):
        raise ValueError(f"{type(output).__name__} is an output for {output.EVENT}, not {event}")
    if event == "PreToolUse" and output.continue_ is False:
        return _deny_if_stopping(output)
    return output


def _deny_if_stopping(output: outputs.HookOutput) -> outputs.HookOutput:
    """Deny the tool call of an output that ends the turn: the CLI would run the tool first."""
    if output.decision:
        return output
    fields = output.model_dump(exclude_unset=True)
    if fields.get("permission_decision") is not None:
        return output
    reason = fields.get("permission_decision_reason") or output.stop_reason or "Stopped by a hook."
    denial = {"permission_decision": "deny", "permission_decision_reason": reason}
    return outputs.PreToolUseOutput.model_validate({**fields, **denial})


def _from_mapping(event: str, value: Mapping[str, object]) -> outputs.HookOutput | outputs.AsyncHookOutput:
    fields = dict(value)
    asynchronous = fields.pop("async", None) or fields.pop("async_", None)
    model: type[outputs.HookOutput] | type[outputs.AsyncHookOutput] = HOOK_OUTPUTS.get(event, outputs.HookOutput)
    if asynchronous:
        model = outputs.AsyncHookOutput
    else:
        fields = _flatten(event, fields)
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise ValueError(_explain(event, error)) from None


def _flatten(event: str, fields: JSONObject) -> JSONObject:
    specific = fields.pop("hookSpecificOutput", None) or fields.pop("hook_specific_output", None) or {}
    if not isinstance(specific, Mapping):
        raise ValueError(f"hookSpecificOutput must be a dict, not {type(specific).__name__}")
    specific = dict(specific)
    named = specific.pop("hookEventName", event)
    if named != event:
        raise ValueError(f"hookSpecificOutput.hookEventName is {named!r}, but the event is {event}")
    if event == "PermissionRequest" and isinstance(specific.get("decision"), Mapping):
        specific = {**specific.pop("decision"), **specific}
    return {**fields, **specific}


def _explain(event: str, error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"invalid output for {event}: {place}: {first['msg']}"


def blocking_output(event: str, reason: str) -> outputs.HookOutput | None:
    """Return the output that blocks the operation of `event`, or None if it cannot be blocked."""
    facts = HOOK_EVENT_FACTS.get(event)
    match facts and facts.block:
        case "decision":
            return outputs.HookOutput(decision="block", reason=reason)
        case "permission_decision":
            return HOOK_OUTPUTS[event].model_validate(
                {"permission_decision": "deny", "permission_decision_reason": reason}
            )
        case "behavior":
            return outputs.PermissionRequestOutput(behavior="deny", message=reason)
    return None
