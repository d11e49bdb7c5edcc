"""`@tool`: define a tool from a function."""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Generic, overload
from weakref import WeakKeyDictionary

from anyio import CapacityLimiter, get_cancelled_exc_class
from typing_extensions import ParamSpec, TypedDict, TypeVar, Unpack

from claude_agent_py._base.callbacks import (
    Callback,
    DeadlineExpiredError,
    Report,
    callback_name,
    is_generator_callable,
    log_failure,
    make_handler_error,
    takes_arguments,
)
from claude_agent_py._base.checks import check_count, check_seconds, check_type
from claude_agent_py._base.configuration import suggest
from claude_agent_py._base.errors import OptionsError, ToolError, ToolTimeoutError
from claude_agent_py._base.event_loop import PerLoop
from claude_agent_py._base.json_object import check_values
from claude_agent_py.formatting.encoders import Encoder, JSONEncoder
from claude_agent_py.formatting.truncation import INLINE_CHARS, MAX_INLINE_CHARS
from claude_agent_py.tools.context import CURRENT, ToolContext
from claude_agent_py.tools.results import (
    OverflowPolicy,
    SizeLimit,
    ToolOutcome,
    add_structure,
    as_result,
    encode_result,
    failure_text,
)
from claude_agent_py.tools.schema import AnyParameters, Parameters, build_return_schema, read_docstring
from claude_agent_py.wire.base import JSONObject

P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)

NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
"""Tool names that MCP allows."""

_limiters: "PerLoop[WeakKeyDictionary[Tool, CapacityLimiter]]" = PerLoop(WeakKeyDictionary)

ALWAYS_LOAD = "anthropic/alwaysLoad"
SEARCH_HINT = "anthropic/searchHint"
MAX_RESULT_CHARS = "anthropic/maxResultSizeChars"


@dataclass(frozen=True, kw_only=True)
class ToolAnnotations:
    """Hints about a tool's effects. None is unspecified; clients then assume the worst."""

    title: str | None = None
    read_only: bool | None = None
    """The tool changes nothing. **The CLI runs only such tools in parallel**; it still asks for permission."""
    destructive: bool | None = None
    """The tool may delete or overwrite."""
    idempotent: bool | None = None
    """Repeating a call with the same arguments has no further effect."""
    open_world: bool | None = None
    """The tool accesses things outside this program, such as the web."""

    def fields(self) -> JSONObject:
        """Return the MCP form."""
        hints = {
            "title": self.title,
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }
        return {name: value for name, value in hints.items() if value is not None}


