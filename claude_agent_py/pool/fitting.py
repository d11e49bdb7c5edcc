"""Which sessions a process that was started ahead may become: what its start has fixed, and what can change later.

Two options change later: the model and, between modes that grant nothing for good, the permission mode. Anything else
has to be as it was at the start, and so has what a start reads outside of the options: the environment, the current
directory, and the registered hooks.

A *parked* process (`--await-claim`) also takes its directory later (`claim_session`). Measured with CLI 2.1.328:
project settings, rules, CLAUDE.md, hooks, tools of this process and transcripts are then those of a cold start there,
and the CLI refuses a directory whose settings it cannot apply any more.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from claude_agent_py._errors import OptionsError
from claude_agent_py._launch.environment import environment
from claude_agent_py.client import Client
from claude_agent_py.options.client_options import ClientOptions

ONE_SESSION: Final = (
    "resume",
    "continue_conversation",
    "session_id",
    "fork_session",
    "resume_session_at",
    "resume_drops_turn",
    "resume_interrupted_turn",
)
"""Options that name one session: a process that was started with them is only for whoever asked for it."""

LATER: Final = frozenset({"model", "permission_mode"})
"""Options that control requests change."""

MODES: Final = frozenset({"default", "acceptEdits", "dontAsk"})
"""Permission modes that a process can be moved between. A process that was started with `bypassPermissions` stays able
to bypass them, `auto` depends on settings, and what follows `plan` depends on the mode before."""

PARK: Final = "await-claim"
"""The flag with which a process waits for its directory."""

NOT_PARKED: Final = (
    "additional_directories",
    "plugins",
    "project_config_root",
    "sandbox",
    "session_store",
    "settings",
    "spawn",
)
"""Options that a parked process may not have: they depend on the directory, or were not tried with a claim."""

_NOT_COMPARED: Final = frozenset({"TRACEPARENT", "TRACESTATE", "PWD"})
"""Variables of the span of whoever starts a process, which is not that of whoever uses it, and of the directory."""


def names_one_session(options: ClientOptions) -> bool:
    """Return whether options are for one session, so that no process can be started ahead."""
    return any(getattr(options, name) for name in ONE_SESSION)


@dataclass(frozen=True)
class Wish:
    """The session that somebody asks for, and what the start of its process reads outside of the options."""

    options: ClientOptions
    directory: str
    environment: bytes
    """A digest: the values may be secrets."""
    hooks: tuple[Any, ...]
    is_parked: bool = False
    """Whether the process waits for its directory."""
    is_exact: bool = False
    """Whether only a process that was started for these very options will do."""

    def exactly(self) -> "Wish":
        """Return the wish for a process that was started for these very options."""
        return replace(self, is_exact=True)

    @classmethod
    def of(cls, options: ClientOptions, *, is_parked: bool = False) -> "Wish":
        """Return the wish for a session with these options, started now."""
        env = environment(options, os.environ)
        told = sorted((name, value) for name, value in env.items() if name not in _NOT_COMPARED)
        digest = hashlib.sha256(repr(told).encode()).digest()
        hooks = () if options.hooks is None else tuple(options.hooks)
        return cls(options, os.path.abspath(options.cwd or os.curdir), digest, hooks, is_parked)

    @property
    def launch_options(self) -> ClientOptions:
        """The options to start a process with."""
        options = self.options
        return options.replace(extra_args={**options.extra_args, PARK: None}) if self.is_parked else options


@dataclass(frozen=True)
class Change:
    """What makes one session of another."""

    model: str | None = None
    permission_mode: Any = None
    cwd: str | None = None
    """The directory that a parked process takes."""

    @property
    def is_nothing(self) -> bool:
        """Whether the session is already the one that is wanted."""
        return self == Change()

    async def apply(self, client: Client, wanted: ClientOptions) -> None:
        """Change the session of a client, which has the options `wanted` afterwards.

        Raises:
            ControlError: The CLI does not change it.
            CLIExitError: The CLI has ended.
        """
        if self.cwd is not None:
            await client.control("claim_session", cwd=self.cwd)
        if self.model is not None:
            await client.set_model(self.model)
        if self.permission_mode is not None:
            await client.set_permission_mode(self.permission_mode)
        client.use_options(wanted)


def change_to(made: Wish, wanted: Wish) -> Change | None:
    """Return the change that turns a process started for `made` into the session `wanted`; None if there is none."""
    if wanted.is_parked and not made.is_parked:
        return None
    claims = made.is_parked and not wanted.is_parked
    if (made.environment, made.hooks) != (wanted.environment, wanted.hooks):
        return None
    if made.directory != wanted.directory and not claims:
        return None
    values: dict[str, Any] = {name: getattr(wanted.options, name) for name in _different(made.options, wanted.options)}
    if claims:
        values["cwd"] = wanted.directory
    if wanted.is_exact and values:
        return None
    changeable = LATER | {"cwd"} if claims else LATER
    if not values.keys() <= changeable or None in values.values():  # no request restores the default of the settings
        return None
    if "permission_mode" in values and not {made.options.permission_mode, values["permission_mode"]} <= MODES:
        return None
    return Change(**values)


def _different(one: ClientOptions, other: ClientOptions) -> set[str]:
    """Return the names of the options that differ. Handlers are the same only if they are equal."""
    if one is other:
        return set()
    named = one.model_fields_set | other.model_fields_set
    return {name for name in named if not _is_same(getattr(one, name), getattr(other, name))}


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return list(one) == list(other) and all(_is_same(one[name], other[name]) for name in one)
    return type(one) is type(other) and bool(one == other)


def check_for_parking(options: ClientOptions) -> None:
    """Refuse options with which a process cannot wait for its directory.

    Raises:
        OptionsError: There is one.
    """
    given = [name for name in NOT_PARKED if getattr(options, name)]
    servers = options.mcp_servers
    if not isinstance(servers, Mapping) or len(options.hosted_mcp_servers) < len(servers):
        given.append("mcp_servers")  # they would start in the wrong directory
    if given:
        raise OptionsError(f"cannot be combined with {given[0]}, which depends on the directory", option="parked")


def check_for_pool(options: ClientOptions) -> ClientOptions:
    """Return the options if processes can be started ahead with them.

    Raises:
        OptionsError: They name one session.
    """
    for name in ONE_SESSION:
        if getattr(options, name):
            problem = "names one session, for which no process can be started ahead: give it to pool.client(options)"
            raise OptionsError(problem, option=name)
    return options
