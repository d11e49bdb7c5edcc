"""Who gets which process of a pool, in which order, and what becomes of it afterwards."""

import itertools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from bounds import set_bound
from pool_peers import PATIENCE, Peers, until, until_settled

from claude_agent_py import (
    AgentDefinition,
    Allow,
    ClientOptions,
    ConnectionClosedError,
    Deny,
    HookMatcher,
    OptionsError,
    Timeouts,
    ToolContext,
    ToolServer,
    tool,
)
from claude_agent_py.hooks import Hooks
from claude_agent_py.permissions import PendingInteractions, PermissionContext
from claude_agent_py.pool import Pool, PoolTimeoutError, map_runs
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


async def test_a_process_serves_one_session_and_is_replaced() -> None:
    peers = Peers()
    async with Pool(peers.options(), size=2, max_size=3) as pool:
        await pool.ready()
        assert (pool.stats().spares, len(peers.plans)) == (2, 2)
        seen = []
        for _ in range(4):
            async with pool.client() as client:
                seen.append(client)
                assert (await client.query("hi")).text == "done"
        assert len({id(client) for client in seen}) == 4
        stats = await until_settled(pool, 2)
        assert (stats.warm + stats.cold, len(peers.plans)) == (4, 6)
        for client in seen:
            with pytest.raises(ConnectionClosedError):
                client.query("again")
    assert pool.stats().processes == 0


async def test_a_start_does_not_compete_with_the_first_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    peers = Peers()
    set_bound(monkeypatch, "FIRST_ANSWER", 1000.0)
    async with Pool(peers.options(), size=2, max_size=4) as pool:
        await pool.ready()
        async with pool.client() as client:
            await client.query("hi")
            assert len(peers.plans) == 2
            async with pool.client():  # too few are left to wait
                await until(pool, lambda stats: stats.spares >= 1)
        await until_settled(pool, 2)


async def test_ready_waits_for_the_spare_that_replaces_a_used_one() -> None:
    async with Pool(Peers().options(), size=2, max_size=4) as pool:
        await pool.ready()
        async with pool.client():
            await pool.ready()
            assert pool.stats().spares == 2


@pytest.mark.parametrize(("size", "max_size"), [(0, 4), (2, 2)])
async def test_ready_does_not_wait_for_spares_that_need_not_start(
    size: int, max_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "FIRST_ANSWER", 1000.0)
    with anyio.fail_after(PATIENCE):
        async with Pool(Peers().options(), size=size, max_size=max_size) as pool:
            await pool.ready()
            async with pool.client():
                await pool.ready()


async def test_a_spare_is_replaced_although_its_pause_ends_between_two_looks_at_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, looks = anyio.current_time, itertools.count(1)
    set_bound(monkeypatch, "FIRST_ANSWER", 1000.0)
    set_bound(monkeypatch, "CHECK_EVERY", 1000.0)  # what is found then wakes the pool, too
    async with Pool(Peers().options(), size=2, max_size=3) as pool:
        await pool.ready()
        monkeypatch.setattr(anyio, "current_time", lambda: real() + 400.0 * next(looks))
        async with pool.client():
            await until(pool, lambda stats: stats.spares == 2)


async def test_runs() -> None:
    async with Pool(Peers().options(), size=1, max_size=1) as pool:
        assert (await pool.run("hi")).text == "done"
        run = pool.query("hi")
        assert "done" in [getattr(message, "text", None) async for message in run]
        assert (await run).text == "done"
        async for _ in pool.query("left early"):
            break
        with anyio.fail_after(PATIENCE):
            assert (await pool.run("the process of the last one is free again")).text == "done"
        with pytest.raises(OptionsError):
            pool.query("")
        with pytest.warns(RuntimeWarning, match="query.* was never awaited, so its prompt was not sent"):
            pool.query("nobody reads")


async def test_the_model_and_the_permission_mode_change_at_hand_out() -> None:
    peers = Peers(answers={"set_permission_mode": {"response": {"mode": "acceptEdits"}}})
    options = peers.options(permission_mode="default", model="sonnet")
    async with Pool(options, size=1, max_size=1) as pool:
        await pool.ready()
        async with pool.client(options.replace(model="opus", permission_mode="acceptEdits")) as client:
            assert (client.options.model, client.options.permission_mode) == ("opus", "acceptEdits")
        assert pool.stats().warm == 1
    assert [request["model"] for request in peers.cli.requests("set_model")] == ["opus"]
    assert [request["mode"] for request in peers.cli.requests("set_permission_mode")] == ["acceptEdits"]


