"""A codec: what a Temporal server keeps of a session cannot be read without it."""

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anyio import to_thread
from cryptography.fernet import Fernet
from doc_blocks import blocks_of
from fleets import PATIENCE, fleet_in, given_options, until_state
from inside import workflows
from questions import asking
from temporal_server import SharedServer, temporal_server as temporal_server

from claude_agent_py.cli import main
from claude_agent_py.errors import FleetError, FleetRunError, OptionsError
from claude_agent_py.fleet import Fleet
from claude_agent_py.testing import Failure, RecordedRequest, Reply, ScriptedModel, tool_use

if TYPE_CHECKING:
    from temporalio.converter import PayloadCodec

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL"),
]

MODULE = """
import json, pathlib
from test_codec import make_codec
from claude_agent_py import ClientOptions
from claude_agent_py.fleet import Fleet
from claude_agent_py.sessions import SQLiteStore
given = json.loads(pathlib.Path("given.json").read_text())
fleet = Fleet(given["url"], store=SQLiteStore(given["store"]), codec=make_codec(), lease=3, poll=0.1)
fleet.agent("worker", ClientOptions(inherit_env=False, **given["options"]), patience=0.2)
fleet.schedule("nightly", "0 3 * * *", "worker", "secret schedule")
"""
LONG = "secret answer " * 2000
"""An answer that is too long for a history: it is in the store only."""
PAGE = Path(__file__).parents[2] / "docs" / "fleet-on-temporal.md"


def make_codec() -> "PayloadCodec":
    """Return the codec of the docs."""
    [code] = [block.code for block in blocks_of(PAGE) if "class Encrypted" in block.code]
    names: dict[str, Any] = {}
    exec(code, names)
    codec: PayloadCodec = names["Encrypted"](Fernet.generate_key())
    return codec


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def answer(request: RecordedRequest) -> Any:
    if "fail" in request.last_user_text:
        return Failure(400, "secret failure")
    if not request.tool_results:
        return Reply(tool_use("AskUserQuestion", asking("Which secret target?", "secret debug", "secret release")))
    return LONG


@pytest.mark.real_cli
async def test_nothing_of_a_prompt_is_readable_in_a_history(
    tmp_path: Path,
    temporal_server: SharedServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from temporalio.client import WorkflowHistory
    from temporalio.worker import Replayer
    from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

    url = temporal_server.new_url()
    with ScriptedModel(answer) as model, fleet_in(tmp_path, model, url=url) as made:
        given = {"url": url, "store": made.store_at, "options": given_options(model, permission_mode="default")}
        (tmp_path / "given.json").write_text(json.dumps(given))
        (tmp_path / "coded_agents.py").write_text(MODULE)
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        from coded_agents import fleet  # type: ignore[import-not-found]

        assert isinstance(fleet, Fleet)
        made.fleets.append(fleet)
        async with fleet.worker(folder=tmp_path / "ws"):
            session = await fleet.start("worker", "secret prompt", id="one")
            await until_state(session, "waiting")
            [question] = await fleet.interactions("one")
            assert await question.answer({"Which secret target?": "secret release"})
            assert (await session.result(timeout=PATIENCE)).text == LONG
            with pytest.raises(FleetRunError, match="secret failure"):
                await session.result(await session.send("secret fail"), timeout=PATIENCE)
            # A command has the store and the codec if it is given the fleet of a module.
            command = ["fleet", "events", "one", "--json", "--url", "coded_agents:fleet"]
            assert await to_thread.run_sync(main, command) == 0
            events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            results = [each["data"]["result"] for each in events if each["kind"] == "run" and "result" in each["data"]]
            assert [result["text"] for result in results if "error" not in result] == [LONG]
            assert await session.cancel("a secret reason")
            await until_state(session, "cancelled")
        client = await fleet._engine._server.connect()  # type: ignore[attr-defined]
        history = await client.get_workflow_handle("one").fetch_history()
        described = await client.get_workflow_handle("one").describe()
        schedule = await client.get_schedule_handle("nightly").describe()
        raw = [event.SerializeToString() for event in history.events]
        raw += [described.raw_description.SerializeToString(), schedule.raw_description.SerializeToString()]
        assert not [each for each in raw if b"secret" in each]
        assert max(map(len, raw)) < len(LONG)
        replayer = Replayer(
            workflows=workflows(),
            data_converter=client.data_converter,
            workflow_runner=SandboxedWorkflowRunner(
                restrictions=SandboxRestrictions.default.with_passthrough_modules("claude_agent_py")
            ),
        )
        await replayer.replay_workflow(WorkflowHistory("one", history.events))
        with pytest.raises(FleetError, match=r"codec"):
            await made.fleet().session("one").info()


def test_a_codec_is_for_temporal(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="codec"):
        Fleet(f"sqlite:///{tmp_path / 'fleet.db'}", codec=make_codec())
