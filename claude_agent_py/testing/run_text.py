"""`run_as_text`: a run as text that is the same each time, for snapshots.

Ids, dates, durations and paths have placeholders. Each subagent has a part of its own, in the order in which they were
launched, because subagents that run side by side do not always take turns in the same way.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from claude_agent_py._runtime.runs.result import RunResult
from claude_agent_py.tasks.task import Task
from claude_agent_py.testing.assertions import tasks_in_order
from claude_agent_py.testing.scrubbing import Places, ids_in, paths_of, without_times
from claude_agent_py.testing.spoken import shown_result
from claude_agent_py.tools.traffic import ToolCallRecord
from claude_agent_py.wire.messages.conversation import AssistantMessage, ResultMessage
from claude_agent_py.wire.messages.system import InitMessage


def run_as_text(result: "RunResult[Any]", *, results: bool = True) -> str:
    """Return what happened in a run as text, without what differs from run to run.

    What the main agent says in follow-up turns is left out, but for the answer: tasks that end together share a turn.

    Args:
        result: The run.
        results: Whether the results of tools are shown.
    """
    calls = {record.id: record for record in result.tool_calls}
    lines = [*_main(result, calls, results)]
    for task in tasks_in_order(result):
        lines += ["", *_task(task, [one for one in calls.values() if one.agent_id == task.id], results)]
    lines += ["", *_block("answer", result.text)]
    return _plain("\n".join(lines), result) + "\n"


def _main(result: "RunResult[Any]", calls: dict[str, ToolCallRecord], results: bool) -> Iterator[str]:
    for prompt in result.sent:
        content = prompt.content
        yield from _block("prompt", content if isinstance(content, str) else prompt.text)
    is_own_turn = True
    for message in result.messages:
        if isinstance(message, ResultMessage):
            is_own_turn = False
        elif isinstance(message, AssistantMessage) and not message.is_subagent:
            if message.text and is_own_turn:
                yield from _block("says", message.text)
            for used in message.tool_uses:
                yield from _call(calls[used.id], results)


def _task(task: Task, calls: list[ToolCallRecord], results: bool) -> Iterator[str]:
    yield f"{task.subagent_type or task.type}: {task.description}"
    for record in calls:
        yield from (f"  {line}" for line in _call(record, results))
    yield from (f"  {line}" for line in _block(task.status.value, task.summary))


def _call(record: ToolCallRecord, results: bool) -> Iterator[str]:
    arguments = json.dumps(record.input, sort_keys=True, ensure_ascii=False)
    yield f"calls {record.name} {arguments}: {record.status.value}"
    if results and record.done:
        yield from (f"  | {line}" for line in shown_result(record.text).splitlines())


def _block(title: str, text: str) -> Iterator[str]:
    first, *more = text.splitlines() or [""]
    yield f"{title}: {first}"
    yield from (f"  {line}" for line in more)


def _plain(text: str, result: "RunResult[Any]") -> str:
    cwd = next((message.cwd for message in result.messages if isinstance(message, InitMessage)), None)
    paths = paths_of(Path(cwd), Path.home(), Path(cwd).parent) if cwd else {}
    calls = [record.id for record in result.tool_calls]
    ids = ids_in([text]) | {name: f"<call-{number}>" for number, name in enumerate(calls, 1)}
    ids |= {task.id: f"<task-{number}>" for number, task in enumerate(tasks_in_order(result), 1)}
    hidden: str = Places({}, paths).hide(text, ids)
    return without_times(hidden)
