"""Questions of a session, asked in the editor: permissions and plans as a request for permission, the rest as a form.

An editor without forms gets each question with its options as a request for permission.
"""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from acp import schema
from acp.helpers import text_block, tool_content
from acp.interfaces import Client as Editor
from pydantic import AnyUrl

from claude_agent_py._base.json_object import JSONMapping, JSONObject
from claude_agent_py.acp.updates import describe
from claude_agent_py.control import ElicitationRequest
from claude_agent_py.permissions import Interaction, OpenQuestion, PermissionRequest, Plan, Question

SKIP: Final = "skip"
NO_FORMS: Final = "The editor cannot show forms."
CLOSED: Final = "The editor closed the question."
OTHER: Final = "Another answer"


class Asker:
    """Asks the questions of one session in its editor.

    Args:
        editor: The connection to the editor.
        session_id: The id by which the editor knows the session.
        capabilities: What the editor offers.
        folder: The working directory.
    """

    def __init__(
        self,
        editor: Editor,
        session_id: str,
        capabilities: schema.ClientCapabilities,
        folder: str | os.PathLike[str] | None,
    ) -> None:
        self._folder = Path(folder or "")
        self._editor = editor
        self._session_id = session_id
        self._forms = capabilities.elicitation or schema.ElicitationCapabilities()

    async def ask(self, interaction: Interaction) -> None:
        """Ask a question and answer it. What the editor cannot show, or does not answer, is refused."""
        subject: Any = interaction.subject
        if isinstance(subject, PermissionRequest | Plan):
            await self._ask_decision(interaction, subject)
        elif isinstance(subject, ElicitationRequest):
            await self._ask_elicitation(interaction, subject)
        elif interaction.kind == "question":
            await self._ask_questions(interaction, subject)
        else:
            # A dialog: the CLI then applies its default.
            interaction.refuse()

    async def _ask_decision(self, interaction: Interaction, subject: PermissionRequest | Plan) -> None:
        question = OpenQuestion(interaction, is_compared=False)
        call: JSONObject
        if isinstance(subject, Plan):
            names = {
                "always": "Yes, and accept edits",
                "allow": "Yes, and ask about edits",
                "deny": "No, keep planning",
            }
            plan = [tool_content(text_block(question.markdown))]
            call = {"title": question.title, "kind": "switch_mode", "content": plan}
        else:
            names = {"allow": "Allow", "deny": "Deny"}
            if question.always:
                names["always"] = f"Always: {question.always}"
            call = {**describe(subject.tool_name, subject.raw_input, self._folder), "raw_input": subject.raw_input}
            # Indented, so that the editor shows it as it is. The title may be cut.
            call["content"] = call["content"] or [
                tool_content(text_block("\n".join(f"    {line}" for line in "\n".join(question.lines).splitlines())))
            ]
        options = [schema.PermissionOption(option_id=key, name=names[key], kind=_KINDS[key]) for key in names]
        tool_call_id = subject.tool_use_id or interaction.id
        chosen = await self._choose(schema.ToolCallUpdate(tool_call_id=tool_call_id, status="pending", **call), options)
        if chosen in ("allow", "always"):
            question.allow(always=chosen == "always")
        else:
            question.deny("" if chosen == "deny" else CLOSED)

    async def _choose(self, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]) -> str | None:
        """Return the option that the user chose, or None if the prompt was cancelled."""
        reply = await self._editor.request_permission(session_id=self._session_id, tool_call=call, options=options)
        outcome = reply.outcome
        return outcome.option_id if isinstance(outcome, schema.AllowedOutcome) else None

    # Questions of the model

    async def _ask_questions(self, interaction: Interaction, questions: Sequence[Question]) -> None:
        if self._forms.form is not None:
            given = await self._fill("The agent asks", _build_form(questions), _get_call(interaction))
            answers = None if given is None else [_read_answer(given, number) for number in range(len(questions))]
        else:
            answers = [await self._ask_one(interaction, question) for question in questions]
        if answers is None or not any(answers):
            interaction.refuse(CLOSED)
        else:
            interaction.resolve(answers)

    async def _ask_one(self, interaction: Interaction, question: Question) -> str | None:
        """Return the label of the chosen option, or None."""
        named = {str(number): option for number, option in enumerate(question.options)}
        texts = [f"**{option.label}** {option.description}".strip() for option in question.options]
        call = schema.ToolCallUpdate(
            tool_call_id=_get_call(interaction) or interaction.id,
            title=question.question,
            kind="think",
            status="pending",
            content=[tool_content(text_block("\n\n".join(texts)))],
        )
        options = [
            schema.PermissionOption(option_id=key, name=option.label, kind="allow_once")
            for key, option in named.items()
        ]
        options.append(schema.PermissionOption(option_id=SKIP, name="Skip", kind="reject_once"))
        chosen = await self._choose(call, options)
        return named[chosen].label if chosen in named else None

    # Forms

    async def _fill(self, message: str, form: schema.ElicitationSchema, call: str | None) -> JSONObject | None:
        """Return the content of a form that the user accepted, or None."""
        mode = schema.ElicitationFormSessionMode(session_id=self._session_id, tool_call_id=call, requested_schema=form)
        reply = await self._editor.create_elicitation(message, mode)
        return (reply.content or {}) if isinstance(reply, schema.AcceptElicitationResponse) else None

    async def _ask_elicitation(self, interaction: Interaction, request: ElicitationRequest) -> None:
        message = f"{request.display_name or request.server_name}: {request.message}"
        url = request.url or ""
        if request.mode == "url" and not url.startswith(("https://", "http://")):
            interaction.refuse(f"The editor opens pages of the web only, not {request.url}")
            return
        if request.mode == "url" and self._forms.url is not None:
            page = schema.ElicitationUrlSessionMode(
                session_id=self._session_id,
                elicitation_id=request.elicitation_id or secrets.token_hex(8),
                url=AnyUrl(url),
            )
            reply = await self._editor.create_elicitation(message, page)
        elif request.mode == "form" and self._forms.form is not None:
            form = schema.ElicitationSchema.model_validate(
                _name_choices(request.requested_schema or {"type": "object"})
            )
            mode = schema.ElicitationFormSessionMode(session_id=self._session_id, requested_schema=form)
            reply = await self._editor.create_elicitation(message, mode)
        else:
            interaction.refuse(NO_FORMS)
            return
        interaction.resolve(reply.model_dump(include={"action", "content"}, exclude_none=True))


