"""`find_change`: whether a pre-started process can serve a session, and which control requests that takes.

Two options can change later: the model and, between modes that grant nothing permanently, the permission mode. All
other options must be the same as at the start (`snapshots.py`), and so must the environment, the current directory and
the registered hooks.

A *parked* process (`--await-claim`) also takes its directory later (`claim_session`). Measured with CLI 2.1.328:
project settings, rules, CLAUDE.md, hooks, tools of this process and transcripts then match a cold start there, and the
CLI refuses a directory whose settings it cannot apply any more.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from claude_agent_py._base.errors import OptionsError
from claude_agent_py.client import Client
from claude_agent_py.options import ClientOptions, environment
from claude_agent_py.pool.snapshots import build_key, copy_options

ONE_SESSION: Final = (
    "resume",
    "continue_conversation",
    "session_id",
    "fork_session",
    "resume_session_at",
    "resume_drops_turn",
    "resume_interrupted_turn",
)
"""Options that name one session: a process started with them can only serve the caller that requested it."""

LATER: Final = frozenset({"model", "permission_mode"})
"""Options that control requests change."""

MODES: Final = frozenset({"default", "acceptEdits", "dontAsk"})
"""Permission modes that a process can switch between. A process started with `bypassPermissions` stays able to bypass
them, `auto` depends on settings, and the mode after `plan` depends on the mode before it."""

PARK: Final = "await-claim"
"""The flag that makes a process wait for its directory."""

NOT_PARKED: Final = (
    "additional_directories",
    "plugins",
    "project_config_root",
    "sandbox",
    "session_store",
    "settings",
    "spawn",
)
"""Options that a parked process may not have: they depend on the directory, or are not tested with a claim."""

_NOT_COMPARED: Final = frozenset({"TRACEPARENT", "TRACESTATE", "PWD"})
"""Variables that do not have to match: the trace span of the code that starts a process, and the directory."""


def names_one_session(options: ClientOptions) -> bool:
    """Return whether options name one session, so that no process can be started ahead."""
    return any(getattr(options, name) for name in ONE_SESSION)


@dataclass(frozen=True)
class SessionRequest:
    """A requested session, and the inputs of its process's start other than the options."""

    options: ClientOptions
    """A copy, as the process is started with them."""
    keys: Mapping[str, object]
    """The options, for comparison."""
    directory: str
    environment: bytes
    """A digest: the values may be secrets."""
    is_parked: bool = False
    """Whether the process waits for its directory."""
    is_exact: bool = False
    """Whether only a process started with exactly these options can serve it."""

    @classmethod
    def for_options(cls, options: ClientOptions) -> "SessionRequest":
        """Return the request for a session with these options, started now."""
        env = environment(options, os.environ)
        variables = sorted((name, value) for name, value in env.items() if name not in _NOT_COMPARED)
        digest = hashlib.sha256(repr(variables).encode()).digest()
        return cls(
            copy_options(options),
            keys={name: build_key(options, name) for name in ClientOptions.model_fields},
            directory=os.path.abspath(options.cwd or os.curdir),
            environment=digest,
        )

    @property
    def launch_options(self) -> ClientOptions:
        """The options to start a process with. Its session has an id from the start."""
        options = self.options
        if not names_one_session(options):
            options = options.replace(session_id=uuid4())
        if not self.is_parked:
            return options
        return options.replace(extra_args={**options.extra_args, PARK: None})


@dataclass(frozen=True)
class Change:
    """The control requests that turn one session into another."""

    model: str | None = None
    permission_mode: Any = None
    cwd: str | None = None
    """The directory that a parked process takes."""

    async def apply(self, client: Client, wanted: ClientOptions) -> None:
        """Change the session of a client, which has the options `wanted` afterwards.

        Raises:
            ControlError: The CLI refused the change.
            CLIExitError: The CLI has exited.
        """
        if self.cwd is not None:
            await client.control("claim_session", cwd=self.cwd)
        if self.model is not None:
            await client.set_model(self.model)
        if self.permission_mode is not None:
            await client.set_permission_mode(self.permission_mode)
        client.use_options(wanted)


def find_change(made: SessionRequest, wanted: SessionRequest) -> Change | None:
    """Return the change that turns a process started for `made` into the session `wanted`, or None if it cannot."""
    if wanted.is_parked and not made.is_parked:
        return None
    claims = made.is_parked and not wanted.is_parked
    if made.environment != wanted.environment:
        return None
    if made.directory != wanted.directory and not claims:
        return None
    changed = (name for name, key in wanted.keys.items() if key != made.keys[name])
    values: dict[str, Any] = {name: getattr(wanted.options, name) for name in changed}
    if claims:
        values["cwd"] = wanted.directory
    if wanted.is_exact and values:
        return None
    changeable = LATER | {"cwd"} if claims else LATER
    # None means the default of the settings, which no control request restores.
    if not values.keys() <= changeable or None in values.values():
        return None
    if "permission_mode" in values and not {made.options.permission_mode, values["permission_mode"]} <= MODES:
        return None
    return Change(**values)


def check_for_parking(options: ClientOptions) -> None:
    """Check that a process with these options can wait for its directory.

    Raises:
        OptionsError: An option depends on the directory.
    """
    given = [name for name in NOT_PARKED if getattr(options, name)]
    servers = options.mcp_servers
    if not isinstance(servers, Mapping) or len(options.hosted_mcp_servers) < len(servers):
        # External servers would start in the wrong directory.
        given.append("mcp_servers")
    if given:
        problem = f"needs options that do not depend on the directory, but these are set: {', '.join(given)}"
        raise OptionsError(problem, option="parked")


def check_for_pool(options: ClientOptions) -> ClientOptions:
    """Return the options if processes can be started ahead with them.

    Raises:
        OptionsError: The options name one session.
    """
    for name in ONE_SESSION:
        if getattr(options, name):
            problem = "names one session, for which a pool cannot start processes ahead: use pool.client(options)"
            raise OptionsError(problem, option=name)
    return options
