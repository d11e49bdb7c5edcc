"""`ToolServer`: tools, resources and prompts that the CLI reaches in this process over MCP.

A server keeps no connection state, so it may serve several clients at once; each has a `ServerSession`.
"""

import inspect
import json
import re
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote

from claude_agent_py._base.callbacks import Callback, callback_name
from claude_agent_py._base.checks import check_count, check_seconds, check_type
from claude_agent_py._base.errors import OptionsError
from claude_agent_py.formatting.encoders import JSONEncoder
from claude_agent_py.formatting.media import File, Media, mcp_block, resource_contents
from claude_agent_py.tools import jsonrpc
from claude_agent_py.tools.definition import ALWAYS_LOAD, Tool, as_tool
from claude_agent_py.tools.schema import Parameters, read_docstring
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.tools.names import mcp_tool_name, sanitise

_VARIABLE: Final = r"\{([A-Za-z_]\w*)\}"
_LEAVES_FOLDER: Final = re.compile(r"[/\\\0]|\A\.\.?\Z")
"""What a value must not have, because many functions make a path of it, and a model writes the URI."""


@dataclass(frozen=True)
class Resource:
    """A resource with a URI. `content` is its value, or an async or plain function that returns it.

    Text, bytes and `File`s are sent unchanged, other values as JSON. A URI with variables, such as `notes://{name}`, is
    a template: `content` is a function that gets their values by name, which are names without a path: a URI with a
    slash, a backslash, a NUL or `..` in a value, also percent-encoded, is not found.

    Raises:
        OptionsError: The content of a template is no function with these parameters.
    """

    uri: str
    content: Any = field(repr=False)
    name: str = ""
    description: str = ""
    media_type: str = ""
    _callback: Callback | None = field(init=False, repr=False, compare=False)
    _pattern: "re.Pattern[str]" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("uri", "name", "description", "media_type"):
            check_type(getattr(self, name), str, f"resource {self.uri!r}", name)
        object.__setattr__(self, "_callback", Callback(self.content) if callable(self.content) else None)
        variables = re.findall(_VARIABLE, self.uri)
        if len(set(variables)) < len(variables):
            raise OptionsError("names a variable twice", option=f"resource {self.uri!r}")
        parts = re.split(_VARIABLE, self.uri)[::2]
        groups = [f"(?P<{name}>[^/]+)" for name in variables]
        pattern = "".join(a + b for a, b in zip(map(re.escape, parts), [*groups, ""], strict=True))
        object.__setattr__(self, "_pattern", re.compile(pattern))
        if variables:
            self._check_function(variables)

    def _check_function(self, variables: Sequence[str]) -> None:
        try:
            if self._callback is not None:
                inspect.signature(self._callback.function).bind(**dict.fromkeys(variables))
                return
            problem = "it is no function"
        except TypeError as error:
            problem = str(error)
        names = ", ".join(variables)
        raise OptionsError(
            f"the content must be a function with the parameters {names}: {problem}", option=f"resource {self.uri!r}"
        )

    @property
    def is_template(self) -> bool:
        """Whether the URI has variables."""
        return bool(self._pattern.groups)

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values of the variables in a URI, decoded; None if it is not one of this resource."""
        found = self._pattern.fullmatch(uri)
        if found is None:
            return None
        variables = {name: unquote(value) for name, value in found.groupdict().items()}
        return None if any(map(_LEAVES_FOLDER.search, variables.values())) else variables

    def definition(self) -> JSONObject:
        """Return the MCP definition."""
        known = {"description": self.description, "mimeType": self.media_type}
        uri = "uriTemplate" if self.is_template else "uri"
        return {uri: self.uri, "name": self.name or self.uri, **{key: item for key, item in known.items() if item}}

    async def read(self, uri: str, variables: Mapping[str, str]) -> JSONObject:
        """Return the MCP contents for one of its URIs. Raises any exception of the function."""
        found = self.content if self._callback is None else await self._callback.call(**variables)
        if isinstance(found, File):
            return resource_contents(replace(found, uri=uri))
        if isinstance(found, str | bytes):
            return resource_contents(File(found, self.name or uri, self.media_type, uri))
        return resource_contents(
            File(JSONEncoder().encode(found), self.name, self.media_type or "application/json", uri)
        )


@dataclass(frozen=True)
class Prompt:
    """A prompt template. `render`, async or plain, builds the text from its arguments.

    Prompts become slash commands for servers in separate processes; CLI 2.1.328 does not request prompts from
    in-process servers.

    It returns text or media, or a list of these or of `(role, text)` pairs with the role `user` or `assistant`. Its
    parameters are the prompt's arguments, which are always strings.
    """

    render: Callable[..., object] = field(repr=False)
    name: str = ""
    description: str = ""
    _parameters: Parameters = field(init=False, repr=False)
    _callback: Callback = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        documentation = read_docstring(self.render.__doc__)
        name = self.name or callback_name(self.render).rpartition(".")[2]
        parameters = Parameters(self.render, tool=name, descriptions=documentation.parameters)
        for field_name, value in (
            ("name", name),
            ("description", self.description or documentation.description),
            ("_parameters", parameters),
            ("_callback", Callback(self.render)),
        ):
            object.__setattr__(self, field_name, value)

    def definition(self) -> JSONObject:
        """Return the MCP definition."""
        required = self._parameters.schema.get("required", [])
        arguments = [
            {"name": name, "description": schema.get("description", ""), "required": name in required}
            for name, schema in self._parameters.schema["properties"].items()
        ]
        return {"name": self.name, "description": self.description, "arguments": arguments}

    async def get(self, arguments: Mapping[str, str]) -> JSONObject:
        """Return the MCP result. Raises ToolInputError or any exception of the function."""
        positional, keywords = self._parameters.bind(arguments, None)
        rendered = await self._callback.call(*positional, **keywords)
        items = rendered if isinstance(rendered, list) else [rendered]
        return {"description": self.description, "messages": [_build_message(item) for item in items]}


def _build_message(item: object) -> JSONObject:
    role, content = item if isinstance(item, tuple) else ("user", item)
    if isinstance(content, Media):
        return {"role": role, "content": mcp_block(content)}
    text = content if isinstance(content, str) else JSONEncoder().encode(content)
    return {"role": role, "content": {"type": "text", "text": text}}


ToolPolicy: TypeAlias = Literal["always_ask", "always_deny"]
"""Override the permission mode for a tool: always ask, or hide the tool from the model."""

NO_TIMEOUT: Final = 2**31 - 1
"""The CLI's longest call timeout, in milliseconds: 25 days. The limits of `Tool` and `ToolServer` apply instead;
`MCP_TOOL_TIMEOUT` would end child agents that wait for a person."""


SMALL_SET_CHARS: Final = 12_500
"""The most characters that the definitions of a small set of tools have together, in JSON. The CLI (2.1.328) estimates
a token for every 2.5 characters of a definition, so this is 5 000 tokens."""


def load_small_set(definitions: Sequence[JSONObject], always_load: bool | None = None) -> None:
    """Mark the definitions of a server's tools as shown from the start, unless they have a mark.

    `always_load` None marks them if they are a small set.
    """
    if always_load is None:
        shown = [[item.get("name"), item.get("description"), item.get("inputSchema")] for item in definitions]
        always_load = len(json.dumps(shown, ensure_ascii=False)) <= SMALL_SET_CHARS
    for definition in definitions if always_load else ():
        definition["_meta"] = {ALWAYS_LOAD: True, **(definition.get("_meta") or {})}


class ToolServer:
    """An MCP server in this process.

    Args:
        name: The server's name; its tools are named `mcp__<name>__<tool>`, see `mcp_tool_name`.
        tools: Tools, or functions that become tools.
        version: The server's version, shown to people.
        instructions: Text about the server for the model.
        timeout: Time limit in seconds for tools without their own; None means no limit, not even `MCP_TOOL_TIMEOUT`.
        resources: Resources to read.
        prompts: Prompt templates. CLI 2.1.328 does not request prompts from in-process servers.
        always_load: Whether the model sees the tools from the start (True) or has to search for them (False). None
            shows them if their definitions have at most 12 500 characters together. `Tool.always_load` overrides it.
        policies: Overrides of the permission mode by tool name.
        page_size: Number of list entries per page; None means all.

    Raises:
        OptionsError: Two tools have the same name for the CLI, a policy names an unknown tool, ...
    """

    def __init__(
        self,
        name: str,
        tools: Iterable[Callable[..., object]] = (),
        *,
        version: str = "1.0.0",
        instructions: str | None = None,
        timeout: float | None = None,
        resources: Sequence[Resource] = (),
        prompts: Sequence[Prompt] = (),
        always_load: bool | None = None,
        policies: Mapping[str, ToolPolicy] | None = None,
        page_size: int | None = None,
    ) -> None:
        if not name:
            raise OptionsError("a server needs a name", option="ToolServer")
        option = f"server {name!r}"
        check_type(name, str, option, "name")
        check_type(version, str, option, "version")
        check_type(instructions, str | None, option, "instructions")
        check_type(always_load, bool | None, option, "always_load")
        resources, prompts = tuple(resources), tuple(prompts)  # they may be iterators
        for kind, given in ((Resource, resources), (Prompt, prompts)):
            for each in given:
                check_type(each, kind, option, kind.__name__.lower() + "s")
        check_seconds(timeout, f"timeout of {option}")
        if page_size is not None:
            check_count(page_size, f"page_size of {option}", 1)
        self.name = name
        self.version = version
        self.instructions = instructions
        self.timeout = timeout
        self.resources: Mapping[str, Resource] = {resource.uri: resource for resource in resources}
        self.prompts: Mapping[str, Prompt] = {prompt.name: prompt for prompt in prompts}
        self.always_load = always_load
        self.page_size = page_size
        self._tools: dict[str, Tool] = {}
        self._sessions: weakref.WeakSet[Any] = weakref.WeakSet()
        for function in tools:
            self._register(as_tool(function))
        self.policies: dict[str, str] = dict(policies or {})
        self._check_policies()

    def __repr__(self) -> str:
        return f"<ToolServer {self.name}: {', '.join(self._tools) or 'no tools'}>"

    # Tools

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools, in order."""
        return tuple(self._tools.values())

    @property
    def tool_names(self) -> list[str]:
        """The full names of the tools, for `allowed_tools` and permission rules."""
        return [mcp_tool_name(self.name, name) for name in self._tools]

    def get(self, name: str) -> Tool | None:
        """Return a tool by its own name, or None."""
        return self._tools.get(name)

    def add(self, function: Callable[..., object]) -> Tool:
        """Add a tool, replacing one of the same name. Clients are notified, and the model sees it in its next turn.

        Call it in the event loop of the sessions.
        """
        made = as_tool(function)
        self._tools.pop(made.name, None)
        self._register(made)
        self._announce()
        return made

    def remove(self, name: str) -> None:
        """Remove a tool if it exists. Running calls continue."""
        if self._tools.pop(name, None) is not None:
            self._announce()

    def _register(self, tool: Tool) -> None:
        clash = next((known for known in self._tools if sanitise(known) == sanitise(tool.name)), None)
        if clash is not None:
            raise OptionsError(
                f"the tools {clash!r} and {tool.name!r} have the same name for the CLI, "
                f"{mcp_tool_name(self.name, tool.name)}",
                option=f"server {self.name!r}",
            )
        self._tools[tool.name] = tool

    def _announce(self) -> None:
        for session in list(self._sessions):
            session.notify("notifications/tools/list_changed", {})

    # For the CLI

    def connect(self, session: object) -> None:
        """Start notifying a `ServerSession` of changes, until `disconnect`."""
        self._sessions.add(session)

    def disconnect(self, session: object) -> None:
        """Stop notifying a session."""
        self._sessions.discard(session)

    def initialize_result(self, wanted: object = None) -> JSONObject:
        """Return the result of the handshake, with the wanted protocol version if supported, or the newest."""
        capabilities: JSONObject = {"tools": {"listChanged": True}, "logging": {}}
        if self.resources:
            capabilities["resources"] = {}
        if self.prompts:
            capabilities["prompts"] = {}
        result: JSONObject = {
            "protocolVersion": wanted if wanted in jsonrpc.PROTOCOL_VERSIONS else jsonrpc.PROTOCOL_VERSIONS[0],
            "capabilities": capabilities,
            "serverInfo": {"name": self.name, "version": self.version},
        }
        return result | ({"instructions": self.instructions} if self.instructions else {})

    def definitions(self, kind: str) -> list[JSONObject]:
        """Return the MCP definitions of all tools, resources or prompts."""
        if kind == "prompts":
            return [prompt.definition() for prompt in self.prompts.values()]
        if kind != "tools":
            return [each.definition() for each in self.resources.values() if each.is_template == (kind == "templates")]
        definitions = [tool.definition() for tool in self._tools.values()]
        load_small_set(definitions, self.always_load)
        return definitions

    def manifest(self) -> JSONObject:
        """Return the handshake's data, so that the CLI can skip the handshake."""
        return {"initializeResult": self.initialize_result(), "toolsListResult": {"tools": self.definitions("tools")}}

    def config(self) -> JSONObject:
        """Return the CLI's settings for this server."""
        config: JSONObject = {"timeout": NO_TIMEOUT}
        if self.policies:
            config["tools"] = [{"name": name, "permission_policy": policy} for name, policy in self.policies.items()]
        return config

    def _check_policies(self) -> None:
        for name, policy in self.policies.items():
            if name not in self._tools:
                raise OptionsError(f"a policy names an unknown tool: {name!r}", option=f"server {self.name!r}")
            if policy not in ("always_ask", "always_deny"):
                raise OptionsError(
                    f"the policy of {name!r} must be always_ask or always_deny, not {policy!r}",
                    option=f"server {self.name!r}",
                )