_KINDS: Final[dict[str, schema.PermissionOptionKind]] = {
    "allow": "allow_once",
    "always": "allow_always",
    "deny": "reject_once",
}


def _get_call(interaction: Interaction) -> str | None:
    found: str | None = getattr(interaction.wire, "tool_use_id", None)
    return found or None


def _name_choices(form: Any) -> Any:
    """Return a schema whose choices have their titles as the protocol writes them, instead of in `enumNames`."""
    if isinstance(form, list):
        return [_name_choices(each) for each in form]
    if not isinstance(form, dict):
        return form
    values, names = form.get("enum"), form.get("enumNames")
    if isinstance(values, list) and isinstance(names, list) and len(values) == len(names):
        choices = [{"const": value, "title": str(name)} for value, name in zip(values, names, strict=True)]
        rest = {key: value for key, value in form.items() if key not in ("enum", "enumNames")}
        return {**rest, "oneOf": choices}
    return {key: _name_choices(value) for key, value in form.items()}


def _read_answer(given: JSONMapping, number: int) -> Any:
    """Return the answer to a question of the form: what was chosen, with the text that was written; None without."""
    chosen, written = given.get(f"answer_{number}") or None, str(given.get(f"other_{number}") or "").strip()
    if not written:
        return chosen
    return [*chosen, written] if isinstance(chosen, list) else written


def _build_form(questions: Sequence[Question]) -> schema.ElicitationSchema:
    """Return the form for the questions of one call. Each answer is one of the labels, several, or another text."""
    fields: JSONObject = {}
    for number, question in enumerate(questions):
        choices = [
            {"const": option.label, "title": f"{option.label}: {option.description}".removesuffix(": ")}
            for option in question.options
        ]
        about = {"title": question.header or question.question, "description": question.question}
        if question.multi_select:
            fields[f"answer_{number}"] = {"type": "array", "items": {"anyOf": choices}, **about}
        else:
            fields[f"answer_{number}"] = {"type": "string", "oneOf": choices, **about}
        fields[f"other_{number}"] = {"type": "string", "title": OTHER, "description": question.question}
    return schema.ElicitationSchema.model_validate({"type": "object", "properties": fields})
