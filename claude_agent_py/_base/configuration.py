"""`ConfigModel`: the frozen base of everything that users configure.

Validation errors become an `OptionsError` that names the field and never shows the value, which may be a secret.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from claude_agent_py._base.errors import OptionsError

MAX_REPR_CHARS: Final = 60
"""How many characters of a string a repr shows."""


class Unshown(Mapping[str, Any]):
    """A mapping whose repr shows no values, which may be secrets: tracebacks with variables print reprs.

    Not a `dict` subclass, because some printers ignore the repr of these.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: str, default: object = None) -> Any:
        """Return a value, or the default."""
        return self._values.get(name, default)

    def __repr__(self) -> str:
        return f"<{len(self)} values>"


def plain_copy(values: Mapping[str, object]) -> dict[str, Any]:
    """Return the values in a dict. An `Unshown` is copied whole, not value by value as `dict()` would."""
    return dict(values._values if isinstance(values, Unshown) else values)


class ConfigModel(BaseModel):
    """Base class of frozen configuration objects. Unknown names and wrong types raise `OptionsError`.

    Fields are passed by name; those with `kw_only=False` may be passed by position. Those with `repr=False` are not
    shown in a repr.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        defer_build=True,
        populate_by_name=True,
        protected_namespaces=(),
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
    )

    QUALIFIED: ClassVar[bool] = True
    """Whether errors name the class before the field."""
    RENAMED: ClassVar[Mapping[str, str]] = {}
    """What to use instead of names from other SDKs."""
    KNOWN_BY: ClassVar[str] = ""
    """A field that identifies an object in errors; a note of the error shows its value."""

    def __init__(self, *values: object, **data: object) -> None:
        try:
            super().__init__(**(self._name_values(values, data) if values else data))
        except ValidationError as error:
            problem = describe_errors(error, type(self))
        except OptionsError as error:
            problem = error.with_traceback(None)
        else:
            return
        if isinstance(about := data.get(self.KNOWN_BY), str):
            problem.add_note(f"{type(self).__name__} with the {self.KNOWN_BY} {about[:MAX_REPR_CHARS]!r}")
        del values, data  # tracebacks may show the variables of their frames
        raise problem  # outside of `except`: the context would show the values

    # Tells pydantic that this `__init__` only wraps the inherited one, so that nested models are validated as parts and
    # errors have their full path.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def _name_values(cls, values: Sequence[object], data: Mapping[str, object]) -> dict[str, object]:
        """Return all fields by name: those that were passed by position, and `data`."""
        names = [name for name, field in cls.model_fields.items() if field.kw_only is False]
        if len(values) > len(names):
            raise OptionsError(f"takes {len(names)} positional arguments, not {len(values)}", option=cls.__name__)
        named = dict(zip(names, values, strict=False))
        if twice := named.keys() & data.keys():
            raise OptionsError("is given twice", option=f"{cls.__name__}.{min(twice)}")
        return {**named, **data}

    @classmethod
    def model_validate(cls, obj: Any, **how: Any) -> Self:
        """Validate an object. Raises OptionsError."""
        try:
            return super().model_validate(obj, **how)
        except ValidationError as error:
            problem = describe_errors(error, cls)
        except OptionsError as error:
            problem = error.with_traceback(None)
        del obj
        raise problem

    def __setattr__(self, name: str, value: object) -> None:
        if name in type(self).model_fields:
            raise OptionsError("cannot be changed; use replace()", option=name)
        super().__setattr__(name, value)

    def __repr_args__(self) -> Any:
        for name, value in self._iter_set_fields():
            if value is not None and not type(self).model_fields[name].repr:
                yield name, "..."
            elif isinstance(value, str) and len(value) > MAX_REPR_CHARS:
                yield name, f"{value[:MAX_REPR_CHARS]}..."
            else:
                yield name, value

    def _iter_set_fields(self) -> Iterator[tuple[str, object]]:
        """Yield the fields that were set, in order. Empty during construction."""
        given = getattr(self, "__pydantic_fields_set__", ())
        values = self.__dict__
        return ((name, values[name]) for name in type(self).model_fields if name in given and name in values)

    def replace(self, **changes: object) -> Self:
        """Return a copy with some values changed, validated like a new one. Raises OptionsError."""
        return type(self)(**{name: getattr(self, name) for name in self.model_fields_set} | changes)

    def model_copy(self, *, update: Mapping[str, object] | None = None, deep: bool = False) -> Self:
        """Like pydantic's, but validates the updated fields."""
        copied = super().model_copy(deep=deep)
        return copied.replace(**update) if update else copied


