"""`RunResult.to_api_messages`, compared with what the real CLI sends the model in its next request."""

import re
import threading
from typing import Any

import anyio
import pytest
from api_rules import refusals
from one_session import OneSession

from claude_agent_py import ResultMessage, ToolChain, ToolError, tool
from claude_agent_py.messages import to_api_messages
from claude_agent_py.testing import RecordedRequest, Reply, text, thinking, tool_use
from claude_agent_py.tools import mcp_tool_name

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


@tool(read_only=True)
def double(number: int) -> int:
    """Double a number."""
    if number < 0:
        raise ToolError("too small")
    return number * 2


DOUBLE = mcp_tool_name("tools", "double")


ADDED = re.compile(r"<system-reminder>(?!.*<task-notification>)|<local-command-|<command-name>", re.DOTALL)
"""The beginning of texts that the CLI adds."""


def seen(request: RecordedRequest) -> list[dict[str, Any]]:
    """Return the messages of a request without what the CLI adds, and with the results in the order of the calls."""
    messages: list[dict[str, Any]] = []
    order: list[str] = []
    for message in request.messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        kept = [as_sent(block) for block in blocks if not ADDED.match(block.get("text", ""))]
        if message["role"] == "system" or not kept:
            continue
        order += [block["id"] for block in kept if block["type"] == "tool_use"]
        kept.sort(key=lambda block: order.index(block["tool_use_id"]) if block["type"] == "tool_result" else len(order))
        if messages and messages[-1]["role"] == message["role"]:
            messages[-1]["content"] += kept
        else:
            messages.append({"role": message["role"], "content": kept})
    return messages


def as_sent(block: dict[str, Any]) -> dict[str, Any]:
    text = {"text": block["text"].strip()} if block["type"] == "text" else {}
    return {name: value for name, value in block.items() if name != "cache_control" and value is not False} | text


def asked(question: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": question}]}


async def it_is_what_the_model_is_sent(one: OneSession) -> None:
    calls = [tool_use(DOUBLE, {"number": number}, id=f"toolu_{number}") for number in (1, 2, -1)]
    agent = {"description": "Look", "prompt": "Look around", "subagent_type": "general-purpose"}
    result = await one.ask(
        Reply([thinking("hm"), text("I double."), *calls]),
        Reply([text("I delegate."), tool_use("Agent", {**agent, "run_in_background": False}, id="toolu_agent")]),
        "Two and four.",
        "Again.",
        prompt="Double them.",
        until="result",
    )
    await one.client.query("And again?")
    request = one.requests_of()[-1]

    rebuilt = result.to_api_messages()

    assert [message["role"] for message in rebuilt] == ["user", "assistant"] * 3
    assert [block["type"] for block in rebuilt[2]["content"]] == ["tool_result"] * 3
    assert [*rebuilt, asked("And again?")] == seen(request)
    assert refusals(rebuilt) == []

    # The conversation goes on without the CLI.
    call = {"type": "tool_use", "id": "a", "name": "double", "input": {"number": 2}}
    answers: list[Any] = [{"role": "assistant", "content": [call]}, "Four."]
    on = await ToolChain([double]).loop(lambda messages: answers.pop(0), [*rebuilt, asked("And two?")])
    assert on.text == "Four."
    assert [message["role"] for message in on.messages] == ["user", "assistant"] * 5
    assert refusals(list(on.messages)) == []


TURN_OVER = threading.Event()


def look_late(request: RecordedRequest) -> str:
    """Answer after the turn that launched the agent."""
    TURN_OVER.wait(60)
    return "I looked."


async def a_run_that_goes_on_after_background_work(one: OneSession) -> None:
    agent = {"description": "Look", "prompt": "Look in the background", "subagent_type": "general-purpose"}
    launch = tool_use("Agent", {**agent, "run_in_background": True}, id="toolu_background")
    one.answers(launch, "Started.", "It is done.", "!")
    run = one.client.query("Look.", until="idle")
    with anyio.fail_after(120):
        async for message in run:
            if isinstance(message, ResultMessage):
                TURN_OVER.set()  # the CLI keeps the end of an agent during a turn for the next prompt, now and then
    result = await run
    await one.client.query("Well?")
    sent = seen(one.requests_of()[-1])

    rebuilt = result.to_api_messages()

    assert refusals(rebuilt) == []
    assert [message["role"] for message in rebuilt] == [message["role"] for message in sent[:-1]]
    places = [
        [
            (index, "<status>completed</status>" in str(message))
            for index, message in enumerate(messages)
            if "<task-notification>" in str(message)
        ]
        for messages in (rebuilt, sent)
    ]
    assert places[0] == places[1] == [(4, True)]


async def a_compacted_session_with_commands_that_the_cli_answers(one: OneSession) -> None:
    one.answers("Hello.", "Still here.", "!")
    results = [await one.client.query(prompt) for prompt in ("Hi.", "/compact", "/context", "Are you there?")]
    await one.client.query("Well?")
    request = one.requests_of()[-1]

    rebuilt = to_api_messages(
        [message for result in results for message in result.messages],
        [prompt for result in results for prompt in result.sent],
    )

    assert [message["role"] for message in rebuilt] == ["user", "assistant"]
    assert "A scripted summary" in rebuilt[0]["content"][0]["text"]
    assert [*rebuilt, asked("Well?")] == seen(request)


async def test_conversations_one_after_the_other() -> None:
    TURN_OVER.clear()
    one = OneSession(
        agents={
            "Look around": [tool_use(DOUBLE, {"number": 4}), "I looked."],
            "Look in the background": look_late,
        }
    )
    async with one.open(custom_tools=[double]) as client:
        for check in (
            it_is_what_the_model_is_sent,
            a_run_that_goes_on_after_background_work,
            a_compacted_session_with_commands_that_the_cli_answers,
        ):
            await check(one)
            await client.query("/clear")
