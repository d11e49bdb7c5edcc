"""What a user gets wrong: a clear typed error that names it, before a process is left behind."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from peers import MakeClient, start_in_memory
from pydantic import BaseModel

from claude_agent_py import (
    AgentDefinition,
    AuthenticationError,
    Client,
    ClientOptions,
    OptionsError,
    TextBlock,
    query,
    run,
)
from claude_agent_py.errors import LocalProtocolError
from claude_agent_py.testing import Failure, FakeCLI, ScriptedModel, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
def start() -> MakeClient:
    """Return a function that makes clients of fakes in memory: arguments are checked before anything is sent."""
    return start_in_memory


BAD_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown option": ({"modle": "opus"}, "modle"),
    "a name of the official SDK": ({"append_system_prompt": "x"}, "append_system_prompt"),
    "a number for a text": ({"model": 5}, "model"),
    "a text for a number": ({"max_turns": "many"}, "max_turns"),
    "a negative number": ({"max_turns": -1}, "max_turns"),
    "a text for a list": ({"allowed_tools": "Bash"}, "allowed_tools"),
    "a mode that does not exist": ({"permission_mode": "yolo"}, "permission_mode"),
    "no function": ({"can_use_tool": "yes"}, "can_use_tool"),
    "a hook event that does not exist": ({"hooks": {"PreToolUsed": [print]}}, "hooks"),
    "an agent without a prompt": ({"agents": {"a": {"description": "d"}}}, "agents"),
    "an agent without a description": ({"agents": {"a": {"prompt": "p"}}}, "agents"),
    "an agent that is a text": ({"agents": {"a": "reviewer"}}, "agents"),
    "agents in a list": ({"agents": ["a"]}, "agents"),
    "a schema that is no object": ({"output_format": {"type": "json_schema", "schema": "x"}}, "output_format"),
    "an output type that is a function": ({"output_type": print}, "output_type"),
    "a server of no kind": ({"mcp_servers": {"x": 5}}, "mcp_servers"),
    "a variable that is a number": ({"env": {"X": 5}}, "env"),
    "a NUL in a variable": ({"env": {"X": "a\0b"}}, "env"),
    "a NUL in an option": ({"model": "a\0b"}, "model"),
    "a flag that we set": ({"extra_args": {"verbose": None}}, "extra_args"),
    "a flag that is none": ({"extra_args": {"no good": None}}, "extra_args"),
    "a timeout of zero": ({"timeouts": {"connect": 0}}, "timeouts"),
    "an unknown timeout": ({"timeouts": {"conect": 1}}, "timeouts"),
    "options that exclude each other": ({"resume": "x", "continue_conversation": True}, "continue_conversation"),
}


@pytest.mark.one_backend
@pytest.mark.parametrize("kind", BAD_OPTIONS)
async def test_a_bad_option_is_named(kind: str, start_process: MakeClient) -> None:
    options, named = BAD_OPTIONS[kind]
    fake = FakeCLI()
    with anyio.fail_after(60), pytest.raises(OptionsError) as caught:
        await start_process(fake, **options).connect()  # some are seen when the options are made, the others now
    assert named in str(caught.value)
    assert named in (caught.value.option or "")
    assert fake.starts == []


async def test_an_agent_without_a_description_is_named_before_the_cli_drops_all_of_them() -> None:
    with pytest.raises(OptionsError, match="description"):
        AgentDefinition(description=" ", prompt="p")


BAD_PROMPTS: list[Any] = ["", "  \n", [], [{"text": "no type"}], 5, None, b"x", [TextBlock(text=" ")], ["x"]]


async def test_a_bad_prompt_is_an_error_before_it_is_sent(start: MakeClient) -> None:
    fake = FakeCLI(*(steps.turn(f"ok {number}") for number, _ in enumerate(BAD_PROMPTS)))
    with anyio.fail_after(60):
        async with start(fake) as client:
            for number, prompt in enumerate(BAD_PROMPTS):
                with pytest.raises(OptionsError, match="prompt"):
                    client.query(prompt)
                assert (await client.query("hi")).text == f"ok {number}"
    assert len(fake.received_like({"type": "user"})) == len(BAD_PROMPTS)


@pytest.mark.parametrize("prompt", BAD_PROMPTS)
async def test_a_bad_prompt_is_an_error_before_a_process_is_started(prompt: Any, start_process: MakeClient) -> None:
    fake = FakeCLI()
    options = start_process(fake).options
    with pytest.raises(OptionsError, match="prompt"):
        query(prompt, options)
    with pytest.raises(OptionsError, match="prompt"):
        await run(prompt, options)
    assert fake.starts == []


@pytest.mark.parametrize("arguments", [{"until": "done"}, {"timeout": -1}, {"timeout": "soon"}])
async def test_a_bad_argument_is_an_error_before_it_is_sent(arguments: dict[str, Any], start: MakeClient) -> None:
    fake = FakeCLI(steps.turn("ok"))
    [name] = arguments
    with anyio.fail_after(60):
        async with start(fake) as client:
            with pytest.raises(OptionsError, match=name):
                client.query("hi", **arguments)
            assert (await client.query("hi")).text == "ok"
    assert len(fake.received_like({"type": "user"})) == 1


async def test_options_of_another_kind() -> None:
    wrong: Any = {"model": "opus"}
    with pytest.raises((OptionsError, TypeError), match="ClientOptions"):
        Client(wrong)
    with pytest.raises((OptionsError, TypeError), match="ClientOptions"):
        await run("hi", wrong)


async def test_a_client_as_its_own_class() -> None:
    """Forgetting the parentheses or the await must not fail in a strange way."""
    with pytest.raises((LocalProtocolError, AttributeError, TypeError)):
        async with Client:  # type: ignore[attr-defined]
            pass


@pytest.mark.long
@pytest.mark.real_cli
async def test_an_invalid_api_key() -> None:
    failure = Failure(401, "invalid x-api-key")
    with ScriptedModel(lambda request: failure) as model, anyio.fail_after(60):
        with pytest.raises(AuthenticationError) as caught:
            await run("hi", model.options(env={"CLAUDE_CODE_MAX_RETRIES": "0", "ANTHROPIC_API_KEY": "sk-ant-secret-9"}))
    assert not caught.value.is_retryable
    assert "secret-9" not in str(caught.value)


@pytest.mark.long
@pytest.mark.real_cli
async def test_options_that_only_the_cli_can_judge(tmp_path: Path) -> None:
    """It prints what is wrong and exits; the start fails at once and shows it."""
    from claude_agent_py import CLIStartError

    with ScriptedModel() as model, anyio.fail_after(60):
        with pytest.raises(CLIStartError, match="not-a-flag") as caught:
            await run("hi", model.options(extra_args={"not-a-flag": None}))
    assert caught.value.exit_code == 1
    assert caught.value.version


class Answer(BaseModel):
    value: int


async def test_a_good_schema_is_taken(start: MakeClient) -> None:
    async with start(FakeCLI(), output_type=Answer) as client:
        assert client.is_open


async def test_secrets_stay_out_of_what_is_shown(start_process: MakeClient, caplog: pytest.LogCaptureFixture) -> None:
    """Not in a repr, not in an error, not in a log, not in the arguments of the program."""
    secret = "sk-ant-very-secret-1234"
    options: dict[str, Any] = {
        "env": {"ANTHROPIC_API_KEY": secret},
        "settings": {"apiKeyHelper": f"echo {secret}"},
        "mcp_servers": {"web": {"type": "http", "url": "http://x", "headers": {"Authorization": secret}}},
        "agents": {"a": AgentDefinition(description="d", prompt=secret)},
    }
    fake = FakeCLI(steps.wait_for_request("initialize"), steps.stderr("no\n"), steps.exit(1))
    client = start_process(fake, **options)
    with caplog.at_level("DEBUG"), anyio.fail_after(60), pytest.raises(Exception, match="exited") as caught:
        await client.connect()
    shown = [repr(client), repr(client.options), str(caught.value), repr(caught.value), caplog.text]
    assert [text for text in shown if secret in text] == []
    assert secret not in str(fake.starts[0].argv)
    assert secret in str(fake.requests("initialize"))  # where it belongs
    assert isinstance(client.options, ClientOptions)