@pytest.mark.parametrize(
    ("ahead", "wanted"),
    [
        ({"permission_mode": "bypassPermissions"}, {"permission_mode": "default"}),
        ({"permission_mode": "default"}, {"permission_mode": "bypassPermissions"}),
        ({"permission_mode": "default"}, {"permission_mode": "plan"}),
        ({}, {"permission_mode": "default"}),
        ({"model": "opus"}, {"model": None}),
        ({}, {"tools": ["Read"]}),
        ({}, {"resume": "6f1f0f1e-7d3c-4f5e-8f43-111111111111"}),
        ({}, {"env": {"A": "1"}}),
    ],
)
async def test_options_fixed_at_the_start_need_a_separate_process(
    ahead: dict[str, Any], wanted: dict[str, Any]
) -> None:
    peers = Peers()
    options = peers.options(**ahead)
    async with Pool(options, size=1, max_size=4) as pool:
        await pool.ready()
        async with pool.client(options.replace(**wanted)) as client:
            assert client.options == options.replace(**wanted)
            assert pool.stats().cold == 1
    assert peers.cli.requests("set_model") == peers.cli.requests("set_permission_mode") == []


async def test_a_spare_that_refuses_a_change_is_replaced_by_a_new_process() -> None:
    peers = Peers(answers={"set_model": {"error": "no"}})
    options = peers.options(model="sonnet")
    async with Pool(options, size=2, max_size=4) as pool:
        await pool.ready()
        async with pool.client(options.replace(model="opus")) as client:
            assert client.options.model == "opus"
    assert any("--model=opus" in plan.argv for plan in peers.plans)
    assert len(peers.cli.requests("set_model")) == 1


async def test_a_spare_that_does_not_answer_a_change_is_replaced_within_the_time_of_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peers = Peers(answers={"set_model": None})
    options = peers.options(model="sonnet")
    opus = options.replace(model="opus")
    async with Pool(options, size=1, max_size=4) as pool:
        await pool.ready()
        with anyio.fail_after(5), pytest.raises(PoolTimeoutError):
            await pool.client(opus, timeout=0.05).__aenter__()
        set_bound(monkeypatch, "CHECK_TIMEOUT", 0.05)
        await pool.ready()
        with anyio.fail_after(5):
            async with pool.client(opus) as client:
                assert client.options.model == "opus"
    assert len(peers.cli.requests("set_model")) == 2


async def allow(request: Any, context: Any) -> Allow:
    return Allow()


async def note(input: Any, context: Any) -> None:
    return None


@tool
def add(a: int) -> int:
    """Add."""
    return a


async def test_handlers_tools_and_hooks_have_to_be_the_same() -> None:
    peers = Peers()
    hooks = Hooks({"PreToolUse": [HookMatcher("Bash", note)]})
    options = peers.options(
        can_use_tool=allow,
        permission_mode="default",
        hooks=hooks,
        custom_tools=[add],
        mcp_servers={"own": ToolServer("own", [add])},
        agents={"one": AgentDefinition(description="d", prompt="p")},
        system_prompt="Be brief.",
        timeouts=Timeouts(run=30.0),
    )
    async with Pool(options, size=1, max_size=3) as pool:
        await pool.ready()
        async with pool.client(options.replace(model="opus")):
            assert pool.stats().warm == 1
        await until_settled(pool, 1)
        async with pool.client(options.replace(can_use_tool=lambda request, context: Allow())):
            assert pool.stats().cold == 1
        await until(pool, lambda stats: stats.spares >= 1 and not stats.closing)
        with pytest.warns(match="already started"):
            hooks.add("PreToolUse", HookMatcher("Write", note))
        async with pool.client():
            assert pool.stats().cold == 2, "a process without the new hook was handed out"


@dataclass(frozen=True)
class Policy:
    """Equal for two tenants, although each has its own log."""

    seen: list[str] = field(default_factory=list, compare=False)

    async def __call__(self, *given: Any) -> Any:
        self.seen.append("asked")

    async def listen(self, *given: Any) -> None:
        return None


class EqualStore(dict[str, Any]):
    """A store that equals every other empty one."""

    async def append(self, key: Any, entries: Any) -> None:
        return None

    async def load(self, key: Any) -> None:
        return None


class EqualInbox(PendingInteractions):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, EqualInbox)

    __hash__ = PendingInteractions.__hash__


class EqualServer(ToolServer):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, EqualServer)

    __hash__ = ToolServer.__hash__


@pytest.mark.parametrize(
    "build",
    [
        lambda: {"can_use_tool": Policy(), "permission_mode": "default"},
        lambda: {"on_stderr": Policy()},
        lambda: {"on_task_event": Policy().listen},
        lambda: {"hooks": {"PreToolUse": [Policy()]}},
        lambda: {"interactions": EqualInbox()},
        lambda: {"session_store": EqualStore()},
        lambda: {"mcp_servers": {"own": EqualServer("own", [add])}},
    ],
    ids=["permission", "listener", "method", "hook", "inbox", "store", "server"],
)
async def test_options_with_equal_objects_are_not_the_same(build: Callable[[], dict[str, Any]]) -> None:
    peers = Peers()
    one, other = peers.options(**build()), peers.options(**build())
    async with Pool(one, size=1, max_size=3) as pool:
        await pool.ready()
        async with pool.client(one.replace(model="opus")):
            assert pool.stats().warm == 1
        await until_settled(pool, 1)
        async with pool.client(other):
            assert pool.stats().cold == 1, "a process with the objects of other options was handed out"


