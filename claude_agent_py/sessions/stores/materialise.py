"""Resume from a store: write a session into a private configuration folder, from which the CLI resumes it.

The folder has what a login needs (credentials, settings), links to the user's own agents, skills and the like, and the
transcripts. Only this user can read it. It is removed when the CLI has ended. If this process is killed, the next one
removes the secrets from its folder, and the transcripts are sent to the store when their session is resumed.
"""

import contextlib
import json
import logging
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import anyio

from claude_agent_py._errors import StoreError
from claude_agent_py._event_loop import run_file_work
from claude_agent_py._private_folders import leftovers, lock, unlock
from claude_agent_py._untrusted import read_bytes
from claude_agent_py.sessions.folders import is_id
from claude_agent_py.sessions.stores.blocking import Place
from claude_agent_py.sessions.stores.local import (
    SUFFIX,
    Append,
    path_below,
    place_of,
    send_older,
    transcripts_of,
    write_transcript,
)
from claude_agent_py.sessions.stores.protocol import SessionStore, SessionStoreEntry, described, implements

logger: logging.Logger = logging.getLogger("claude_agent_py")

PREFIX: Final = "claude-agent-py-session-"
_OURS: Final = re.compile(rf"{PREFIX}[0-9a-f]{{16}}")
SETTINGS: Final = ("settings.json", "cowork_settings.json")
LINKED: Final = ("CLAUDE.md", "agents", "commands", "output-styles", "plugins", "rules", "skills")
"""The linked parts of the user's folder: files for the model, which the CLI only reads, and plugins."""
KEPT_DAYS: Final = 7
"""How long the transcripts of a killed process are kept."""
NEW_SECONDS: Final = 60.0
KEYCHAIN_SECONDS: Final = 5.0
_MOST_BYTES: Final = 16 * 1024 * 1024


class PrivateFolder:
    """A configuration folder of one CLI process. Its secrets are removed at the latest when the interpreter exits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._owner = os.getpid()
        self._at_exit = weakref.finalize(self, _abandon, path, self._owner)

    @property
    def projects(self) -> Path:
        """The folder of the transcripts."""
        return self.path / "projects"

    def remove(self, *, keep_transcripts: bool = False) -> None:
        """Remove it, or everything except the transcripts. Blocks; never raises."""
        if self._owner != os.getpid():
            return
        self._at_exit.detach()
        if keep_transcripts:
            _strip(self.path)
        else:
            _remove(self.path)
        unlock(self.path)


# Making it -------------------------------------------------------------------------------------------------------


def make_folder(env: Mapping[str, str] | None, user: str | int | None = None) -> PrivateFolder:
    """Make a private configuration folder with what a login needs. Blocks.

    Args:
        env: The environment of the CLI, which determines the user's own folder; None uses nothing from there.
        user: The operating system user who gets the folder, if not that of this process. Only that user's own files
            are copied: a link in its home could lead to files that only this process may read.

    Raises:
        StoreError: It cannot be created.
    """
    parent = Path(tempfile.gettempdir()).resolve()
    _sweep(parent)
    path = parent / f"{PREFIX}{secrets.token_hex(8)}"
    try:
        path.mkdir(mode=0o700)
        lock(path)
    except OSError as error:
        raise StoreError(f"the folder to resume in cannot be made: {error}") from error
    folder = PrivateFolder(path)
    try:
        folder.projects.mkdir(mode=0o700)
        if env is not None:
            _carry_over(env, path, _uid(user))
    except OSError as error:
        folder.remove()
        raise StoreError(f"the folder to resume in cannot be filled: {error}") from error
    return folder


def give_away(folder: PrivateFolder, user: str | int) -> None:
    """Make another user the owner of all files. Blocks."""
    for place, _, names in os.walk(folder.path):
        for path in (place, *(os.path.join(place, name) for name in names)):
            if not os.path.islink(path):
                shutil.chown(path, user)


def _uid(user: str | int | None) -> int | None:
    """Return the id of a user, or None for that of this process."""
    if user is None or sys.platform == "win32":
        return None
    import pwd

    uid = pwd.getpwnam(user).pw_uid if isinstance(user, str) else user
    return None if uid == os.getuid() else uid


def _carry_over(env: Mapping[str, str], target: Path, uid: int | None) -> None:
    home = Path(env.get("HOME") or env.get("USERPROFILE") or Path.home())
    given = env.get("CLAUDE_CONFIG_DIR")
    source = Path(given) if given else home / ".claude"
    _write(target / ".credentials.json", credentials_of(env, source, uid))
    _write(target / ".claude.json", _content(source / ".claude.json" if given else home / ".claude.json", uid))
    for name in LINKED:
        if (source / name).exists():
            try:
                (target / name).symlink_to((source / name).resolve(), target_is_directory=(source / name).is_dir())
            except OSError as error:  # Windows allows it to few users
                logger.warning("%s of %s is not there for a session that is resumed from a store: %s",
                               name, source, error)  # fmt: skip
    has_plugins = (target / "plugins").exists()
    for name in SETTINGS:
        _write(target / name, _settings(_content(source / name, uid), has_plugins=has_plugins))


def _write(path: Path, content: bytes | None) -> None:
    if content is not None:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)


def _content(path: Path, uid: int | None) -> bytes | None:
    try:
        return read_bytes(path, most_bytes=_MOST_BYTES, uid=uid)[0]
    except FileNotFoundError:
        return None
    except OSError as error:
        logger.warning("%s is left out of a session that is resumed from a store: %s", path, error)
        return None


def credentials_of(env: Mapping[str, str], source: Path, uid: int | None = None) -> bytes | None:
    """Return the credentials without the refresh token. It works only once: using the copy would log the user out."""
    content = _content(source / ".credentials.json", uid)
    if content is None and sys.platform == "darwin" and "CLAUDE_CONFIG_DIR" not in env:
        content = _keychain(env)
    parsed = _object(content)
    login = None if parsed is None else parsed.get("claudeAiOauth")
    if parsed is None or not isinstance(login, dict) or "refreshToken" not in login:
        return content
    return json.dumps(
        parsed | {"claudeAiOauth": {name: value for name, value in login.items() if name != "refreshToken"}}
    ).encode()


def _keychain(env: Mapping[str, str]) -> bytes | None:
    if env.get("ANTHROPIC_API_KEY") or env.get("CLAUDE_CODE_OAUTH_TOKEN"):
        return None
    account = env.get("USER") or "claude-code-user"
    command = ["security", "find-generic-password", "-a", account, "-w", "-s", "Claude Code-credentials"]
    try:
        found = subprocess.run(command, capture_output=True, timeout=KEYCHAIN_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def _settings(content: bytes | None, *, has_plugins: bool) -> bytes | None:
    """Return the user's settings without those that point outside the folder or install plugins into it."""
    parsed = _object(content)
    if parsed is None:
        return content
    if not has_plugins:
        parsed.pop("enabledPlugins", None)
        parsed.pop("extraKnownMarketplaces", None)
    if isinstance(parsed.get("env"), dict):
        parsed["env"].pop("CLAUDE_CONFIG_DIR", None)
    return json.dumps(parsed).encode()


