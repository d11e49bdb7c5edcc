"""The secrets that the CLI gets: in its environment, in its settings and for MCP servers."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from claude_agent_py._base.lazy_names import LazyModule
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.delegation import definitions
from claude_agent_py.options.variables import environment, surroundings

if TYPE_CHECKING:
    from claude_agent_py._base import redaction
else:
    redaction = LazyModule("claude_agent_py._base.redaction")


def find_secrets(options: ClientOptions, surrounding: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the secrets that the CLI gets, by value, with the placeholder to write instead of each.

    Args:
        options: The options of the session.
        surrounding: The environment of the program; None means the environment of this process.
    """
    places: list[Any] = [environment(options, surroundings() if surrounding is None else surrounding)]
    given = (options.settings, options.managed_settings)
    places += [settings.get("env") for settings in given if isinstance(settings, Mapping)]
    for server in _iter_servers(options):
        fields = server if isinstance(server, Mapping) else vars(server)
        places += [fields.get("env"), fields.get("headers"), {"url": fields.get("url")}]
    found: dict[str, str] = {}
    for place in places:
        if isinstance(place, Mapping):
            found |= redaction.find_secrets({name: value for name, value in place.items() if isinstance(value, str)})
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def _iter_servers(options: ClientOptions) -> Iterator[object]:
    """Yield the MCP servers of the session and of its agents."""
    if isinstance(options.mcp_servers, Mapping):
        yield from options.mcp_servers.values()
    for agent in definitions(options).values():
        for spec in agent.mcp_servers or ():
            if not isinstance(spec, str):
                yield from spec.values()
