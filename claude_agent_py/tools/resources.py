"""Resources and prompts of an MCP server.

The CLI's own tools list and read resources. Prompts become slash commands for servers in separate processes; CLI
2.1.328 does not request prompts from in-process servers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from claude_agent_py._callbacks import Callback, callback_name
from claude_agent_py.formatting.encoders import JSONEncoder
from claude_agent_py.formatting.media import File, Media, is_media, mcp_block, resource_contents
from claude_agent_py.tools.docstrings import read_docstring
from claude_agent_py.tools.schema import Parameters
from claude_agent_py.wire.base import JSONObject

Content: TypeAlias = str | bytes | File | Any


@dataclass(frozen=True)
class Resource:
    """A resource with a URI. `content` is its value, or an async or plain function that returns it.

    Text, bytes and `File`s are sent unchanged, other values as JSON.
    """

    uri: str
    content: Content | Callable[[], Any] = field(repr=False)
    name: str = ""
    description: str = ""
    media_type: str = ""
    _callback: Callback | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_callback", Callback(self.content) if callable(self.content) else None)

    def definition(self) -> JSONObject:
        """Return the MCP definition."""
        known = {"description": self.description, "mimeType": self.media_type}
        return {"uri": self.uri, "name": self.name or self.uri, **{key: item for key, item in known.items() if item}}

    async def read(self) -> JSONObject:
        """Return the MCP contents. Raises any exception of the function."""
        found = self.content if self._callback is None else await self._callback.call()
        if isinstance(found, File):
            return resource_contents(replace(found, uri=self.uri))
        if isinstance(found, str | bytes):
            return resource_contents(File(found, self.name or self.uri, self.media_type, self.uri))
        return resource_contents(
            File(JSONEncoder().encode(found), self.name, self.media_type or "application/json", self.uri)
        )


@dataclass(frozen=True)
class Prompt:
    """A prompt template. `render`, async or plain, builds the text from its arguments.

    It returns text or media, or a list of these or of `(role, text)` pairs with the role `user` or `assistant`. Its
    parameters are the prompt's arguments, which are always strings.
    """

    render: Callable[..., Any] = field(repr=False)
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


def _build_message(item: Any) -> JSONObject:
    role, content = item if isinstance(item, tuple) else ("user", item)
    return {"role": role, "content": _build_block(content)}


def _build_block(content: Any) -> JSONObject:
    if is_media(content):
        medium: Media = content
        return mcp_block(medium)
    return {"type": "text", "text": content if isinstance(content, str) else JSONEncoder().encode(content)}
