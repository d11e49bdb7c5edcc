"""Write the tables of `docs/messages.md` from the models themselves.

python docs/generate_messages.py           rewrites what stands between the marks
python docs/generate_messages.py --check   exits with 1 where that would change something
"""

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from claude_agent_py.wire import content, frames, stream, tasks
from claude_agent_py.wire.base import UnknownModel, WireModel

PAGE = Path(__file__).with_name("messages.md")
BEGIN, END = "<!-- generated: {} -->\n", "<!-- end -->\n"
EVERYWHERE = {"type", "subtype", "uuid", "session_id", "cache_control"}
"""Fields that the page describes once, above the tables."""


def models_in(union: Any) -> Iterator[type[WireModel]]:
    """Return the members of a union, those of unions inside it too, in their order."""
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
        "conversation": in_module(frames.TopLevelMessage, "messages", "stream"),
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


def first_paragraph(model: type[WireModel]) -> str:
    text = inspect.cleandoc(model.__doc__ or "")
    return " ".join(text.partition("\n\n")[0].split())


def field_names(model: type[WireModel]) -> str:
    """Name (in italics) what the model offers beside its fields, then the fields."""
    offers = [f"*`{name}`*" for name in members(model)]
    fields = [f"`{name}`" for name in model.__struct_fields__ if name not in EVERYWHERE and name != "_source"]
    return ", ".join([*offers, *fields])


def members(model: type[WireModel]) -> Iterator[str]:
    """Return the properties and methods of a model beside those that every model has, those of its bases first."""
    for base in reversed(model.__mro__):
        if base.__module__.startswith("claude_agent_py.") and base.__module__ != WireModel.__module__:
            for name, value in vars(base).items():
                if name.startswith("_"):
                    continue
                if isinstance(value, property):
                    yield name
                elif inspect.isfunction(value) or isinstance(value, classmethod):
                    yield f"{name}()"


def row(model: type[WireModel]) -> str:
    return f"| `{model.__name__}` | {wire_name(model)} | {first_paragraph(model)} | {field_names(model)} |\n"


def table(models: Iterable[type[WireModel]]) -> str:
    head = "| class | on the wire | means | *what it offers*, and fields |\n|---|---|---|---|\n"
    return head + "".join(row(model) for model in models)


def generate(text: str) -> str:
    """Return the page with every table written anew."""
    for name, models in tables().items():
        before, begin, rest = text.partition(BEGIN.format(name))
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise SystemExit(f"{PAGE.name} has no marks for {name!r}")
        text = f"{before}{begin}\n{table(models)}\n{end}{after}"
    return text


def main(arguments: list[str]) -> int:
    old = PAGE.read_text(encoding="utf-8")
    new = generate(old)
    if "--check" in arguments:
        if new != old:
            print(f"{PAGE.name} is not up to date: run `python docs/{Path(__file__).name}`", file=sys.stderr)
        return int(new != old)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
