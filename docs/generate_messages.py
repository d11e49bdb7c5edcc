"""Write the tables of `docs/messages.md` from the models themselves.

python docs/generate_messages.py           rewrites the text between the marks
python docs/generate_messages.py --check   exits with 1 if that would change something
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from generated_parts import first_paragraph, main, table

from claude_agent_py.wire import frames
from claude_agent_py.wire.base import UnknownModel, WireModel
from claude_agent_py.wire.messages import content, stream, tasks

PAGE = Path(__file__).with_name("messages.md")
EVERYWHERE = {"type", "subtype", "uuid", "session_id", "cache_control"}
"""Fields that the page describes once, above the tables."""


def models_in(union: Any) -> Iterator[type[WireModel]]:
    """Return the members of a union, including nested unions, in order."""
    if isinstance(union, type):
        if issubclass(union, WireModel):
            yield union
        return
    for part in get_args(union):
        yield from models_in(part)


def in_module(union: Any, *modules: str) -> list[type[WireModel]]:
    return [m for m in models_in(union) if m.__module__.rpartition(".")[2] in modules]


def tables() -> Mapping[str, Iterable[type[WireModel]]]:
    return {
        "conversation": in_module(frames.TopLevelMessage, "conversation", "stream"),
        "tasks": list(models_in(tasks.TaskMessage)),
        "session": in_module(frames.SystemMessage, "system", "occasional"),
        "notices": in_module(frames.TopLevelMessage, "notices", "occasional"),
        "blocks": list(models_in(content.ContentBlock)),
        "stream events": list(models_in(stream.StreamEvent)),
        "deltas": list(models_in(stream.Delta)),
    }


def wire_name(model: type[WireModel]) -> str:
    if issubclass(model, UnknownModel):
        return "anything else"
    tags = [getattr(model, name) for name in ("type", "subtype") if isinstance(getattr(model, name, None), str)]
    return "`" + "/".join(tags) + "`"


def field_names(model: type[WireModel]) -> str:
    """Return the properties and methods of a model (in italics), then its fields."""
    offers = [f"*`{name}`*" for name in members(model)]
    fields = [f"`{name}`" for name in model.__struct_fields__ if name not in EVERYWHERE and name != "_source"]
    return ", ".join([*offers, *fields])


def members(model: type[WireModel]) -> Iterator[str]:
    """Return the properties and methods that a model adds to `WireModel`, inherited ones first."""
    for base in reversed(model.__mro__):
        is_own = base.__module__.startswith("claude_agent_py.") and base.__module__ != WireModel.__module__
        if is_own or base is UnknownModel:
            for name, value in vars(base).items():
                if name.startswith("_"):
                    continue
                if isinstance(value, property):
                    yield name
                elif inspect.isfunction(value) or isinstance(value, classmethod):
                    yield f"{name}()"


def row(model: type[WireModel]) -> tuple[str, ...]:
    return f"`{model.__name__}`", wire_name(model), first_paragraph(model), field_names(model)


def parts() -> dict[str, str]:
    head = "class|on the wire|meaning|*members* and fields"
    return {name: f"\n{table(head, map(row, models))}\n" for name, models in tables().items()}


if __name__ == "__main__":
    main(PAGE, parts)