def _object(content: bytes | None) -> dict[str, Any] | None:
    try:
        parsed = json.loads((content or b"").decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


# Filling it with a session ----------------------------------------------------------------------------------------


async def write_session(
    store: SessionStore, place: Place, folder: Path, project: str, timeout: float, *, include_subagents: bool = True
) -> bool:
    """Write a session with its subagents into a folder of projects. Return False if the store does not have it.

    Args:
        store: The store.
        place: The session.
        folder: The folder of projects.
        project: The name of the folder of the working directory.
        timeout: Seconds that each call of the store may take.
        include_subagents: Write the transcripts of subagents, too.

    Raises:
        StoreError: The store failed, took too long, or returned an invalid transcript.
        FileExistsError: The session exists already.
        OSError: It cannot be written.
    """
    entries = await load(store, place, timeout)
    if not entries:
        return False
    own = os.path.join(folder, project, place.session)
    await _write_entries(own + SUFFIX, entries, place)
    for subpath in await subpaths(store, place, timeout) if include_subagents else ():
        path = path_below(own, subpath)
        entries = await load(store, place._replace(subpath=subpath), timeout)
        if entries:
            await _write_entries(path, entries, place)
    return True


async def _write_entries(path: str, entries: list[SessionStoreEntry], place: Place) -> None:
    try:
        await run_file_work(write_transcript, path, entries)
    except (TypeError, ValueError, RecursionError) as error:
        raise _junk(place, f"an entry that is not JSON: {error}") from error


async def load(store: SessionStore, place: Place, timeout: float) -> list[SessionStoreEntry] | None:
    """Load a transcript. Raises StoreError, including for an invalid transcript."""
    async with asked(f"load {described(place.key)}", timeout):
        entries: Any = await store.load(place.key)
    if entries is None:
        return None
    if not isinstance(entries, list):
        raise _junk(place, f"{type(entries).__name__} instead of a list of entries")
    wrong = next((entry for entry in entries if not isinstance(entry, dict) or "type" not in entry), None)
    if wrong is not None:
        raise _junk(place, f"an entry that is {str(wrong)[:100]!r}")
    return entries


def _junk(place: Place, what: str) -> StoreError:
    return StoreError(f"the store returned for {described(place.key)} {what}", key=place.key, session_id=place.session)


async def subpaths(store: SessionStore, place: Place, timeout: float) -> list[str]:
    """Return the subpaths of a session; none if the store cannot list them. Raises StoreError."""
    if not implements(store, "list_subkeys"):
        return []
    async with asked(f"list the subagents of {described(place.key)}", timeout):
        found: list[Any] = await store.list_subkeys(  # type: ignore[attr-defined]
            {"project_key": place.project, "session_id": place.session}
        )
        if wrong := [subpath for subpath in found if not isinstance(subpath, str)]:
            raise _junk(place, f"the subpath {wrong[0]!r}")
        return list(dict.fromkeys(found))


async def find_project(store: SessionStore, session_id: str, default: str, timeout: float) -> str:
    """Return the project of a session: the default one if it has the session, otherwise the only one that does.

    Raises StoreError.

    Stores of the official protocol cannot look into other projects.
    """
    if not implements(store, "find_session"):
        return default
    async with asked(f"find session {session_id}", timeout):
        found: list[str] = await store.find_session(session_id)  # type: ignore[attr-defined]
    if default in found or not found:
        return default
    if len(found) > 1:
        told = f"the store has session {session_id} in several projects ({', '.join(found)}): name one as project_key"
        raise StoreError(told, session_id=session_id)
    return found[0]


async def newest_session(store: SessionStore, project: str, timeout: float) -> str | None:
    """Return the id of the most recently written session of a project, ignoring subagents. Raises StoreError."""
    times = await session_times(store, project, timeout)
    for session_id in sorted(times, key=lambda each: times[each], reverse=True):
        entries = await load(store, Place(project, session_id), timeout)
        if entries and entries[0].get("isSidechain") is not True:
            return session_id
    return None


async def session_times(store: SessionStore, project: str, timeout: float) -> dict[str, int]:
    """Return when each session of a project was last written, in milliseconds. Raises StoreError.

    Ignores names that are not uuids, which the CLI does not use for sessions.
    """
    async with asked(f"list the sessions of {project}", timeout):
        listed = await store.list_sessions(project)  # type: ignore[attr-defined]
        return {each["session_id"]: int(each["mtime"]) for each in listed if is_id(each["session_id"])}


@contextlib.asynccontextmanager
async def asked(what: str, timeout: float) -> AsyncIterator[None]:
    """Convert errors and timeouts of a store to StoreError."""
    try:
        with anyio.fail_after(timeout):
            yield
    except StoreError:
        raise
    except TimeoutError as error:
        raise StoreError(f"the store took more than {timeout:g} s to {what}") from error
    except Exception as error:
        raise StoreError(f"the store failed to {what}: {type(error).__name__}: {error}") from error


# What killed processes left ---------------------------------------------------------------------------------------


async def send_leftovers(place: Place, load_stored: Any, append: Append) -> list[tuple[Place, str]]:
    """Append entries of a session that a killed process on this machine did not deliver.

    Logs failures, and returns the places and files of transcripts that are still incomplete in the store.
    """
    failed: list[tuple[Place, str]] = []
    for folder in await run_file_work(lambda: list(leftovers(Path(tempfile.gettempdir()).resolve(), _OURS))):
        for path in folder.glob(f"projects/*/{place.session}{SUFFIX}"):
            own = ((place_of(found, place.project), found) for found, _ in transcripts_of(str(path)))
            waiting = [(found, transcript) for found, transcript in own if found is not None]
            try:
                while waiting:
                    found, transcript = waiting[0]
                    await send_older(transcript, found.key, await load_stored(found) or [], append)
                    del waiting[0]
            except Exception as error:
                logger.warning("%s has entries that cannot be brought to the session store: %s", folder, error)
                failed += waiting
            else:
                await run_file_work(_remove_session, folder, path)
    return failed


def _remove_session(folder: Path, transcript: Path) -> None:
    """Remove a session, and the folder if it was the only one."""
    shutil.rmtree(transcript.with_suffix(""), ignore_errors=True)
    transcript.unlink(missing_ok=True)
    if not any(folder.glob(f"projects/*/*{SUFFIX}")):
        _remove(folder)


def _abandon(path: Path, owner: int) -> None:
    """Remove the secrets of an abandoned folder. Keeps the transcripts, which may not be in the store."""
    if owner == os.getpid():
        _strip(path)
        unlock(path)


def _sweep(parent: Path) -> None:
    """Remove the secrets from folders of killed processes, and remove old folders entirely."""
    for path in leftovers(parent, _OURS, min_age=NEW_SECONDS):
        age = time.time() - path.stat().st_mtime
        if age > KEPT_DAYS * 24 * 3600:
            _remove(path)
        else:
            _strip(path)


def _strip(path: Path) -> None:
    """Remove everything except the transcripts."""
    with contextlib.suppress(OSError):
        for each in path.iterdir():
            if each.name == "projects":
                continue
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    each.unlink()


def _remove(path: Path) -> None:
    """Remove a folder. Programs that the CLI started may still write into it for a moment."""
    _strip(path)
    for _ in range(5):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(0.05)
    logger.warning("the folder %s cannot be removed", path)