class ToolSettings(TypedDict, total=False):
    """Keywords of `@tool(...)` besides name and description."""

    title: str | None
    """Shown to people."""
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    timeout: float | None
    max_concurrency: int | None
    always_load: bool | None
    search_hint: str | None
    max_result_chars: int
    overflow: OverflowPolicy
    overflow_directory: str | Path | None
    encoder: Encoder
    structured: bool | None
    meta: Mapping[str, object]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Tool(Generic[P, R]):
    """A function that a model may call. Create one with `@tool`; calling the tool calls the function directly.

    A tool is immutable and may be shared by servers, chains and event loops.
    """

    function: Callable[P, R]
    name: str
    description: str
    parameters: Parameters | AnyParameters
    annotations: ToolAnnotations = field(default_factory=ToolAnnotations)
    timeout: float | None = None
    """Time limit of a call in seconds; None uses the server's limit, if any."""
    max_concurrency: int | None = None
    """Maximum number of concurrent calls per event loop; further calls wait. None means no limit."""
    always_load: bool | None = None
    """Whether the model sees the tool from the start (True) or has to search for it (False). None uses the setting of
    the server, which by default shows small sets of tools."""
    search_hint: str | None = None
    """Keywords for that search."""
    max_result_chars: int = INLINE_CHARS
    """Maximum length of the result's text, text files included, in UTF-16 code units. Values above the CLI's default of
    50 000 are requested from it. The note about truncated text is always included, even if it exceeds the limit."""
    overflow: OverflowPolicy = "truncate"
    overflow_directory: Path | None = None
    encoder: Encoder = field(default_factory=JSONEncoder)
    """Encodes returned data as text."""
    structured: bool | None = None
    """Whether returned data is also sent as structured content. The CLI shows the model this *instead of* the text.

    None sends what has the same meaning there: JSON objects, if the function's annotation says that it returns them,
    the tool has the default encoder, and JavaScript reads them exactly."""
    meta: Mapping[str, object] = field(default_factory=dict)
    """Additional `_meta` fields of the definition."""
    output_schema: JSONObject | None = None
    """The JSON Schema of the structured content, for programs; the CLI does not show it to the model. By default that
    of the function's annotation, if it is a type of JSON objects."""
    agent: Any = None
    """The definition of the agent that a call starts, for the delegation guide; None for all other tools."""
    callback: Callback = field(init=False)

    def __post_init__(self) -> None:
        _check_settings(self)
        object.__setattr__(self, "callback", Callback(self.function))
        for name in ("__doc__", "__name__", "__qualname__", "__module__"):
            object.__setattr__(self, name, getattr(self.function, name, None))
        object.__setattr__(self, "__wrapped__", self.function)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function directly."""
        return self.function(*args, **kwargs)

    async def call(
        self,
        arguments: Mapping[str, object],
        context: ToolContext | None = None,
        *,
        default_timeout: float | None = None,
    ) -> Any:
        """Validate the arguments, run the function and return its result.

        A plain function runs in a thread, which is abandoned on cancellation. The timeout starts once the call runs,
        after any wait for `max_concurrency`. `default_timeout`, in seconds, applies if the tool has none.

        Raises:
            ToolInputError: The arguments are invalid.
            ToolTimeoutError: The call timed out.
            Exception: Any exception of the function.
        """
        context = context or ToolContext(tool_name=self.name)
        timeout = default_timeout if self.timeout is None else self.timeout
        positional, keywords = self.parameters.bind(arguments, context)
        async with self._limiter():
            token = CURRENT.set(context)
            try:
                return await self.callback.call_within(timeout, context.cancellation, *positional, **keywords)
            except DeadlineExpiredError as late:
                raise ToolTimeoutError(self.name, timeout or 0.0) from late.__cause__
            finally:
                CURRENT.reset(token)

    def _limiter(self) -> AbstractAsyncContextManager[object]:
        """Return the limiter of concurrent calls in this event loop."""
        if self.max_concurrency is None:
            return nullcontext()
        return _limiters.get().setdefault(self, CapacityLimiter(self.max_concurrency))

    @property
    def is_structured(self) -> bool:
        """Whether returned objects are sent as structured content."""
        if self.structured is not None:
            return self.structured
        # Another encoder was chosen for what the model reads.
        has_default_encoder = type(self.encoder) is JSONEncoder and self.encoder.indent is None
        return self.output_schema is not None and has_default_encoder

    @property
    def input_schema(self) -> JSONObject:
        """The JSON Schema of the arguments."""
        return self.parameters.schema

    def definition(self) -> JSONObject:
        """Return the MCP definition, as in the reply to `tools/list`."""
        known: JSONObject = {
            ALWAYS_LOAD: self.always_load,
            SEARCH_HINT: self.search_hint,
            MAX_RESULT_CHARS: self.max_result_chars if self.max_result_chars > INLINE_CHARS else None,
        }
        optional = {
            "title": self.annotations.title,
            "annotations": self.annotations.fields(),
            "_meta": {name: value for name, value in known.items() if value is not None} | dict(self.meta),
        }
        definition = {"name": self.name, "description": self.description, "inputSchema": self.input_schema}
        if self.is_structured and self.output_schema is not None:
            definition["outputSchema"] = self.output_schema
        return definition | {name: value for name, value in optional.items() if value}

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str,
        input_schema: Mapping[str, object],
        handler: Callable[[JSONObject], object],
        **settings: Unpack[ToolSettings],
    ) -> "Tool[[JSONObject], Any]":
        """Create a tool from a JSON Schema. The handler gets the arguments as one dict, without validation."""
        _check_call(handler, (), settings)
        if not is_generator_callable(handler) and not takes_arguments(handler, 1):
            raise OptionsError("the handler must be a function of one argument, a dict", option=f"tool {name!r}")
        parameters = AnyParameters(input_schema, tool=name)
        return Tool(
            function=handler, name=name, description=description, parameters=parameters, **_split_settings(settings)
        )


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, **settings: Unpack[ToolSettings]
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[..., object] | None = None,
    /,
    *more: object,
    name: str | None = None,
    description: str | None = None,
    **settings: Unpack[ToolSettings],
) -> Any:
    """Create a tool from a function. Its signature and docstring describe it to the model.

        @tool
        def add(a: int, b: int = 1) -> int:
            "Add two numbers."
            return a + b

        @tool(read_only=True, timeout=10)
        async def search(query: Annotated[str, Field(min_length=2)], context: ToolContext) -> list[Hit]: ...

    Parameters may have any type that pydantic validates. A parameter of type `ToolContext` is hidden from the model and
    receives the call's context. A plain function runs in a thread.

    Args:
        function: A function, bound method or other callable.
        more: Rejected, with a hint for users of the official SDK's decorator.
        name: The tool's name; defaults to the function's name.
        description: Defaults to the docstring without its sections.
        settings: Fields of `Tool` and of `ToolAnnotations`.

    Raises:
        OptionsError: A parameter's type or name is not supported, or a keyword is unknown.
    """
    _check_call(function, more, settings)
    made = functools.partial(
        _make_tool, name=name, description=description, settings=settings, namespace=_get_caller_locals()
    )
    return made if function is None else made(function)


def _get_caller_locals() -> Mapping[str, object]:
    """Return the local variables of the caller of `tool`: annotations may name types that are defined there."""
    frame = inspect.currentframe()
    caller = frame.f_back.f_back if frame is not None and frame.f_back is not None else None
    return caller.f_locals if caller is not None else {}


def _check_call(function: object, more: tuple[object, ...], settings: Mapping[str, object]) -> None:
    """Reject arguments that `tool` does not take, such as those of the official SDK."""
    if more or isinstance(function, str):
        raise OptionsError(
            "takes a function and derives the rest from its signature and docstring: write `@tool` above "
            "`def greet(name: str) -> str`, or use Tool.from_schema to pass a schema",
            option="tool",
        )
    for setting in settings:
        if setting not in ToolSettings.__annotations__:
            instead = _INSTEAD.get(setting) or suggest(setting, ToolSettings.__annotations__)
            raise OptionsError(f"{setting} is unknown{instead}", option="tool")


_INSTEAD: Final[Mapping[str, str]] = {
    "input_schema": "; it is derived from the function's parameters, or passed to Tool.from_schema",
    "annotations": "; pass the hints as keywords: read_only, destructive, idempotent, open_world",
}


def as_tool(function: object) -> Tool:
    """Return a tool unchanged, or create one from a function. Raises OptionsError for anything else."""
    if not callable(function):
        kind = f"{type(function).__module__}.{type(function).__qualname__}".removeprefix("builtins.")
        raise OptionsError("must be a function or a Tool", option=f"tool {kind!r}")
    return function if isinstance(function, Tool) else tool(function)


def _make_tool(
    function: Callable[P, R],
    name: str | None,
    description: str | None,
    settings: ToolSettings,
    namespace: Mapping[str, object],
) -> Tool[P, R]:
    chosen = name or callback_name(function).rpartition(".")[2]
    documentation = read_docstring(_get_docstring(function))
    parameters = Parameters(function, tool=chosen, descriptions=documentation.parameters, namespace=namespace)
    return Tool(
        function=function,
        name=chosen,
        description=documentation.description if description is None else description,
        parameters=parameters,
        output_schema=build_return_schema(function, namespace),
        **_split_settings(settings),
    )


def _get_docstring(function: Callable[..., object]) -> str | None:
    while isinstance(function, functools.partial):
        function = function.func
    return function.__doc__ if inspect.isroutine(function) else type(function).__call__.__doc__ or function.__doc__


def _split_settings(settings: ToolSettings) -> dict[str, Any]:
    """Return the fields of a `Tool`, with the hints moved to its annotations."""
    given: dict[str, Any] = dict(settings)
    hints = {name: given.pop(name) for name in ToolAnnotations.__dataclass_fields__ if name in given}
    directory = given.pop("overflow_directory", None)
    return {
        **given,
        "annotations": ToolAnnotations(**hints),
        "overflow_directory": Path(directory) if directory else None,
    }


def _check_settings(tool: Tool) -> None:
    """Reject settings that would fail later, far from their definition."""
    option = f"tool {tool.name!r}"
    check_type(tool.name, str, option, "name")
    if not NAME.fullmatch(tool.name):
        raise OptionsError(
            "a name must have 1 to 128 letters, digits, `_`, `-` or `.`; set one with name=", option=option
        )
    if is_generator_callable(tool.function):
        raise OptionsError(
            "a generator function cannot be a tool; return a list, and report steps with ToolContext.report_progress",
            option=option,
        )
    # The CLI drops all tools of a server, without a word, if one has a wrong type.
    hints = tool.annotations
    for kind, values in (
        (str, {"description": tool.description}),
        (str | None, {"title": hints.title, "search_hint": tool.search_hint}),
        (bool | None, {"always_load": tool.always_load, "structured": tool.structured}),
        (
            bool | None,
            {hint: getattr(hints, hint) for hint in ("read_only", "destructive", "idempotent", "open_world")},
        ),
        (int, {"max_result_chars": tool.max_result_chars}),
        (Mapping, {"meta": tool.meta}),
    ):
        for name, value in values.items():
            check_type(value, kind, option, name)
    try:
        check_values(dict(tool.meta))
    except ValueError as error:
        raise OptionsError(f"meta {error}", option=option) from None
    check_seconds(tool.timeout, f"timeout of {option}")
    if tool.max_concurrency is not None:
        check_count(tool.max_concurrency, f"max_concurrency of {option}", 1)
    if not 1 <= tool.max_result_chars <= MAX_INLINE_CHARS:
        raise OptionsError(f"max_result_chars must be between 1 and {MAX_INLINE_CHARS:,}", option=option)
    if tool.overflow not in ("truncate", "file", "error"):
        raise OptionsError(f"overflow must be 'truncate', 'file' or 'error', not {tool.overflow!r}", option=option)


async def run_tool(
    tool: Tool,
    arguments: Mapping[str, object],
    context: ToolContext,
    *,
    encoder: Encoder | None = None,
    timeout: float | None = None,
    report: Report | None = None,
) -> ToolOutcome:
    """Run a call and return its outcome. Raises only on cancellation.

    `timeout`, in seconds, applies to tools without their own. Exceptions other than `ToolError` go to `report`, which
    must not raise; without one they are logged with their traceback.
    """
    try:
        value = await tool.call(arguments, context, default_timeout=timeout)
        result = as_result(value)
        if tool.is_structured and result is not value:
            result = add_structure(result, always=tool.structured is True)
        limit = SizeLimit(chars=tool.max_result_chars, policy=tool.overflow, directory=tool.overflow_directory)
        encoded = await encode_result(result, encoder or tool.encoder, limit)
    except BaseException as error:
        if not isinstance(error, ToolError):
            (report or log_failure)(make_handler_error(f"tool {tool.name}", error))
        return build_failure(tool.name, error)
    return replace(encoded, value=value)


def build_failure(tool: str, error: BaseException) -> ToolOutcome:
    """Return the outcome of a failed call."""
    if not isinstance(error, Exception):
        cancelled_itself = isinstance(error, get_cancelled_exc_class())
        error = ToolError(f"{tool} cancelled itself" if cancelled_itself else f"{tool} tried to exit the program")
    return ToolOutcome(text=failure_text(tool, error), is_error=True, error=error)
