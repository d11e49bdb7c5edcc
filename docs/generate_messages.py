"""Write the tables of `docs/messages.md` from the models themselves.

python docs/generate_messages.py           rewrites what stands between the marks
python docs/generate_messages.py --check   exits with 1 where that would change something
"""

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from claude_agent_py.wire import content, frames, stream, tasks

PAGE = Path(__file__).with_name("messages.md")
BEGIN, END = "<!-- generated: {} -->\n", "<!-- end -->\n"
EVERYWHERE = {"type", "subtype", "uuid", "session_id", "cache_control"}
"""Fields that the page describes once, above the tables."""


def models_in(union: Any) -> Iterator[type[BaseModel]]:
    """Give the members of a union, those of unions inside it too, in their order."""
    if isinstance(union, type):
        if issubclass(union, BaseModel):
            yield union
        return
    for part in get_args(union):
        yield from models_in(part)


def in_module(union: Any, *modules: str) -> list[type[BaseModel]]:
    return [m for m in models_in(union) if m.__module__.rpartition(".")[2] in modules]


def tables() -> Mapping[str, Iterable[type[BaseModel]]]:
    return {
        "conversation": in_module(frames.TopLevelMessage, "messages", "stream"),
        "tasks": list(models_in(tasks.TaskMessage)),
        "session": in_module(frames.SystemMessage, "system", "occasional"),
        "notices": in_module(frames.TopLevelMessage, "notices", "occasional"),
        "internal": in_module(frames.SystemMessage, "internal"),
        "blocks": list(models_in(content.ContentBlock)),
        "stream events": list(models_in(stream.StreamEvent)),
        "deltas": list(models_in(stream.Delta)),
    }


def wire_name(model: type[BaseModel]) -> str:
    tags: Mapping[str, str] = getattr(model, "TAGS", {})
    return "`" + "/".join(tags.values()) + "`" if tags else "anything else"


def first_paragraph(model: type[BaseModel]) -> str:
    text = inspect.cleandoc(model.__doc__ or "")
    return " ".join(text.partition("\n\n")[0].split())


def field_names(model: type[BaseModel]) -> str:
    """Name (in italics) what the model offers beside its fields, then the fields."""
    offers = [f"*`{name}`*" for name in members(model)]
    fields = [f"`{name}`" for name in model.model_fields if name not in EVERYWHERE]
    return ", ".join([*offers, *fields])


def members(model: type[BaseModel]) -> Iterator[str]:
    """Give the properties and methods that a model adds to pydantic's, those of its bases first."""
    for base in reversed(model.__mro__):
        if base.__module__.startswith("claude_agent_py."):
            for name, value in vars(base).items():
                if name.startswith(("_", "model_")):
                    continue
                if isinstance(value, property):
                    yield name
                elif inspect.isfunction(value) or isinstance(value, classmethod):
                    yield f"{name}()"


def row(model: type[BaseModel]) -> str:
    name = model.__name__
    return f"| `{name}` | {wire_name(model)} | {first_paragraph(model)} | {field_names(model)} |\n"


def table(models: Iterable[type[BaseModel]]) -> str:
    head = "| class | on the wire | means | *what it offers*, and fields |\n|---|---|---|---|\n"
    return head + "".join(row(model) for model in models)


def generate(text: str) -> str:
    """Give the page with every table written anew."""
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
