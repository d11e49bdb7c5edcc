"""The wire log: a line for each frame, bodies on request, and never a secret."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest
from peers import start_in_memory

from claude_agent_py import AgentDefinition
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


async def test_each_frame_is_logged_in_a_line_without_its_body(caplog: pytest.LogCaptureFixture) -> None:
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


async def test_what_is_too_long_or_too_deep_to_read_has_its_size(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(5, "claude_agent_py.wire")
    # How deep a value may be depends on the version of Python.
    deep = [b'{"type": "x", "uuid": "u9", "value": ' + b"[" * levels + b"]" * levels + b"}" for levels in (900, 5000)]
    fake = FakeCLI(steps.wait_for_prompt(), b"\n" + b"\n".join(deep) + b"\n7\n", frames.result("x" * 300_000))
    async with start_in_memory(fake) as client:
        await client.query("hello")
    told = lines(caplog)
    shown = [line for line in told if re.match(r"<- \S+ \S+ (1838|10038) bytes\b", line)]
    assert [line.split()[3] for line in shown] == [str(len(each)) for each in deep]
    assert {f"<- x u9 {len(each)} bytes" for each in deep} & set(shown)
    assert "<- ? - 1 bytes 7" in told
    assert [line for line in told if re.fullmatch(r"<- \? - 300\d\d\d bytes", line)]
    assert not [line for line in told if " 0 bytes" in line]


async def test_nothing_is_logged_unasked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await session()
    assert lines(caplog) == []


TOKENS = (
    "sk-ant-api03-" + "aB3-" * 10,
    "ghp_" + "aB3d" * 9,
    "github_pat_" + "aB3_" * 20,
    "glpat-" + "aB3-" * 5,
    "xoxb-123456789012-123456789012-" + "aB3d" * 6,
    "AKIA" + "ABCD2345" * 2,
    "AIza" + "aB3-" * 9,
    "hf_" + "aB3d" * 9,
    "npm_" + "aB3d" * 9,
    "sk_live_" + "aB3d" * 6,
    "SG." + "aB3d" * 5 + "." + "aB3d" * 10,
    "eyJ" + "aB3d" * 5 + ".eyJ" + "aB3d" * 5 + "." + "aB3d" * 5,
)
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXk\n" * 3 + "-----END OPENSSH PRIVATE KEY-----"
PRINTED = f"""
GH_PAT=of-a-person
DATABASE_URL=postgres://app:of-postgres@db/app
export SIGNING_PASSPHRASE='of a few words'
{{"client_secret": "of-a-client", "deploy_key": 1}}
https://app:of-a-url@example.com/x
aws_secret_access_key = ofACredentials/File+1
client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQ==
{KEY}
"""
PLAIN = (
    "see https://example.com:8080/a@b, npm_config_registry_and_proxy, sk-fading-circle-container, TOKENS=3, key=value"
)


@pytest.mark.one_backend
async def test_secrets_are_hidden_in_texts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(5, "claude_agent_py.wire")
    async with start_in_memory(FakeCLI(steps.turn(" ".join((*TOKENS, PRINTED, PLAIN))))) as client:
        await client.query("hello there")
    told = "\n".join(lines(caplog))
    assert PLAIN in told
    hidden = (*TOKENS, "of-a-", "of-postgres", "of a few", "ofACred", "b3Blbn", "UFJJVkFURSBLRVkt")
    assert [secret for secret in hidden if secret in told] == []


@pytest.mark.one_backend
async def test_the_pieces_of_a_stream_are_not_shown_as_a_secret_may_be_split(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(5, "claude_agent_py.wire")
    token = "ghp_" + "aB3d" * 9
    stream = frames.text_stream("the key is ghp_aB3d", token[8:])
    async with start_in_memory(FakeCLI(steps.turn([*stream, frames.assistant(f"the key is {token}")]))) as client:
        await client.query("hello there")
    told = "\n".join(lines(caplog))
    assert "the key is ***" in told
    assert '"delta": {"type": "text_delta", "text": "<19 characters>"}' in told
    assert "aB3daB3d" not in told


@pytest.mark.one_backend
async def test_secrets_that_the_cli_gets_are_hidden_wherever_they_appear(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INHERITED_CREDENTIALS", "inherited thing")
    env = {
        "ANY_KEY": "first thing",
        "GH_PAT": "another thing",
        "DATABASE_URL": "mysql://app:third%20thing@db/app",
        "PEM": "not named",
        "SIGNING_KEY": "first line of the key\nsecond line of the key",
    }
    server = {"command": "x", "env": {"TOOL_TOKEN": "fourth thing"}}
    text = (
        "first thing, another thing, third%20thing, fourth thing, inherited thing, not named, "
        "1:first line of the key 2:second line of the key"
    )
    caplog.set_level(5, "claude_agent_py.wire")
    greeting = frames.initialize_response(claude_code_version="2.1.328", mcp_servers_applied=True)
    fake = FakeCLI(steps.turn(text), initialize=greeting)
    async with start_in_memory(fake, env=env, mcp_servers={"one": server}) as client:
        assert (await client.query("hello there")).text == text
    told = "\n".join(lines(caplog))
    assert "not named" in told
    assert "1:<SIGNING_KEY> 2:<SIGNING_KEY>" in told
    assert not re.search(r"\w thing", told.replace("not named", ""))


@pytest.mark.one_backend
async def test_secrets_are_hidden_also_if_the_servers_are_in_a_file(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = tmp_path / "servers.json"
    path.write_text('{"mcpServers": {}}')
    own = {"two": {"command": "x", "env": {"A_KEY": "fifth thing"}}}
    agent = AgentDefinition(description="d", prompt="p", mcp_servers=["one", own])
    caplog.set_level(5, "claude_agent_py.wire")
    fake = FakeCLI(steps.turn("fifth thing, other thing"))
    more: dict[str, Any] = {"mcp_servers": path, "agents": {"reader": agent}}
    async with start_in_memory(fake, env={"ANY_KEY": "other thing"}, **more) as client:
        await client.query("hello there")
    told = "\n".join(lines(caplog))
    assert "<A_KEY>, <ANY_KEY>" in told
    assert " thing" not in told
