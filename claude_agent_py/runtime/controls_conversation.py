"""Control requests about the conversation: stop it, take back, ask beside it, name it, and its tasks.

Owns one method for each request; how they are sent is in `controls_base`. Not here: prompts (`Client.query`), and what
is known about tasks (`client.tasks`, which waits for effects; these methods only ask).
"""

from __future__ import annotations

from collections.abc import Iterable

from claude_agent_py import control  # its models load on first use, which keeps the import of the client quick
from claude_agent_py.runtime.controls_base import ControlsBase, given


class ConversationControls(ControlsBase):
    """What can be asked of the running conversation."""

    async def interrupt(self, cancel_queued: bool = False) -> control.InterruptReply:
        """Stop the running turn; its result follows and says that it was stopped. Nothing happens when none runs.

        Prompts that wait in the CLI's queue run next and are named in `still_queued` (those sent with a uuid), unless
        `cancel_queued` drops them. `Run.interrupt` stops one run and leaves the others alone.
        """
        return await self._ask(control.InterruptRequest, control.InterruptReply, **given(cancel_queued=cancel_queued))

    async def cancel_async_message(self, message_uuid: str) -> control.CancelAsyncMessageReply:
        """Take a prompt out of the CLI's queue, by the uuid it was sent with; `cancelled` is False when too late."""
        return await self._ask(
            control.CancelAsyncMessageRequest, control.CancelAsyncMessageReply, message_uuid=message_uuid
        )

    async def rewind_files(self, user_message_id: str, dry_run: bool = False) -> control.RewindFilesReply:
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

    async def side_question(
        self, question: str, *, history: Iterable[tuple[str, str]] = (), timeout: float | None = None
    ) -> control.SideQuestionReply:
        """Ask the model something that does not become part of the conversation, also while a turn runs.

        The model knows the conversation so far and is told to use no tools. It is a call of the API, with its cost.

        Args:
            question: The text.
            history: Side questions before this one, each with its answer; the model does not remember them.
            timeout: Seconds to wait for the answer; None means `Timeouts.control`.
        """
        earlier = [{"question": asked, "response": answer} for asked, answer in history]
        return await self._ask(
            control.SideQuestionRequest,
            control.SideQuestionReply,
            timeout=timeout,
            question=question,
            **given(history=earlier or None),
        )

    async def generate_session_title(
        self, description: str, *, persist: bool = False, timeout: float | None = None
    ) -> control.GenerateSessionTitleReply:
        """Let a small model find a title for what `description` says.

        `title` is None when the CLI did not ask the model, as with `CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC`.

        Args:
            description: What the session is about, for example the first prompt.
            persist: Make it the session's title.
            timeout: Seconds to wait; None means `Timeouts.control`.
        """
        return await self._ask(
            control.GenerateSessionTitleRequest,
            control.GenerateSessionTitleReply,
            timeout=timeout,
            description=description,
            persist=persist,
        )

    async def rename_session(self, title: str) -> None:
        """Give the session a title. A `session_title_changed` message follows."""
        await self._tell(control.RenameSessionRequest, title=title)

    async def set_color(self, color: str) -> None:
        """Give the session a colour. The CLI refuses it (`unsupported_request`) when it runs without a terminal."""
        await self._tell(control.SetColorRequest, color=color)

    async def export_conversation(self) -> control.ExportConversationReply:
        """Give the conversation as the text that `/export` writes, and a name for the file."""
        return await self._ask(control.ExportConversationRequest, control.ExportConversationReply)

    async def set_has_subscribers(self, has_subscribers: bool | None) -> None:
        """Say whether anybody looks at the stream; None means unknown.

        Matters only to a CLI that holds events back (`CLAUDE_CODE_STREAM_EVENT_HOLD_MS`).
        """
        await self._tell(control.SetHasSubscribersRequest, has_subscribers=has_subscribers)

    async def request_exit(self) -> None:
        """Ask the CLI to end by itself (`end_session`); a running turn is interrupted first.

        The end of the process follows: `messages()` ends, and open runs fail. This is not `close()`, which is still
        needed: it also waits for the process, ends it by force where that is needed, and frees what belongs to it on
        this side.
        """
        await self._tell(control.EndSessionRequest)

    # Tasks -------------------------------------------------------------------------------------------------------

    async def stop_task(self, task_id: str) -> None:
        """Ask for the end of a task. One that is over, or unknown, is no error.

        Its notification follows. `client.tasks.stop` also waits for the end, and knows unknown ids.
        """
        await self._tell(control.StopTaskRequest, task_id=task_id)

    async def background_tasks(self, tool_use_id: str | None = None) -> control.BackgroundTasksReply:
        """Move foreground work to the background: one tool call, or all that runs.

        `backgrounded` says whether the named tool call was moved; it is None where all were asked for.
        """
        return await self._ask(
            control.BackgroundTasksRequest, control.BackgroundTasksReply, **given(tool_use_id=tool_use_id)
        )

    async def get_task_output(self, task_id: str) -> control.GetTaskOutputReply:
        """Give the last 8 KiB of a shell's or monitor's output, escape sequences included.

        `client.tasks.output` has the whole of it, and that of subagents.

        Raises:
            ControlRejectedError: There is no shell or monitor with that id in this session.
        """
        return await self._ask(control.GetTaskOutputRequest, control.GetTaskOutputReply, task_id=task_id)
