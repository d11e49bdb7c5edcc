"""`client.files`: files and directories as the CLI sees them."""

from __future__ import annotations

import math
import os
from typing import Final, Literal, TypeAlias

from claude_agent_py import control  # loads its models on first use, to keep the import of the client fast
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._connection.controls.base import Controls, omit_unset
from claude_agent_py.wire.base import JSONObject

StrPath: TypeAlias = str | os.PathLike[str]
MILLISECONDS: Final = 1000


class FileControls(Controls):
    """The files of a running session. The methods raise the same errors as `Client`."""

    async def read(
        self,
        path: StrPath,
        *,
        max_bytes: int | None = None,
        encoding: Literal["utf-8", "base64"] | None = None,
    ) -> control.ReadFileReply:
        """Read a file that the session is allowed to read.

        Args:
            path: Absolute, or relative to the CLI's working directory.
            max_bytes: Read at most this many bytes; `truncated` says whether there are more. None means the CLI's 1 MB.
            encoding: The encoding of `contents`. With `utf-8` (the default) invalid bytes are replaced (`lossy`).

        Raises:
            ControlRejectedError: The file does not exist or may not be read; the CLI does not say which.
        """
        return await self._ask(
            control.ReadFileRequest,
            control.ReadFileReply,
            path=os.fspath(path),
            **omit_unset(max_bytes=max_bytes, encoding=encoding),
        )

    async def suggest(self, query: str) -> control.FileSuggestionsReply:
        """Complete a path, as `@` does in the CLI. The list may be empty until the CLI has scanned the directory."""
        return await self._ask(control.FileSuggestionsRequest, control.FileSuggestionsReply, query=query)

    async def seed_read_state(self, path: StrPath, mtime: float) -> None:
        """Mark a file as read, so that the model may edit it without reading it first.

        Args:
            path: The file. It does not have to exist.
            mtime: The modification time that the model knows, in seconds since the epoch (`os.stat(path).st_mtime`).
                If the file has changed since, it counts as unread.

        Raises:
            OptionsError: `mtime` is not a finite number.
        """
        if not (isinstance(mtime, int | float) and -math.inf < mtime < math.inf):  # type: ignore[redundant-expr]
            raise OptionsError(f"must be seconds since the epoch, not {mtime!r}", option="mtime")
        await self._tell(
            control.SeedReadStateRequest, path=os.fspath(path), mtime=math.floor(round(mtime * MILLISECONDS, 3))
        )

    async def add_root(
        self,
        directory: StrPath,
        *,
        reload_claude_md: bool = False,
        reload_plugins: bool = False,
        reload_skills: bool = False,
    ) -> control.RegisterRepoRootReply:
        """Add a directory as a root of the session. Hooks on `DirectoryAdded` run.

        Args:
            directory: A directory below the working directory or one of the `additional_directories`.
            reload_claude_md: Load the `CLAUDE.md` of the directory.
            reload_plugins: Load its plugins.
            reload_skills: Load its skills.

        Raises:
            ControlRejectedError: The directory does not exist or is not below one of these.
        """
        return await self._ask(
            control.RegisterRepoRootRequest,
            control.RegisterRepoRootReply,
            directory=os.fspath(directory),
            **omit_unset(
                reload_claude_md=reload_claude_md,
                reload_plugins=reload_plugins,
                reload_skills=reload_skills,
            ),
        )

    async def set_cwd(self, path: StrPath, *, trusted_directory: StrPath | None = None) -> control.SetCwdReply:
        """Change the CLI's working directory.

        `status` is `ok`, `rejected` (with a `reason`), or `needs_trust`. In the last case nothing has changed, and
        `directory` is the one whose settings, hooks and MCP servers would be used; to trust it, call again with it.

        Args:
            path: The new working directory.
            trusted_directory: The directory to trust, from an earlier `needs_trust` reply.
        """
        directory = None if trusted_directory is None else os.fspath(trusted_directory)
        trust = omit_unset(trust_accepted=directory is not None, trusted_directory=directory)
        return await self._ask(control.SetCwdRequest, control.SetCwdReply, path=os.fspath(path), **trust)

    async def diff(self) -> JSONObject:
        """Return the changes in the working directory since the last commit.

        `diff` is None outside of a Git repository (see `noDiffReason`); otherwise it has `stats`, `perFileStats` and
        `hunks`. The CLI declares no schema for it, so it is returned as received.
        """
        return await self._tell(control.GetWorkspaceDiffRequest)

    async def rewind(self, user_message_id: str, dry_run: bool = False) -> control.RewindFilesReply:
        """Restore the files that tools changed to their state when a prompt was sent.

        Needs the option `enable_file_checkpointing`. The conversation is not rewound, and changes made by shell
        commands are not tracked.

        Args:
            user_message_id: The uuid of the prompt.
            dry_run: Only report the changes (`files_changed`, `insertions`, `deletions`).

        Raises:
            ControlRejectedError: The prompt has no checkpoint.
        """
        return await self._ask(
            control.RewindFilesRequest,
            control.RewindFilesReply,
            user_message_id=user_message_id,
            **omit_unset(dry_run=dry_run),
        )
