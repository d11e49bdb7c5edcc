"""Starts that fail: each is one typed error, soon, with its evidence, and leaves nothing behind."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from bounds import set_bound
from leftovers import is_alive
from peers import MakeClient
from stored import Stored

from claude_agent_py import (
    AgentDefinition,
    Client,
    ClientOptions,
    CLIExitError,
    CLINotFoundError,
    CLIStartError,
    ConnectionClosedError,
    LocalProtocolError,
    OptionsError,
    Timeouts,
    guard,
    query,
)
from claude_agent_py.errors import CLIVersionError
from claude_agent_py.hooks import HookMatcher
from claude_agent_py.sessions import Lease, MemoryStore, SessionKey, project_key_for_directory
from claude_agent_py.testing import FakeCLI, Gate, frames, steps
from claude_agent_py.transport import MINIMUM_CLI_VERSION

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

SOON = 30.0
"""What counts as at once, in seconds: half of the time limit of a start. On an idle machine it takes a tenth of one."""


@pytest.fixture(autouse=True)
def _any_machine_tells_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "VERSION_TIMEOUT", SOON)


async def make_handler_error(client: Client, error: type[Exception] = CLIStartError) -> Any:
    """Connect, and give the error of it."""
    with anyio.fail_after(SOON), pytest.raises(error) as caught:
        await client.connect()
    assert not client.is_open
    return caught.value


async def test_a_program_that_exits_at_once_is_reported_with_all_evidence(start_process: MakeClient) -> None:
    fake = FakeCLI(steps.stderr("error: unknown option '--x'\n"), steps.exit(7), version="2.1.400")
    error = await make_handler_error(start_process(fake))
    assert (error.exit_code, error.version) == (7, "2.1.400")
    assert error.stderr_tail.strip() == "error: unknown option '--x'"
    assert error.cli_path.endswith("/claude")
    for evidence in ("exit code 7", "2.1.400", "unknown option"):
        assert evidence in str(error)


async def test_a_lease_is_renewed_while_its_session_is_loaded(
    start_process: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Store(MemoryStore):
        renewed = 0

        async def renew_lease(self, lease: Lease, *, ttl: float = 30.0) -> Lease:
            self.renewed += 1
            return await super().renew_lease(lease, ttl=ttl)

        async def load(self, key: SessionKey) -> Any:
            while self.renewed < 2:
                await anyio.sleep(0.01)
            return await super().load(key)

    set_bound(monkeypatch, "LEASE_SECONDS", 0.15)
    store, key = Store(), SessionKey(project_key="p", session_id="11111111-1111-4111-8111-111111111111")
    await store.append(key, [{"type": "user", "uuid": "1"}])
    await make_handler_error(start_process(FakeCLI(steps.exit(1)), session_store=store, resume=key["session_id"]))
    await store.acquire_lease(key, "the next")


async def test_a_program_that_exits_with_0_at_once_is_an_error_all_the_same(start: MakeClient) -> None:
    assert (await make_handler_error(start(FakeCLI(steps.exit(0))))).exit_code == 0


async def test_a_program_that_dies_of_a_signal_is_reported_by_its_number(start: MakeClient) -> None:
    assert (await make_handler_error(start(FakeCLI(steps.die(signal.SIGSEGV))))).exit_code == -signal.SIGSEGV


async def test_a_program_that_ends_while_it_initializes(start: MakeClient) -> None:
    fake = FakeCLI(steps.wait_for_request("initialize"), steps.stderr("cannot open HOME\n"), steps.exit(1))
    error = await make_handler_error(start(fake))
    assert (error.exit_code, error.stderr_tail.strip()) == (1, "cannot open HOME")


@pytest.mark.parametrize(
    "garbage",
    [
        b"Now using node v22\n",
        b"\xff\xfe\x00\n",
        b'"hello"\n',
        b"[1, 2]\n",
        b"null\n",
        b"{half a line\n",
        b"{}\n",
        b'{"type": 5}\n',
    ],
)
async def test_what_a_wrapper_prints_before_the_cli_starts_does_no_harm(start: MakeClient, garbage: bytes) -> None:
    with anyio.fail_after(60):
        async with start(FakeCLI(garbage * 3, steps.turn("hello"))) as client:
            assert (await client.query("hi")).text == "hello"


@pytest.mark.parametrize("garbage", [b"npm WARN old lockfile\nUsage: claude [options]\n", b"npm WARN old"])
async def test_a_program_that_prints_something_and_exits_is_quoted(start: MakeClient, garbage: bytes) -> None:
    error = await make_handler_error(start(FakeCLI(garbage, steps.exit(0), answers={"initialize": None})))
    assert "exited before the session was open; it printed 'npm WARN old" in str(error)
    assert ("Usage: claude" in str(error)) == (b"Usage" in garbage)


async def test_a_program_that_prints_something_and_never_answers_is_quoted(start: MakeClient) -> None:
    fake = FakeCLI(b"npm WARN old lockfile\n" * 100, answers={"initialize": None})
    error = str(await make_handler_error(start(fake, timeouts=Timeouts(connect=2, close=6))))
    assert "'initialize'" in error
    assert error.count("npm WARN old lockfile") == 9  # only the beginning


@pytest.mark.parametrize("broken", [{"subtype": "success", "response": 5}, {"subtype": "what"}, {}])
async def test_an_answer_that_is_malformed_fails_the_start_at_once(start: MakeClient, broken: dict[str, Any]) -> None:
    response = {"request_id": frames.heard_field("request_id"), **broken}
    fake = FakeCLI(steps.wait_for_request("initialize"), {"type": "control_response", "response": response})
    assert "malformed" in str(await make_handler_error(start(fake)))


async def test_empty_lines_and_unknown_frames_before_the_answer_do_no_harm(start: MakeClient) -> None:
    fake = FakeCLI(b"\n\r\n  \n", frames.system("something_new"), steps.turn("hello"))
    with anyio.fail_after(60):
        async with start(fake) as client:
            assert (await client.query("hi")).text == "hello"


async def test_a_program_that_never_answers_is_ended_when_the_time_is_up(start: MakeClient) -> None:
    fake = FakeCLI(answers={"initialize": None})
    error = await make_handler_error(start(fake, timeouts=Timeouts(connect=0.2)))
    assert "0.2 s" in str(error)


async def test_a_program_that_answers_nothing_not_even_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "VERSION_TIMEOUT", 0.2)
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    error = await make_handler_error(Client(ClientOptions(cli_path=program, timeouts=Timeouts(connect=0.2))))
    assert error.version is None


async def test_a_refusal_is_reported_in_the_words_of_the_program(start: MakeClient) -> None:
    fake = FakeCLI(answers={"initialize": {"error": "initialize: hooks must map hook events to arrays"}})
    assert "hooks must map" in str(await make_handler_error(start(fake)))


async def ignore(*given: Any) -> None:
    return None


STEPS: Any = [
    ("get_settings", {"settings": {"model": "opus"}}),
    ("get_hooks_listing", {"hooks": {"PreToolUse": [HookMatcher(None, ignore)]}}),
]


@pytest.mark.parametrize(("step", "options"), STEPS)
async def test_a_program_that_ends_after_it_initialized_did_not_start(
    start_process: MakeClient, step: str, options: dict[str, Any]
) -> None:
    fake = FakeCLI(steps.wait_for_request(step), steps.stderr("boom\n"), steps.exit(3), answers={step: None})
    error = await make_handler_error(start_process(fake, **options))
    assert (error.exit_code, error.stderr_tail.strip()) == (3, "boom")
    assert "exited before the session was open" in str(error)


@pytest.mark.parametrize(("step", "options"), STEPS)
async def test_a_program_that_is_silent_after_it_initialized_did_not_start(
    start_process: MakeClient, step: str, options: dict[str, Any]
) -> None:
    client = start_process(FakeCLI(answers={step: None}), **options, timeouts=Timeouts(connect=1.5))
    assert f"did not answer '{step}' within 1.5 s" in str(await make_handler_error(client))


def denying(*rules: str) -> dict[str, Any]:
    """What a CLI tells that has read these rules."""
    return {"sources": [{"source": "flagSettings", "settings": {"permissions": {"deny": list(rules)}}}]}


@pytest.mark.parametrize(
    ("options", "told", "problem"),
    [
        (
            {"settings": {"permissions": {"deny": ["Bash", "bash"]}}},
            denying("Bash"),
            "settings: the CLI ignores the deny rule 'bash'",
        ),
        (
            {"managed_settings": {"permissions": {"ask": ["Bash("]}}},
            {"sources": []},
            r"managed_settings: the CLI ignores the ask rule 'Bash\('",
        ),
        (
            {"managed_settings": {"permissions": {"deny": "Bash"}}},
            {"sources": [{"source": "policySettings", "settings": {}}]},
            "managed_settings: the CLI ignores the deny rule 'Bash'",
        ),
        (
            {"settings": __file__},
            {"errors": [{"file": __file__, "path": "model", "message": "Expected string"}]},
            r"settings: the CLI rejected them \(model: Expected string\)",
        ),
    ],
)
async def test_settings_that_the_cli_ignores_start_no_session(
    options: dict[str, Any], told: dict[str, Any], problem: str, start_process: MakeClient
) -> None:
    confirmed = frames.initialize_response(managed_settings_applied=True)
    answers = {"initialize": {"response": confirmed}, "get_settings": {"response": told}}
    with anyio.fail_after(SOON), pytest.raises(OptionsError, match=problem):
        await start_process(FakeCLI(answers=answers), **options).connect()


@pytest.mark.parametrize("name", ["link.json", "folder/../settings.json", "settings.json"])
async def test_a_file_of_settings_is_known_by_any_of_its_names(
    name: str, tmp_path: Path, start_process: MakeClient
) -> None:
    told = {"errors": [{"file": str(tmp_path / "settings.json"), "path": "model", "message": "Expected string"}]}
    (tmp_path / "folder").mkdir()
    (tmp_path / "settings.json").touch()
    (tmp_path / "link.json").symlink_to("settings.json")
    client = start_process(FakeCLI(answers={"get_settings": {"response": told}}), settings=tmp_path / name)
    with anyio.fail_after(SOON), pytest.raises(OptionsError, match="the CLI rejected them"):
        await client.connect()


@pytest.mark.parametrize("told", [denying("Bash", "Read(x)"), {}], ids=["all rules", "a CLI that does not tell them"])
async def test_settings_that_the_cli_has_read_start_a_session(told: dict[str, Any], start_process: MakeClient) -> None:
    fake = FakeCLI(steps.turn("ok"), answers={"get_settings": {"response": told}})
    with anyio.fail_after(SOON):
        async with start_process(fake, settings={"permissions": {"deny": ["Read(x)", "Bash"]}}) as client:
            assert (await client.query("hi")).text == "ok"


async def test_managed_settings_that_the_cli_ignores_are_logged(
    start_process: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    kept = {"permissions": {"deny": ["Bash"]}, "sandbox": {"network": {"deniedDomains": ["a"]}}}
    answers = {
        "initialize": {"response": frames.initialize_response(managed_settings_applied=True)},
        "get_settings": {"response": {"sources": [{"source": "policySettings", "settings": kept}]}},
    }
    given = {
        "permissions": {"deny": ("Bash",)},
        "model": "opus",
        "hooks": {"Stop": [{"hooks": []}]},
        "sandbox": {"network": {"deniedDomains": ["a"], "allowLocalBinding": False}},
        "disableAllHooks": True,
    }
    with anyio.fail_after(SOON):
        async with start_process(FakeCLI(answers=answers), managed_settings=given):
            pass
    [told] = [record.getMessage() for record in caplog.records if record.name == "claude_agent_py"]
    assert "the CLI ignores disableAllHooks, hooks.Stop, model, sandbox.network.allowLocalBinding:" in told


async def test_a_program_that_does_not_tell_its_settings_did_not_start(start_process: MakeClient) -> None:
    client = start_process(FakeCLI(answers={"get_settings": {"error": "not now"}}), settings={"model": "opus"})
    assert "rejected 'get_settings': not now" in str(await make_handler_error(client))


async def test_a_program_that_ends_before_it_tells_the_turn_that_it_resumes_did_not_start(
    start_process: MakeClient,
) -> None:
    initialized = [
        steps.wait_for_request("initialize"),
        steps.answer(frames.initialize_response(session_state="running")),
    ]
    fake = FakeCLI([*initialized, steps.exit(3)], answers={"initialize": None})
    client = start_process(fake, resume="11111111-1111-4111-8111-111111111111", resume_interrupted_turn=True)
    assert (await make_handler_error(client)).exit_code == 3


async def test_an_answer_that_is_something_else(start: MakeClient) -> None:
    fake = FakeCLI(initialize={"agents": 5, "claude_code_version": {}})
    assert "agents" in str(await make_handler_error(start(fake)))


@pytest.mark.parametrize("version", ["2.0.14", "2.1.327"])
async def test_a_program_that_is_too_old(start: MakeClient, version: str) -> None:
    error = await make_handler_error(start(FakeCLI(version=version)), CLIVersionError)
    assert f"is version {version}; at least {MINIMUM_CLI_VERSION} is needed" in str(error)


async def test_a_program_that_is_so_old_that_it_does_not_say_its_version(start_process: MakeClient) -> None:
    said = frames.initialize_response()
    del said["claude_code_version"]
    error = await make_handler_error(start_process(FakeCLI(initialize=said, version="1.0.60")), CLIVersionError)
    assert "1.0.60" in str(error)


@pytest.mark.parametrize("rest", ["exit 0", "echo \"error: unknown option '--x'\" >&2; exit 1", "exec sleep 60"])
async def test_a_program_that_is_too_old_to_start(tmp_path: Path, rest: str) -> None:
    program = tmp_path / "claude"
    program.write_text(
        f"#!/bin/sh\necho 'Using node v22.1.0'\n[ \"$1\" = --version ] && echo '1.0.60 (Claude Code)' && exit\n{rest}\n"
    )
    program.chmod(0o755)
    client = Client(ClientOptions(cli_path=program, timeouts=Timeouts(connect=0.5)))
    error = await make_handler_error(client, CLIVersionError)
    assert (error.version, error.cli_path) == ("1.0.60", str(program))
    assert error.__cause__ is not None
    [note] = error.__notes__
    assert "unknown option" in note or "exit code 0" in note or "0.5 s" in note


@pytest.mark.parametrize(
    "version", [MINIMUM_CLI_VERSION, "2.1.400", "2.1.400-beta.1", "3.0.0 (Claude Code)", "10.0.0", "dev"]
)
async def test_newer_and_odd_versions_are_taken(start: MakeClient, version: str) -> None:
    with anyio.fail_after(60):
        async with start(FakeCLI(version=version)) as client:
            assert client.is_open


async def test_agents_that_the_program_drops_are_named(start: MakeClient) -> None:
    agents = {"mine": AgentDefinition(description="d", prompt="p")}
    fake = FakeCLI(initialize={"agents": [{"name": "Explore", "description": "d"}]})
    error = await make_handler_error(start(fake, agents=agents), OptionsError)
    assert error.option == "agents"
    assert "mine" in str(error)


# What is no program ----------------------------------------------------------------------------------------------


async def test_a_program_that_does_not_accept_hooks_is_refused(start: MakeClient) -> None:
    fake = FakeCLI(initialize=frames.initialize_response(hooks_applied=False))
    client = start(fake, hooks={"PreToolUse": [guard(lambda request, context: None)]})
    assert "hooks: the CLI did not accept them" in str(await make_handler_error(client, OptionsError))


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    error = await make_handler_error(Client(ClientOptions(cli_path=tmp_path / "nothing")), CLINotFoundError)
    assert "nothing" in str(error)
    assert error.tried


async def test_no_program_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLAUDE_AGENT_CLI", raising=False)
    monkeypatch.setenv("CLAUDE_AGENT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CLAUDE_AGENT_BUNDLED_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    set_bound(monkeypatch, "USUAL_PLACES", (".local/bin/claude",))
    error = await make_handler_error(Client(), CLINotFoundError)
    assert any(".local/bin" in place for place in error.tried)
    assert "install-cli" in str(error)


async def test_a_file_that_is_not_executable(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\n")
    error = await make_handler_error(Client(ClientOptions(cli_path=program)), CLINotFoundError)
    assert "not executable" in str(error)


async def test_a_folder(tmp_path: Path) -> None:
    assert "folder" in str(await make_handler_error(Client(ClientOptions(cli_path=tmp_path)), CLINotFoundError))


@pytest.mark.parametrize("content", [b"hello\n", b"", b"\x7fELF broken", b"#!/no/such/interpreter\n"])
async def test_a_file_that_is_no_program(tmp_path: Path, content: bytes) -> None:
    program = tmp_path / "claude"
    program.write_bytes(content)
    program.chmod(0o755)
    error = await make_handler_error(Client(ClientOptions(cli_path=program)))
    assert str(program) in str(error)


async def test_a_program_of_another_kind(tmp_path: Path) -> None:
    for other in ("true", "false", "cat", "ls"):
        program = tmp_path / other
        program.symlink_to(f"/bin/{other}")
        client = Client(ClientOptions(cli_path=program, timeouts=Timeouts(connect=1)))
        await make_handler_error(client)


# Options ---------------------------------------------------------------------------------------------------------


async def test_a_directory_that_is_not_there(start_process: MakeClient, tmp_path: Path) -> None:
    fake = FakeCLI()
    error = await make_handler_error(start_process(fake, cwd=tmp_path / "nowhere"), OptionsError)
    assert error.option == "cwd"
    assert "nowhere" in str(error)
    assert fake.starts == []


async def test_a_directory_that_may_not_be_entered(start_process: MakeClient, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o000)
    if os.access(locked, os.X_OK):
        pytest.skip("root may enter everything")
    assert "locked" in str(await make_handler_error(start_process(FakeCLI(), cwd=locked)))


async def test_timeouts_that_cannot_be_read(start: MakeClient) -> None:
    """Whatever fails once the program runs: it does not stay."""

    class Broken(Timeouts):
        def __getattribute__(self, name: str) -> Any:
            if name == "connect":
                raise LookupError(name)
            return super().__getattribute__(name)

    fake = FakeCLI(ignore_eof=True)
    client = start(fake, timeouts=Broken())
    await make_handler_error(client, LookupError)
    with pytest.raises(ConnectionClosedError):
        client.query("hi")
    await client.close()
    assert all(not is_alive(one.pid) for one in fake.starts)


# After it --------------------------------------------------------------------------------------------------------


async def test_a_client_that_failed_to_start_says_so_to_everybody(start: MakeClient) -> None:
    client = start(FakeCLI(steps.exit(3)))
    await make_handler_error(client)
    with pytest.raises(ConnectionClosedError):
        client.query("hi")
    with pytest.raises(ConnectionClosedError):
        await client.interrupt()
    with pytest.raises(LocalProtocolError, match="once"):
        await client.connect()
    with pytest.raises(CLIExitError):
        await anext(client.messages())
    await client.close()
    assert len(client.tasks) == 0


async def test_a_run_whose_start_failed_stays_failed(tmp_path: Path) -> None:
    """For all that wait for it, and all that ask again: one error, one process."""
    fake = FakeCLI(steps.exit(3))
    run = query("hi", ClientOptions(cli_path=fake.install(tmp_path)))
    errors: list[Exception] = []

    async def fails(use: Callable[[], Any]) -> None:
        with pytest.raises(CLIStartError, match="exit code 3") as caught:
            await use()
        errors.append(caught.value)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for use in (lambda: run, lambda: anext(aiter(run)), run.result):
                group.start_soon(fails, use)
        await fails(lambda: anext(run.text_stream()))
        await fails(run.interrupt)
    assert len(errors) == 5
    assert all(error is errors[0] for error in errors)
    assert len(fake.starts) == 1
    assert not run.done


async def test_a_run_whose_start_was_cancelled_starts_afresh(tmp_path: Path) -> None:
    gate = Gate()
    up = steps.answer(frames.initialize_response())
    fake = FakeCLI(
        steps.wait_for_request("initialize"),
        steps.wait_gate(gate),
        up,
        steps.turn("one"),
        answers={"initialize": None},
    )
    run = query("hi", ClientOptions(cli_path=fake.install(tmp_path)))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(run.result)
            await fake.wait_received({"request": {"subtype": "initialize"}})
            group.cancel_scope.cancel()
        gate.open()
        assert (await run).text == "one"
    assert len(fake.starts) == 2


async def test_a_failed_start_is_soon(start_process: MakeClient) -> None:
    """Sixty seconds of silence is what the official SDK gives; here it takes as long as the program does."""
    began = time.monotonic()
    await make_handler_error(start_process(FakeCLI(steps.exit(1))))
    assert time.monotonic() - began < SOON


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"resume": "11111111-1111-4111-8111-111111111111"},
        {"resume": "a title that no session has"},
        {"continue_conversation": True},
    ],
    ids=["new", "by its id", "by its title", "the newest"],
)
async def test_a_budget_is_whole_if_nothing_is_known_of_an_earlier_process(
    start_process: MakeClient, tmp_path: Path, more: dict[str, Any]
) -> None:
    fake, env = FakeCLI(steps.turn("ok")), {"CLAUDE_CONFIG_DIR": str(tmp_path / "config")}
    with anyio.fail_after(60):
        async with start_process(fake, max_budget_usd=1.0, env=env, **more) as client:
            result = await client.query("hi")
    assert result.spent_before_usd == 0.0
    assert result.budget_left_usd == 1.0 - result.total_cost_usd


@pytest.mark.parametrize("place", ["a new home", "elsewhere"])
async def test_a_budget_is_whole_if_the_transcript_is_in_another_place(
    place: str, start_process: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    here = Stored(tmp_path / ".claude", project=project_key_for_directory(tmp_path))
    here.user("hello")
    here.note("cost-state", totalCostUSD=5.0)
    fake = FakeCLI(steps.turn("ok"))
    more: dict[str, Any] = {"spawn": lambda plan: fake.transport(), "resume": here.id}
    if place == "a new home":
        more = {"home": True, "session_store": MemoryStore(), "continue_conversation": True}
    with anyio.fail_after(60):
        async with start_process(fake, max_budget_usd=1.0, cwd=tmp_path, **more) as client:
            result = await client.query("hi")
    assert result.spent_before_usd == 0.0


async def test_a_store_does_not_look_up_titles(start_process: MakeClient) -> None:
    with anyio.fail_after(60), pytest.raises(OptionsError, match="in a store, titles are not looked up"):
        async with start_process(FakeCLI(), session_store=MemoryStore(), resume="a title"):
            raise AssertionError("it starts")


async def test_continuing_where_nothing_was_begins_a_session(start_process: MakeClient, tmp_path: Path) -> None:
    env = {"CLAUDE_CONFIG_DIR": str(tmp_path / "config")}
    store = MemoryStore()
    with anyio.fail_after(60):
        async with start_process(
            FakeCLI(steps.turn("new")), session_store=store, env=env, continue_conversation=True
        ) as client:
            assert (await client.query("hi")).text == "new"


async def test_secrets_of_the_options_are_not_in_the_text_of_an_error(start: MakeClient) -> None:
    printed = "refused q7zRk2Lw93Tn4 and Kp2Lw93Tn4q7\n"
    settings = {"env": {"OTHER_TOKEN": "Kp2Lw93Tn4q7"}}
    options: dict[str, Any] = {"env": {"MY_SERVICE_TOKEN": "q7zRk2Lw93Tn4"}, "settings": settings}
    at_the_start = start(FakeCLI(steps.wait_for_request("initialize"), steps.stderr(printed), steps.exit(1)), **options)
    with pytest.raises(CLIStartError) as failed:
        await at_the_start.connect()
    on_stdout = start(FakeCLI(printed.encode(), steps.exit(1), answers={"initialize": None}), **options)
    with pytest.raises(CLIStartError, match=r"it printed 'refused <MY_SERVICE_TOKEN> and <OTHER_TOKEN>'"):
        await on_stdout.connect()
    async with start(FakeCLI(steps.wait_for_prompt(), steps.stderr(printed), steps.exit(1)), **options) as client:
        with pytest.raises(CLIExitError) as ended:
            await client.query("Hi")
        with pytest.raises(CLIExitError) as again:
            client.query("Hi")
    for error in (failed.value, ended.value, again.value):
        assert str(error).endswith("refused <MY_SERVICE_TOKEN> and <OTHER_TOKEN>")
        assert error.stderr_tail == printed
