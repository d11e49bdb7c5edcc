"""Put questions and approvals in an inbox, and answer them from another process."""

import sys
from pathlib import Path

import anyio
from offline import offline

from claude_agent_py import AgentDefinition, Client, ClientOptions, PermissionContext
from claude_agent_py.permissions import Answers, Question, SQLiteInbox
from claude_agent_py.testing import Reply, text, tool_use

INBOX = Path("approvals.db")


async def on_question(questions: tuple[Question, ...], context: PermissionContext) -> Answers:
    """Choose the first option of each question, in place of a form."""
    for question in questions:
        print(f"asked: {question.question} {[option.label for option in question.options]}")
    return Answers([question.options[0].label for question in questions])


async def person(client: Client, inbox: SQLiteInbox) -> None:
    """Answer from another process, like a colleague at a terminal."""
    while not (waiting := list(inbox)):  # noqa: ASYNC110 - the inbox of another process can only be polled
        await anyio.sleep(0.1)
    print(f"waits: {waiting[0].summary}; the task is {', '.join(task.status for task in client.tasks)}")
    inbox_command = [sys.executable, "-m", "claude_agent_py", "inbox", "--inbox", str(INBOX)]
    await anyio.run_process([*inbox_command, "answer", waiting[0].id, "allow"])


async def main() -> None:
    inbox = SQLiteInbox(INBOX)
    options = ClientOptions(
        on_question=on_question,
        interactions=inbox,
        permission_mode="default",
        agents={"builder": AgentDefinition(description="Builds", prompt="You build.")},
    )
    async with Client(options) as client, anyio.create_task_group() as workers:
        workers.start_soon(person, client, inbox)
        result = await client.query("Build it", until="idle")
        print(result.text)
        for task in client.tasks:
            print(f"{task.description}: {task.status}, {task.summary}")


QUESTION = {
    "question": "Which target?",
    "header": "Target",
    "options": [{"label": "debug", "description": "quick"}, {"label": "release", "description": "small"}],
    "multiSelect": False,
}
SCRIPT = [
    Reply(tool_use("AskUserQuestion", {"questions": [QUESTION]})),
    Reply(tool_use("Agent", {"description": "Build", "prompt": "Build debug", "subagent_type": "builder"})),
    text("The build is under way."),
    text("Built."),
]
BUILDER = [Reply(tool_use("Bash", {"command": "touch built", "description": "Build"})), text("built/debug is there")]

if __name__ == "__main__":
    with offline(SCRIPT, agents={"Build debug": BUILDER}):
        anyio.run(main)
