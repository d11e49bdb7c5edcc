"""`run_as_text`: a run as text that is the same each time, for snapshots.

Ids, dates, durations and paths have placeholders. Each subagent has a separate section, in launch order, because
concurrent subagents interleave differently in each run.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from claude_agent_py import RunResult
from claude_agent_py.messages import AssistantMessage, InitMessage, ResultMessage
from claude_agent_py.testing.assertions import sort_tasks
from claude_agent_py.testing.requests import shorten_result
from claude_agent_py.testing.scrubbing import Places, build_path_placeholders, find_ids, mask_times
from claude_agent_py.tools import ToolCallRecord


def run_as_text(result: "RunResult", *, results: bool = True) -> str:
    """Format a run as reproducible text: equal events give equal text.

    Texts of the main agent in follow-up turns are left out, except the answer: tasks that end together may share a
    turn.

    Args:
        result: The run.
        results: Whether to include the results of tools.
    """
    calls = {record.id: _format_call(record, with_result=results) for record in result.tool_calls}
    lines = [*_format_main_agent(result, calls)]
    for task in sort_tasks(result):
        lines += ["", *_format_block(str(task.subagent_type or task.type), task.description)]
        for record in result.tool_calls:
            if record.agent_id == task.id:
                lines += _indent(calls[record.id])
        lines += _indent(_format_block(task.status.value, task.summary))
    lines += ["", *_format_block("answer", result.text)]
    return _replace_volatile_parts("\n".join(lines), result) + "\n"


def _format_main_agent(result: "RunResult", calls: dict[str, list[str]]) -> Iterator[str]:
    """Yield the prompts, and the texts and calls of the main agent; `calls` has the lines of each call, by id."""
    for prompt in result.sent:
        yield from _format_block("prompt", prompt.text)
    is_follow_up = False
    for message in result.messages:
        if isinstance(message, ResultMessage):
            is_follow_up = True
        elif isinstance(message, AssistantMessage) and not message.is_subagent:
            if message.text and not is_follow_up:
                yield from _format_block("says", message.text)
            for used in message.tool_uses:
                yield from calls[used.id]


def _format_call(record: ToolCallRecord, *, with_result: bool) -> list[str]:
    arguments = json.dumps(record.input, sort_keys=True, ensure_ascii=False)
    lines = [f"calls {record.name} {arguments}: {record.status.value}"]
    if with_result and record.done:
        lines += [f"  | {line}" for line in shorten_result(record.text).splitlines()]
    return lines


def _format_block(title: str, text: str) -> list[str]:
    first, *more = text.splitlines() or [""]
    return [f"{title}: {first}", *_indent(more)]


def _indent(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _replace_volatile_parts(text: str, result: "RunResult") -> str:
    cwd = next((message.cwd for message in result.messages if isinstance(message, InitMessage)), None)
    paths = build_path_placeholders(Path(cwd), Path.home(), Path(cwd).parent) if cwd else {}
    calls = [record.id for record in result.tool_calls]
    ids = find_ids([text]) | {name: f"<call-{number}>" for number, name in enumerate(calls, 1)}
    ids |= {task.id: f"<task-{number}>" for number, task in enumerate(sort_tasks(result), 1)}
    hidden: str = Places({}, paths).hide(text, ids)
    return mask_times(hidden)
