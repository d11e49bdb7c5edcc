"""`@tool`: a tool from a function.

Owns what a tool is: a function, what a model is told about it, and the rules by which it is run. How arguments become a
call is in `schema`, how a call is run in `running`, what becomes of its result in `results`.
"""

import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, ParamSpec, Protocol, TypeVar, overload

from typing_extensions import TypedDict, Unpack

from claude_agent_py.callbacks import Callback, callback_name
from claude_agent_py.configuration import suggest
from claude_agent_py.errors import OptionsError
from claude_agent_py.formatting.encoders import Encoder, JSONEncoder
from claude_agent_py.formatting.truncation import INLINE_CHARS, MAX_INLINE_CHARS
from claude_agent_py.tools.context import ToolContext
from claude_agent_py.tools.docstrings import read_docstring
from claude_agent_py.tools.results import OverflowPolicy, SizeLimit
from claude_agent_py.tools.running import run
from claude_agent_py.tools.schema import AnyParameters, Bound, Parameters
from claude_agent_py.wire.base import JSONObject

P = ParamSpec("P")
R = TypeVar("R")

NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
"""What MCP allows as the name of a tool."""

ALWAYS_LOAD = "anthropic/alwaysLoad"
SEARCH_HINT = "anthropic/searchHint"
MAX_RESULT_CHARS = "anthropic/maxResultSizeChars"


class TakesArguments(Protocol):
    """What checks the arguments of a model."""

    schema: JSONObject

    def bind(self, arguments: Mapping[str, Any], context: ToolContext | None) -> Bound:
        """Give the arguments for the function. Raises ToolInputError where they do not fit."""
        ...


@dataclass(frozen=True, kw_only=True)
class ToolAnnotations:
    """Hints about what a tool does. None says nothing, and a client then assumes the worst."""

    title: str | None = None
    read_only: bool | None = None
    """It changes nothing. **The CLI runs only such tools in parallel**; it asks for permission all the same."""
    destructive: bool | None = None
    """It may delete or overwrite."""
    idempotent: bool | None = None
    """Calling it again with the same arguments changes nothing more."""
    open_world: bool | None = None
    """It reaches out to things beyond this program, such as the web."""

    def fields(self) -> JSONObject:
        """Give the MCP form."""
        hints = {
            "title": self.title,
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }
        return {name: value for name, value in hints.items() if value is not None}