Part = TypeVar("Part", bound=ConfigModel)


def describe_errors(error: ValidationError, model: type[ConfigModel]) -> OptionsError:
    """Return an `OptionsError` for a validation error of pydantic."""
    first, *others = error.errors(include_url=False)
    where = [part for part in first["loc"][:1] if isinstance(part, str)]
    option = ".".join([model.__name__, *where] if model.QUALIFIED or not where else where)
    told = _joined(_path(first["loc"][1:]), _complaint(first, model))
    more = _list_problems(others, model)
    return OptionsError(f"{told} (also: {more})" if more else told, option=option)


def validate_part(model: type[Part], value: object) -> Part:
    """Validate the value of an option whose model is loaded when the option is used.

    Raises ValueError, which tells the path within the value.
    """
    try:
        return super(ConfigModel, model).model_validate(value)
    except ValidationError as error:
        problem = ValueError(_list_problems(error.errors(include_url=False), model))
    raise problem


def _list_problems(details: Iterable[Any], model: type[ConfigModel]) -> str:
    return "; ".join(_joined(_path(detail["loc"]), _complaint(detail, model)) for detail in details)


def inner_text(error: OptionsError) -> str:
    """Return the text of a nested error for use in the outer one: the field without its class, and the problem."""
    option = error.option or ""
    return f"{option.partition('.')[2]} {str(error).removeprefix(f'{option}: ')}".strip()


def suggest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` with the known name closest to `name`, or an empty string."""
    wanted = snake_case(name)
    import difflib  # 2 ms that only mistakes need

    near = difflib.get_close_matches(wanted, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def snake_case(name: str) -> str:
    """Return the Python form of a camelCase name."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()


def _joined(place: str, complaint: str) -> str:
    return f"{place} {complaint}" if place else complaint


def _complaint(detail: Any, model: type[ConfigModel]) -> str:
    kind = detail["type"]
    if kind == "extra_forbidden":
        return f"is unknown{_instead(detail['loc'], model)}"
    if kind == "missing":
        return "is missing"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind in {"sequence_str", "list_type"}:
        return f"must be a list, not {type(detail['input']).__name__}"
    expected = re.sub(r"^Input should be ", "must be ", detail["msg"])
    shows_type = kind.endswith(("_type", "_parsing"))
    return f"{expected}, not {type(detail['input']).__name__}" if shows_type else expected


def _instead(where: Sequence[str | int], model: type[ConfigModel]) -> str:
    name = str(where[-1])
    for known in (name, snake_case(name)):
        if len(where) == 1 and known in model.RENAMED:
            return f"; {model.RENAMED[known]}"
    owner = model if len(where) == 1 else _model_at(where[:-1], model)
    return suggest(name, owner.model_fields) if owner else ""


def _model_at(where: Sequence[str | int], model: type[ConfigModel]) -> type[ConfigModel] | None:
    """Return the model at a path if the annotations name one, otherwise None."""
    annotation: object = model
    for part in where:
        models = list(_models_in(annotation))
        fields = [found.model_fields[str(part)] for found in models if str(part) in found.model_fields]
        annotation = fields[0].annotation if fields else annotation
    return next(iter(_models_in(annotation)), None)


def _models_in(annotation: object) -> Iterable[type[ConfigModel]]:
    if isinstance(annotation, type) and issubclass(annotation, ConfigModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models_in(argument)


def _path(where: Sequence[str | int]) -> str:
    text = ""
    for part in where:
        if isinstance(part, str) and part.isidentifier():
            text += f".{part}" if text else part
        else:
            text += f"[{part!r}]"
    return text
