"""`client.files`: files and folders, as the CLI sees them."""

from __future__ import annotations

import math
import os
from typing import Final, Literal, TypeAlias

from claude_agent_py import control  # its models load on first use, which keeps the import of the client quick
from claude_agent_py.runtime.controls_base import Controls, given
from claude_agent_py.wire.base import JSONObject

StrPath: TypeAlias = str | os.PathLike[str]
MILLISECONDS: Final = 1000


class FileControls(Controls):
    """The files of a running session. The methods raise what those of `Client` raise."""

    async def read(
        self,
        path: StrPath,
        *,
        max_bytes: int | None = None,
        encoding: Literal["utf-8", "base64"] | None = None,
    ) -> control.ReadFileReply:
        """Read a file that the session may read.

        Args:
            path: Absolute, or relative to the CLI's working folder.
            max_bytes: Read only the head; `truncated` says so. None is the CLI's own limit, 1 MB.
            encoding: How `contents` holds the bytes. As `utf-8` (the default) what is none is replaced (`lossy`).

        Raises:
            ControlRejectedError: The file is missing, or the session may not read it; the CLI does not tell which.
        """
        return await self._ask(
            control.ReadFileRequest,
            control.ReadFileReply,
            path=os.fspath(path),
            **given(max_bytes=max_bytes, encoding=encoding),
        )

    async def suggest(self, query: str) -> control.FileSuggestionsReply:
        """Complete a path, as `@` does in the CLI. The list may be empty until the CLI has looked at the folder."""
        return await self._ask(control.FileSuggestionsRequest, control.FileSuggestionsReply, query=query)

    async def seed_read_state(self, path: StrPath, mtime: float) -> None:
        """Tell the CLI that the model knows a file, so that it may edit it without reading it first.

        Args:
            path: The file. One that does not exist is no error.
            mtime: When the file was changed last, in seconds since the epoch, as `os.stat(path).st_mtime` says. A file
                that was changed since then counts as unknown.
        """
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
        """Add a folder as a root of the session. Hooks on `DirectoryAdded` run.

        Args:
            directory: Below the working folder, or below one that the session was started with (`add_dirs`).
            reload_claude_md: Read the folder's `CLAUDE.md`; so the other two.
            reload_plugins: Read its plugins.
            reload_skills: Read its skills.

        Raises:
            ControlRejectedError: It does not exist, or lies elsewhere.
        """
        return await self._ask(
            control.RegisterRepoRootRequest,
            control.RegisterRepoRootReply,
            directory=os.fspath(directory),
            **given(
                reload_claude_md=reload_claude_md,
                reload_plugins=reload_plugins,
                reload_skills=reload_skills,
            ),
        )

    async def set_cwd(self, path: StrPath, *, trusted_directory: StrPath | None = None) -> control.SetCwdReply:
        """Change the CLI's working folder.

        `status` is `ok`, `rejected` (`reason` says why), or `needs_trust`: then nothing was changed, and `directory`
        names the folder whose settings, hooks and MCP servers would be used. To agree, ask again with it.

        Args:
            path: The folder.
            trusted_directory: The folder that you trust, as an earlier reply named it (`needs_trust`).
        """
        directory = None if trusted_directory is None else os.fspath(trusted_directory)
        trust = given(trust_accepted=directory is not None, trusted_directory=directory)
        return await self._ask(control.SetCwdRequest, control.SetCwdReply, path=os.fspath(path), **trust)

    async def diff(self) -> JSONObject:
        """Return what changed in the working folder since the last commit.

        `diff` is None outside of a Git repository (`noDiffReason` says so); else it has `stats`, `perFileStats` and
        `hunks`. The CLI declares no fixed shape for it, so it is given as it comes.
        """
        return await self._tell(control.GetWorkspaceDiffRequest)

    async def rewind(self, user_message_id: str, dry_run: bool = False) -> control.RewindFilesReply:
        """Put the files that tools changed back to where they were when a prompt was sent.

        Needs the option `enable_file_checkpointing`. The conversation itself is not rewound. What shells changed is
        not tracked.

        Args:
            user_message_id: The uuid of the prompt.
            dry_run: Only say what would change (`files_changed`, `insertions`, `deletions`).

        Raises:
            ControlRejectedError: There is no checkpoint for that prompt.
        """
        return await self._ask(
            control.RewindFilesRequest,
            control.RewindFilesReply,
            user_message_id=user_message_id,
            **given(dry_run=dry_run),
        )