class ToolSettings(TypedDict, total=False):
    """What `@tool(...)` may be told beside the name and the description."""

    title: str | None
    """For people."""
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    timeout: float | None
    max_concurrency: int | None
    always_load: bool
    search_hint: str | None
    max_result_chars: int
    overflow: OverflowPolicy
    overflow_directory: str | Path | None
    encoder: Encoder
    structured: bool
    meta: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Tool(Generic[P, R]):
    """A function that a model may call. Make one with `@tool`; calling it calls the function, as if it were bare.

    A tool is a value: it may be in several servers, chains and event loops at once.
    """

    function: Callable[P, R]
    name: str
    description: str
    parameters: TakesArguments
    annotations: ToolAnnotations = field(default_factory=ToolAnnotations)
    timeout: float | None = None
    """Seconds that a call may take; None means the server's limit, if it has one."""
    max_concurrency: int | None = None
    """How many calls may run at once in one event loop; the others wait. None means any number."""
    always_load: bool = False
    """Always tell the model about it. By default the CLI defers tools: the model finds them by searching."""
    search_hint: str | None = None
    """A few words by which a search finds it."""
    max_result_chars: int = INLINE_CHARS
    """How much text a result may have, counted in UTF-16 code units. More than the CLI's 50 000 is asked of it. The
    note that something was cut always stands, also where it alone is longer than this."""
    overflow: OverflowPolicy = "truncate"
    overflow_directory: Path | None = None
    encoder: Encoder = field(default_factory=JSONEncoder)
    """How data become text."""
    structured: bool = False
    """Also send returned data as structured content, for programs. The CLI shows the model that *instead of* text."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Further `_meta` of the definition."""
    callback: Callback = field(init=False)
    """The function, ready to be called."""

    def __post_init__(self) -> None:
        _check(self)
        object.__setattr__(self, "callback", Callback(self.function))
        for name in ("__doc__", "__name__", "__qualname__", "__module__"):
            object.__setattr__(self, name, getattr(self.function, name, None))
        object.__setattr__(self, "__wrapped__", self.function)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, with nothing in between."""
        return self.function(*args, **kwargs)

    async def call(self, arguments: Mapping[str, Any], context: ToolContext | None = None) -> Any:
        """Run it with the arguments that a model wrote, and give what the function returned.

        Arguments are checked first. A plain function runs in a thread, which cancelling abandons. At most
        `max_concurrency` calls run at once, and the time limit counts from when a call begins to run.

        Raises:
            ToolInputError: The arguments do not fit.
            ToolTimeoutError: It was not done in time.
            Exception: Whatever the function raised.
        """
        return await run(self, arguments, context or ToolContext(tool_name=self.name), self.timeout)

    @property
    def input_schema(self) -> JSONObject:
        """The JSON Schema of the arguments."""
        return self.parameters.schema

    @property
    def size_limit(self) -> SizeLimit:
        """How much text a result may have, and what becomes of more."""
        return SizeLimit(chars=self.max_result_chars, policy=self.overflow, directory=self.overflow_directory)

    def definition(self) -> JSONObject:
        """Give the MCP definition, as `tools/list` answers with it."""
        definition: JSONObject = {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
        }
        if self.annotations.title:
            definition["title"] = self.annotations.title
        if annotations := self.annotations.fields():
            definition["annotations"] = annotations
        if meta := {**self._meta(), **self.meta}:
            definition["_meta"] = meta
        return definition

    def _meta(self) -> JSONObject:
        meta: JSONObject = {}
        if self.always_load:
            meta[ALWAYS_LOAD] = True
        if self.search_hint:
            meta[SEARCH_HINT] = self.search_hint
        if self.max_result_chars > INLINE_CHARS:
            meta[MAX_RESULT_CHARS] = self.max_result_chars
        return meta

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str,
        input_schema: Mapping[str, Any],
        handler: Callable[[dict[str, Any]], Any],
        **settings: Unpack[ToolSettings],
    ) -> "Tool[[dict[str, Any]], Any]":
        """Make a tool of a JSON Schema written by hand. The handler gets the arguments, unchecked, as one dict."""
        _check_call(handler, (), settings)
        parameters = AnyParameters(input_schema, tool=name)
        return Tool(function=handler, name=name, description=description, parameters=parameters, **_fields(settings))


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, **settings: Unpack[ToolSettings]
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *more: object,
    name: str | None = None,
    description: str | None = None,
    **settings: Unpack[ToolSettings],
) -> Any:
    """Make a tool of a function: its parameters, their types and its docstring say what a model needs to know.

    ::

        @tool
        def add(a: int, b: int = 1) -> int:
            "Add two numbers."
            return a + b

        @tool(read_only=True, timeout=10)
        async def search(query: Annotated[str, Field(min_length=2)], context: ToolContext) -> list[Hit]: ...

    Types may be anything that pydantic validates. A parameter of type `ToolContext` is not the model's: it is told
    about the call. A plain function runs in a thread.

    Args:
        function: The function; a bound method or another callable will do.
        more: Takes nothing. It is there for an error that helps who knows the decorator of the official SDK.
        name: What the model calls it; the function's name by default.
        description: What the model is told; the docstring without its sections by default.
        settings: Fields of `Tool` and of `ToolAnnotations`.

    Raises:
        OptionsError: A parameter has a type without a JSON Schema, a name that the API does not allow, ...; or a
            keyword is unknown.
    """
    _check_call(function, more, settings)
    namespace = sys._getframe(1).f_locals
    if function is not None:
        return _made(function, name, description, settings, namespace)

    def decorate(function: Callable[P, R]) -> Tool[P, R]:
        return _made(function, name, description, settings, namespace)

    return decorate


def _check_call(function: object, more: tuple[object, ...], settings: Mapping[str, Any]) -> None:
    """Refuse what `tool` does not take, above all how the official SDK is told of a tool."""
    if more or isinstance(function, str):
        raise OptionsError(
            "it takes a function, whose name, docstring and parameters say the rest: `@tool` above "
            "`def greet(name: str) -> str`; for a schema of your own there is Tool.from_schema",
            option="tool",
        )
    for setting in settings:
        if setting not in ToolSettings.__annotations__:
            instead = _INSTEAD.get(setting) or suggest(setting, ToolSettings.__annotations__)
            raise OptionsError(f"{setting} is unknown{instead}", option="tool")


_INSTEAD: Final[Mapping[str, str]] = {
    "input_schema": "; the parameters of the function say it, or Tool.from_schema takes one",
    "annotations": "; its hints are keywords: read_only, destructive, idempotent, open_world",
}


def as_tool(function: Any) -> Tool[..., Any]:
    """Give a tool: the same if it is one, else one made of the function.

    Raises:
        OptionsError: It is neither, or a function that cannot be a tool.
    """
    if not callable(function):
        kind = f"{type(function).__module__}.{type(function).__qualname__}".removeprefix("builtins.")
        raise OptionsError("expected a function or a Tool", option=f"tool {kind!r}")
    return function if isinstance(function, Tool) else tool(function)


def _made(
    function: Callable[P, R],
    name: str | None,
    description: str | None,
    settings: ToolSettings,
    namespace: Mapping[str, Any],
) -> Tool[P, R]:
    chosen = name or callback_name(function).rpartition(".")[2]
    documentation = read_docstring(_docstring(function))
    parameters = Parameters(function, tool=chosen, descriptions=documentation.parameters, namespace=dict(namespace))
    return Tool(
        function=function,
        name=chosen,
        description=documentation.description if description is None else description,
        parameters=parameters,
        **_fields(settings),
    )


def _docstring(function: Callable[..., Any]) -> str | None:
    while isinstance(function, functools.partial):
        function = function.func
    return function.__doc__ if inspect.isroutine(function) else type(function).__call__.__doc__ or function.__doc__


def _fields(settings: ToolSettings) -> dict[str, Any]:
    """Give the fields of a tool: the hints go into its annotations."""
    given: dict[str, Any] = dict(settings)
    hints = {name: given.pop(name) for name in ToolAnnotations.__dataclass_fields__ if name in given}
    directory = given.pop("overflow_directory", None)
    return {
        **given,
        "annotations": ToolAnnotations(**hints),
        "overflow_directory": Path(directory) if directory else None,
    }


def _check(tool: Tool[..., Any]) -> None:
    """Refuse what would fail later, far from where it was written."""
    option = f"tool {tool.name!r}"
    if not NAME.fullmatch(tool.name):
        raise OptionsError("a name has 1 to 128 letters, digits, `_`, `-` and `.`; give one with name=", option=option)
    if tool.timeout is not None and tool.timeout <= 0:
        raise OptionsError(f"the timeout must be positive, not {tool.timeout}", option=option)
    if tool.max_concurrency is not None and tool.max_concurrency < 1:
        raise OptionsError(f"max_concurrency must be at least 1, not {tool.max_concurrency}", option=option)
    if not 1 <= tool.max_result_chars <= MAX_INLINE_CHARS:
        raise OptionsError(f"max_result_chars must be 1 to {MAX_INLINE_CHARS:,}", option=option)
    if tool.overflow not in ("truncate", "file", "error"):
        raise OptionsError(f"overflow is truncate, file or error, not {tool.overflow!r}", option=option)
