"""Text that is attached to a prompt is not read as typed text, on the real CLI."""

from pathlib import Path
from typing import Any

import pytest

from claude_agent_py import AgentDefinition, Client, verbatim
from claude_agent_py.messages import TextBlock, UserContent, UserMessage
from claude_agent_py.permissions import deny_tools, guard
from claude_agent_py.testing import Reply, ScriptedModel, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


def block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


async def test_only_typed_text_puts_files_into_a_request_and_runs_commands(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("OUTSIDE-SECRET")
    mention = f"see @{secret} for details"
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": mention}}
    whole = UserMessage(message=UserContent(role="user", content=[TextBlock(text="explain"), TextBlock(text=mention)]))
    attached: list[Any] = [
        [block("explain"), block(mention)],
        [block(mention), block("explain")],
        [block("explain"), block(f'\n<context ref="x @{secret}">\n</context>')],
        [block("explain"), document],
        [block("explain"), block(" /compact")],
        whole,
        {"type": "user", "message": {"role": "user", "content": [block("explain"), block(mention)]}},
        verbatim(mention),
        verbatim("/compact"),
        verbatim([block(mention)]),
    ]
    typed: list[Any] = [
        mention,
        [block(mention)],
        [document, block(mention)],
        whole.replace(client_composed=False),
    ]
    delegate = tool_use("Agent", {"description": "d", "prompt": mention, "subagent_type": "reader"})
    script = [*["ok"] * len(attached), Reply(delegate), "ok", "ok"]
    async with ScriptedModel(script, agents={mention: ["read"]}, on_exhausted="ok") as model:
        reader = AgentDefinition(description="d", prompt=mention)
        async with Client(model.options(agents={"reader": reader})) as client:
            for prompt in [*attached, "delegate"]:
                await client.query(prompt, until="idle")
            assert len(model.requests) >= len(attached) + 2
            assert "OUTSIDE-SECRET" not in str([request.body for request in model.requests])
            assert "/compact" in str(model.requests[len(attached) - 2].body["messages"])
            for prompt in typed:
                await client.query("/clear")
                await client.query(prompt)
                assert "OUTSIDE-SECRET" in str(model.requests[-1].body["messages"])


FILE, COMMAND = ("See @secret.txt", "A-SECRET"), ("/greet", "A-GREETING")
VERBATIM: dict[str, Any] = {"verbatim_prompts": True}
GUARDED: dict[str, Any] = {"hooks": {"PreToolUse": [guard(deny_tools("*"))]}}


@pytest.mark.parametrize(
    ("prompt", "more"),
    [
        (FILE, GUARDED),
        (COMMAND, VERBATIM),
        pytest.param(FILE, VERBATIM, marks=pytest.mark.long),
        pytest.param(COMMAND, GUARDED, marks=pytest.mark.long),
    ],
)
async def test_the_cli_reads_files_and_commands_in_the_initial_prompt_of_an_agent_in_any_case(
    tmp_path: Path, prompt: tuple[str, str], more: dict[str, Any]
) -> None:
    initial, found = prompt
    (tmp_path / "secret.txt").write_text("A-SECRET")
    (tmp_path / ".claude/commands").mkdir(parents=True)
    (tmp_path / ".claude/commands/greet.md").write_text("Say A-GREETING.")
    lead = AgentDefinition(description="Leads", prompt="You lead.", initial_prompt=initial)
    options = {"agents": {"lead": lead}, "agent": "lead", "cwd": tmp_path, "setting_sources": ["project"], **more}
    async with ScriptedModel(on_exhausted="ok") as model, Client(model.options(**options)) as client:
        await client.query("go on")
        assert found in str(model.requests[0].messages)