async def test_changed_options_apply_to_later_processes_only() -> None:
    peers = Peers()
    denied: list[str] = []
    settings = {"permissions": {"deny": denied}}
    options = peers.options(settings=settings)
    async with Pool(options, size=1, max_size=3) as pool:
        await pool.ready()
        async with pool.client() as client:
            assert pool.stats().warm == 1
            denied.append("Bash")
            assert client.options.settings == {"permissions": {"deny": []}}
        async with pool.client() as client:
            assert client.options.settings == {"permissions": {"deny": ["Bash"]}}
            assert pool.stats().cold == 1, "a process without the rule was handed out"
        assert any("Bash" in text for plan in peers.plans for text in plan.files.values())


async def test_a_process_fits_only_the_environment_of_its_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with Pool(Peers().options(), size=1, max_size=2) as pool:
        await pool.ready()
        monkeypatch.setenv("ANTHROPIC_API_KEY", "another")
        async with pool.client():
            assert pool.stats().cold == 1
        await until(pool, lambda stats: stats.spares >= 1 and not stats.closing and not stats.starting)
        monkeypatch.chdir(tmp_path)
        async with pool.client():
            assert pool.stats().cold == 2


async def test_spares_for_other_options() -> None:
    options = Peers().options()
    other = options.replace(tools=["Read"])
    async with Pool(options, size=1, max_size=8) as pool:
        await pool.warm(other, size=2)
        await until_settled(pool, 3)
        async with pool.client(options.replace(tools=["Read"])):
            assert pool.stats().warm == 1
        await pool.warm(other, size=0)
        with pytest.raises(OptionsError, match="resume"):
            await pool.warm(options.replace(resume="x"), size=1)


@pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script")
async def test_a_parked_spare_takes_a_directory_or_makes_way(tmp_path: Path) -> None:
    claims = FakeCLI(steps.turn("claimed"), answers={"claim_session": {"response": {"status": "ok"}}})
    refuses = FakeCLI(steps.turn("own"), answers={"claim_session": {"error": "project_settings_not_claimable"}})
    for number, (fake, expected) in enumerate([(claims, (1, 0)), (refuses, (0, 1))]):
        options: ClientOptions = ClientOptions(cli_path=fake.install(tmp_path / str(number)))
        elsewhere = options.replace(cwd=tmp_path)
        async with Pool(options, size=0, parked=1, max_size=2) as pool:
            await pool.ready()
            async with pool.client(elsewhere) as client:
                assert client.options == elsewhere
                await client.query("hi")
                assert (pool.stats().warm, pool.stats().cold) == expected
        assert [request["cwd"] for request in fake.requests("claim_session")] == [str(tmp_path)]
        used = [start for start in fake.starts if "--await-claim" not in start.argv]
        assert [start.cwd for start in used] == ([] if fake is claims else [str(tmp_path)])


@pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script")
async def test_policies_and_tools_of_a_parked_spare_see_the_directory_that_it_took(tmp_path: Path) -> None:
    seen: list[str | None] = []

    async def decide(request: Any, context: PermissionContext) -> Deny:
        seen.append(context.cwd)
        return Deny("no")

    @tool
    def look(context: ToolContext) -> str:
        """Look."""
        seen.append(context.cwd)
        return ""

    script = [
        steps.wait_for_prompt(),
        frames.can_use_tool("asked"),
        steps.wait_for_reply("asked"),
        frames.mcp_message("call", "own", "tools/call", name="look", arguments={}),
        steps.wait_for_reply("call"),
        frames.result("done"),
    ]
    claimed = {"claim_session": {"response": {"status": "ok"}}}
    fake = FakeCLI(script, answers=claimed)
    options: ClientOptions = ClientOptions(
        cli_path=fake.install(tmp_path / "cli"), can_use_tool=decide, mcp_servers={"own": ToolServer("own", [look])}
    )
    async with Pool(options, size=0, parked=1, max_size=2) as pool:
        await pool.ready()
        async with pool.client(options.replace(cwd=tmp_path)) as client:
            await client.query("hi")
            assert pool.stats().warm == 1
    assert seen == [str(tmp_path), str(tmp_path)]


