"""Write the tables of `docs/hooks.md` from the events and models themselves.

python docs/generate_hooks.py           rewrites the text between the marks
python docs/generate_hooks.py --check   exits with 1 if that would change something
"""

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from generated_parts import first_paragraph, main, table
from pydantic import BaseModel

from claude_agent_py.hooks import HOOK_EVENT_FACTS, HookInput, HookOutput
from claude_agent_py.wire.hooks.parsing import HOOK_INPUTS, HOOK_OUTPUTS

PAGE = Path(__file__).with_name("hooks.md")

SENT = {"always": "yes", "partly": "partly", "never": "**never**", "unseen": "not seen"}
BLOCKS = {
    "decision": '`decision="block"`',
    "permission_decision": '`permission_decision="deny"`',
    "behavior": '`behavior="deny"`',
    None: "",
}


def own_fields(model: type[Any], base: type[Any]) -> str:
    common = set(_fields(base)) - {"agent_id", "agent_type"}
    names = [name for name in _fields(model) if name not in common and name in _declared(model, base)]
    return ", ".join(f"`{name}`" for name in names)


def _fields(model: type[Any]) -> Iterable[str]:
    return model.model_fields if issubclass(model, BaseModel) else model.__struct_fields__


def _declared(model: type[Any], base: type[Any]) -> set[str]:
    """Return the fields that a model or its bases below `base` declare."""
    between = [one for one in model.__mro__ if issubclass(one, base) and one is not base]
    return {name for one in between for name in inspect.get_annotations(one)}


def events() -> str:
    rows = [
        (
            f"`{event}`",
            facts.summary,
            {None: "*ignored*", "file name": "file name"}.get(facts.matches, f"`{facts.matches}`"),
            SENT[facts.delivery] + (f" ({', '.join(sorted(facts.sent_for))})" if facts.sent_for else ""),
            BLOCKS[facts.block],
            facts.note,
        )
        for event, facts in HOOK_EVENT_FACTS.items()
    ]
    return table("event|when|pattern matches|sent|blocks|note", rows)


def inputs() -> str:
    rows = [
        (f"`{model.__name__}`", first_paragraph(model), own_fields(model, HookInput)) for model in HOOK_INPUTS.values()
    ]
    return table("input|sent when|fields", rows)


def outputs() -> str:
    rows = [
        (f"`{model.__name__}`", first_paragraph(model), own_fields(model, HookOutput))
        for model in HOOK_OUTPUTS.values()
    ]
    return table("output|purpose|fields", rows)


def parts() -> dict[str, str]:
    tables = {"events": events(), "inputs": inputs(), "outputs": outputs()}
    return {name: f"\n{content}\n" for name, content in tables.items()}


if __name__ == "__main__":
    main(PAGE, parts)
