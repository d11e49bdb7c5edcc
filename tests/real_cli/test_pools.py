"""Pools on the real CLI: what a spare becomes, what it carries, and that conversations do not mix.

That `map_runs` runs prompts on it is seen in `docs/many-sessions.md` and `examples/map_runs.py`, which tests run.
"""

from pathlib import Path

import anyio
import pytest

from claude_agent_py import Allow, Deny, HookMatcher, OptionsError, PermissionRequest, tool
from claude_agent_py.hooks import PreToolUseInput
from claude_agent_py.pool import Pool
from claude_agent_py.testing import RecordedRequest, Reply, ScriptedModel, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli, pytest.mark.usefixtures("nothing_left")]

PATIENCE = 240


@pytest.mark.long
async def test_spares_carry_handlers_change_what_can_change_and_do_not_mix_their_conversations() -> None:
    seen: list[str] = []

    async def allow(request: PermissionRequest, context: object) -> Allow:
        seen.append(f"asked: {request.tool_name}")
        return Allow()

    async def note(input: PreToolUseInput, context: object) -> None:
        seen.append(f"hook: {input.tool_name}")

    @tool
    def double(number: int) -> int:
        """Double a number."""
        seen.append(f"tool: {number}")
        return 2 * number

    def model_says(request: RecordedRequest) -> Reply | str:
        if request.tool_results:
            return f"{request.body['model']} says {request.tool_results[0]['content'][0]['text']}"
        return Reply([tool_use("mcp__tools__double", {"number": 21})])

    async with ScriptedModel(model_says) as model:
        options = model.options(
            permission_mode="acceptEdits",
            model="sonnet",
            can_use_tool=allow,
            hooks={"PreToolUse": [HookMatcher(None, note)]},
            custom_tools=[double],
        )
        async with Pool(options, size=1, max_size=2, memory="4GiB") as pool:
            with anyio.fail_after(PATIENCE):
                await pool.ready()
                wanted = options.replace(model="haiku", permission_mode="default")
                async with pool.client(wanted) as client:
                    result = await client.query("Double it.")
                stats = pool.stats()
                result_of_run = await pool.run("Double it too.")
        asked = [str(request.messages) for request in model.requests_of("main")]
    assert result.session_id != result_of_run.session_id
    prompts = [("Double it." in messages, "Double it too." in messages) for messages in asked]
    assert prompts == [(True, False)] * 2 + [(False, True)] * 2
    assert (stats.warm, stats.cold) == (1, 0)
    assert result.text.startswith("claude-haiku")
    assert result.text.endswith("says 42")
    assert result_of_run.text.startswith("claude-sonnet")
    assert sorted(set(seen)) == ["asked: mcp__tools__double", "hook: mcp__tools__double", "tool: 21"]


@pytest.mark.long
async def test_a_parked_spare_becomes_a_session_of_another_directory() -> None:
    seen: list[str] = []

    async def note(input: PreToolUseInput, context: object) -> None:
        seen.append(f"hook in {Path(input.cwd).name}: {input.tool_name}")

    async def deny(request: PermissionRequest, context: object) -> Deny:
        seen.append(f"asked: {request.tool_name}")
        return Deny("no")

    def model_says(request: RecordedRequest) -> Reply | str:
        calls = [
            tool_use("Bash", {"command": "echo secret"}),
            tool_use("Bash", {"command": "curl --version"}),
            tool_use("Read", {"file_path": str(there / "secret.txt")}),
            tool_use("Write", {"file_path": str(there / "new.txt"), "content": "x"}),
            tool_use("Write", {"file_path": str(pool_directory / "new.txt"), "content": "x"}),
        ]
        done = sum(message["role"] == "assistant" for message in request.body["messages"])
        return Reply([calls[done]]) if done < len(calls) else "end"

    async with ScriptedModel(model_says) as model:
        there, pool_directory = model.sandbox.root / "there", model.sandbox.cwd
        (there / ".claude").mkdir(parents=True)
        (pool_directory / ".claude").mkdir()
        (there / "CLAUDE.md").write_text("ZEBRA")
        (pool_directory / "CLAUDE.md").write_text("WALRUS")
        (there / ".claude" / "settings.json").write_text('{"permissions": {"deny": ["Bash(echo secret*)"]}}')
        (pool_directory / ".claude" / "settings.json").write_text('{"permissions": {"allow": ["Bash(curl *)"]}}')
        options = model.options(
            permission_mode="default",
            disallowed_tools=["Read(./secret.txt)"],
            hooks={"PreToolUse": [HookMatcher(None, note)]},
            can_use_tool=deny,
        )
        async with Pool(options, size=0, parked=1, max_size=2) as pool:
            with anyio.fail_after(PATIENCE):
                await pool.ready()
                wanted = options.replace(cwd=there, permission_mode="acceptEdits")
                async with pool.client(wanted) as client:
                    assert client.options == wanted
                    result = await client.query("go")
                assert (pool.stats().warm, pool.stats().cold) == (1, 0)
                with pytest.raises(OptionsError, match="does not exist"):
                    await pool.run("hi", options.replace(cwd=there / "missing"))
        told = str(model.requests_of("main")[0].body)
        transcripts = list((model.sandbox.config_dir / "projects").glob(f"*/{result.session_id}.jsonl"))
    assert ("ZEBRA" in told, "WALRUS" in told) == (True, False)
    assert [call.is_error for call in result.tool_calls] == [True, True, True, False, True]
    assert seen == [
        *("hook in there: Bash", "hook in there: Bash", "asked: Bash"),
        *("hook in there: Write", "hook in there: Write", "asked: Write"),
    ]
    assert [path.parent.name.endswith("there") for path in transcripts] == [True]
