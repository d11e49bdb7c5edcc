"""The wire log: a line for each frame, bodies on request, and never a secret."""

import logging
import re

import pytest
from peers import start_in_memory

from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

SECRET = "a-" + "secret"


async def session() -> None:
    server = {"type": "http", "url": "http://127.0.0.1", "headers": {"X-Any": SECRET}}
    greeting = frames.initialize_response(claude_code_version="2.1.328", mcp_servers_applied=True)
    fake = FakeCLI(steps.turn(f"Bearer {SECRET}"), initialize=greeting)
    async with start_in_memory(fake, mcp_servers={"one": server}) as client:
        await client.query("hello there")
        await client.control("anything", api_key=SECRET, env={"A": SECRET}, accessToken=SECRET, text="plain")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "claude_agent_py.wire"]


async def test_a_line_tells_of_each_frame_and_shows_no_body(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "claude_agent_py.wire")
    await session()
    told = lines(caplog)
    assert all(re.fullmatch(r"(->|<-) [\w/]+ \S+ \d+ bytes", line) for line in told)
    kinds = [line.split(" ")[:2] for line in told]
    for kind in ["->", "control_request/initialize"], ["<-", "control_response/success"], ["->", "user"]:
        assert kind in kinds
    assert ["<-", "result/success"] in kinds
    asked = next(line for line in told if "initialize" in line)
    assert any(line.startswith("<-") and asked.split(" ")[2] in line for line in told)  # the ids pair them


async def test_bodies_come_on_request_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(5, "claude_agent_py.wire")
    await session()
    told = "\n".join(lines(caplog))
    assert "hello there" in told
    assert "plain" in told
    assert "X-Any" in told
    assert SECRET not in told


async def test_nothing_is_logged_unasked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await session()
    assert lines(caplog) == []
