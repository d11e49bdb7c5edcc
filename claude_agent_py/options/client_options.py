"""`ClientOptions`: the options of a session, checked together."""

import warnings
from collections.abc import Mapping
from typing import Any, Generic, Self, TypeVar, overload

from claude_agent_py._base.callbacks import callback_name
from claude_agent_py._base.errors import OptionsError, OptionsWarning
from claude_agent_py.options.conflicts import check_conflicts, find_warnings
from claude_agent_py.options.fields import OptionFields
from claude_agent_py.options.output_shape import Output

Other = TypeVar("Other")


class ClientOptions(OptionFields[Output], Generic[Output]):
    """The options of a session, all optional and immutable.

    `options.replace(model="opus")` returns a validated copy with changes. Options for which an official SDK takes a
    dict accept the same dict.

    Raises:
        OptionsError: An option is unknown or invalid; `option` names it.

    Warns:
        OptionsWarning: `can_use_tool` would never be called, or a tool is unknown.
    """

    def model_post_init(self, context: object, /) -> None:
        """Check for conflicts and warn about useless options."""
        check_conflicts(self)
        for text in find_warnings(self):
            warnings.warn(text, OptionsWarning, stacklevel=4)

    @overload
    def replace(self, *, output_type: type[Other], **changes: object) -> "ClientOptions[Other]": ...
    @overload
    def replace(self, *, output_type: None, **changes: object) -> "ClientOptions": ...
    @overload
    def replace(self, **changes: object) -> Self: ...
    def replace(self, **changes: object) -> Any:
        """Return a copy with some values changed, validated like new options. Raises OptionsError."""
        return super().replace(**changes)

    def __repr_args__(self) -> Any:
        for name, value in super().__repr_args__():
            yield name, _redact(name, value)


def _redact(name: str, value: Any) -> object:
    """Return the value of an option for a repr, without values that may be secrets.

    It goes by the type of the value, so that a new option shows no secrets either.
    """
    if isinstance(value, Mapping):
        return list(value)
    if value is not None and name == "session_store":
        return type(value).__name__
    if callable(value) and name != "output_type":
        return callback_name(value)
    return value


def refuse_options(call: str, given: Mapping[str, object]) -> None:
    """Raise TypeError if options were passed as arguments: they belong into a `ClientOptions`."""
    if not given:
        return
    names = ", ".join(f"{name}=..." for name in given)
    unknown = [name for name in given if name not in ClientOptions.model_fields]
    hint = "" if unknown else f"; pass ClientOptions({names})"
    raise TypeError(f"{call}() takes options as one ClientOptions, and got {unknown[0] if unknown else names}{hint}")


def options_or_defaults(options: object) -> ClientOptions:
    """Return the options, or the default options for None.

    Raises:
        OptionsError: `options` has another type.
    """
    if options is None:
        return ClientOptions()
    if isinstance(options, ClientOptions):
        return options
    hint = "; write ClientOptions(**options)" if isinstance(options, Mapping) else ""
    raise OptionsError(f"must be ClientOptions, not {type(options).__name__}{hint}", option="options")