@pytest.mark.parametrize(
    "wrong", [{"settings": {"model": "opus"}}, {"mcp_servers": {"a": {"command": "b"}}}, {"spawn": lambda plan: None}]
)
async def test_options_that_depend_on_the_directory_cannot_be_parked(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionsError, match="parked"):
        Pool(ClientOptions(**wrong), parked=1)


# The queue -------------------------------------------------------------------------------------------------------


async def test_callers_are_served_in_order_and_within_the_bound() -> None:
    peers, order, most = Peers(), list[int](), 0

    async def use(pool: Pool[Any], number: int) -> None:
        nonlocal most
        async with pool.client(peers.options(tools=["Read"]) if number % 3 == 2 else None):
            order.append(number)
            most = max(most, pool.stats().processes)
            await checkpoint()

    async with Pool(peers.options(), size=1, max_size=1) as pool:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group, pool.client():
                for number in range(9):
                    group.start_soon(use, pool, number)
                    await until(pool, lambda stats, number=number: stats.waiting == number + 1)  # type: ignore[misc]
    assert order == list(range(9))
    assert most == 1


async def test_a_caller_gives_up_after_its_timeout() -> None:
    async with Pool(Peers().options(), size=1, max_size=1, timeout=0.05) as pool:
        async with pool.client(timeout=PATIENCE) as client:
            with pytest.raises(PoolTimeoutError) as raised:
                await pool.run("hi")
            assert (raised.value.timeout, raised.value.used, raised.value.waiting) == (0.05, 1, 0)
            assert (await client.query("hi")).text == "done"
        assert pool.stats().timeouts == 1
        async with pool.client(timeout=PATIENCE):
            pass


async def test_a_caller_without_time_gets_a_spare_or_an_error_and_starts_nothing() -> None:
    peers = Peers()
    async with Pool(peers.options(), size=0, max_size=1) as pool:
        with pytest.raises(PoolTimeoutError):
            await pool.client(timeout=0).__aenter__()
        assert peers.plans == []
        await pool.warm(size=1)
        await pool.ready()
        async with pool.client(timeout=0) as client:
            assert (await client.query("hi")).text == "done"


async def test_a_spare_that_nobody_waits_for_makes_room() -> None:
    peers = Peers()
    async with Pool(peers.options(), size=1, max_size=1) as pool:
        await pool.ready()
        async with pool.client(peers.options(tools=["Read"])) as client:
            assert (await client.query("hi")).text == "done"
        assert (pool.stats().expired, len(peers.plans)) == (1, 2)


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4, 5, 6, 8, 12])
async def test_a_cancelled_caller_loses_no_process_and_leaves_none(turns: int) -> None:
    options = Peers().options(model="sonnet")
    async with Pool(options, size=1, max_size=1) as pool:
        await pool.ready()

        async def use() -> None:
            async with pool.client(options.replace(model="opus")) as client:
                await client.query("hi")

        async with anyio.create_task_group() as group:
            group.start_soon(use)
            for _ in range(turns):
                await checkpoint()
            group.cancel_scope.cancel()
        with anyio.fail_after(PATIENCE):
            assert (await pool.run("hi")).text == "done"
        await until_settled(pool, 1)


async def test_a_storm_of_cancelled_callers() -> None:
    async with Pool(Peers().options(), size=2, max_size=3) as pool:

        async def use(turns: int) -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(pool.run, "hi")
                for _ in range(turns):
                    await checkpoint()
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for number in range(60):
                group.start_soon(use, number % 20)
        with anyio.fail_after(PATIENCE):
            assert (await pool.run("hi")).text == "done"
        stats = await until_settled(pool, 2)
        assert stats.used == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": -1},
        {"size": 5, "max_size": 4},
        {"size": 2, "parked": 3, "max_size": 4},
        {"max_size": 0},
        {"idle": 0},
        {"memory": "lots"},
        {"timeout": -1},
        {"options": ClientOptions(continue_conversation=True)},
    ],
    ids=str,
)
async def test_a_pool_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionsError):
        Pool(**wrong)


@pytest.mark.skipif(sys.platform != "linux", reason="it is Linux that may lack /proc")
async def test_memory_is_not_limited_where_it_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "exists", lambda path: False)
    with pytest.raises(OptionsError, match="needs a system that reports the memory"):
        Pool(memory="1GiB")


async def test_an_option_passed_as_an_argument_is_refused_with_the_right_form() -> None:
    make: Any = Pool
    pool = make()
    map_some: Any = map_runs
    for call in (
        make,
        partial(pool.warm, size=1),
        partial(pool.query, "hi"),
        partial(pool.run, "hi"),
        lambda **given: pool.client(**given).__aenter__(),
        partial(map_some, ["hi"]),
    ):
        with pytest.raises(
            TypeError, match=r"takes options as one ClientOptions, .*pass ClientOptions\(model=\.\.\.\)"
        ):
            await call(model="opus")
