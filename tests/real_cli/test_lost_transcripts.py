"""A CLI that cannot write its transcript: the session store lacks what it did not write, and the run says so."""

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from claude_agent_py import Client, Run, RunResult, run
from claude_agent_py.errors import StoreError
from claude_agent_py.messages import AssistantMessage, CommandLifecycleMessage, MirrorErrorMessage
from claude_agent_py.sessions import MemoryStore, SessionKey, project_key_for_directory
from claude_agent_py.testing import CutStream, Failure, RecordedRequest, Reply, ScriptedModel, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli, pytest.mark.one_backend]


@dataclass
class Seen:
    """What a program learns of its store."""

    store: MemoryStore = field(default_factory=MemoryStore)
    errors: list[StoreError] = field(default_factory=list)

    def options(self, model: ScriptedModel, config: Path | None = None, **more: Any) -> Any:
        env = {**model.environment(), **({} if config is None else {"CLAUDE_CONFIG_DIR": str(config)})}
        listen = self.errors.append
        return model.options(env=env, **{"session_store": self.store, "on_store_error": listen, **more})

    async def texts(self, model: ScriptedModel, session_id: str) -> list[str]:
        key: SessionKey = {"project_key": project_key_for_directory(model.sandbox.cwd), "session_id": session_id}
        entries: list[Any] = list(await self.store.load(key) or ())
        said = [entry["message"]["content"] for entry in entries if entry["type"] in ("user", "assistant")]
        return [text if isinstance(text, str) else text[0]["text"] for text in said]


async def fails(started: Run[Any]) -> RunResult[Any]:
    """Return the result of a run that ends with the error of the store, which is reported in all places."""
    with pytest.raises(StoreError, match="the CLI could not write") as caught:
        await started
    result: RunResult[Any] = caught.value.result
    assert result.is_error
    assert [type(error) for error in result.errors] == [StoreError]
    assert [str(caught.value)] == [m.error for m in result.messages if isinstance(m, MirrorErrorMessage)]
    return result


def in_a_missing_device(folder: Path) -> Path:
    return Path("/proc/nope/.claude") if sys.platform == "linux" else _as_a_file(folder)


def _as_a_file(folder: Path) -> Path:
    (folder / "file").write_text("")
    return folder / "file"


def _without_transcripts(folder: Path) -> Path:
    (folder / "projects").write_text("")
    return folder


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(in_a_missing_device, marks=pytest.mark.long),
        _as_a_file,
        pytest.param(_without_transcripts, marks=pytest.mark.long),
    ],
)
async def test_a_config_folder_that_cannot_be_written_is_replaced_by_a_private_one(
    make: Callable[[Path], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen, config = Seen(), make(tmp_path)
    with ScriptedModel(["hello", "Ada"]) as model:
        options = seen.options(model, config)
        first = await run("my name is Ada", options)
        assert f"cannot write transcripts in {config}" in caplog.text
        second = await run("name?", options.replace(resume=first.session_id))
        assert (second.text, second.errors, seen.errors) == ("Ada", [], [])
        texts = await seen.texts(model, first.session_id)
    assert texts == ["my name is Ada", "hello", "name?", "Ada"]


@pytest.mark.long
async def test_a_session_that_only_an_unwritable_folder_has_is_refused(tmp_path: Path) -> None:
    seen = Seen()
    with ScriptedModel(["hello"]) as model:
        first = await run("one", seen.options(model, tmp_path))
        moved = tmp_path / "projects"
        [transcripts] = moved.iterdir()
        kept = transcripts.rename(tmp_path / "kept")
        transcripts.write_text("")
        with pytest.raises(StoreError, match=f"cannot write transcripts in {tmp_path}"):
            await run("two", seen.options(model, tmp_path, resume=first.session_id, session_store=MemoryStore()))
        assert (kept.is_dir(), len(model.requests)) == (True, 1)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("only root on Linux can mount one")
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(descriptor, bytes(4096))
    except OSError:
        os.close(descriptor)
    return filler


@pytest.mark.long
async def test_a_disk_that_is_full_for_one_turn_fails_the_run_of_that_turn(disk: Path) -> None:
    seen = Seen()
    long = "x" * 5000  # more than the rest of the last page
    with ScriptedModel(lambda request: Reply(f"to {request.last_user_text[-3:]}")) as model:
        async with Client(seen.options(model, disk, session_mirror=True)) as client:
            await client.query("one")
            filler = fill(disk)
            lost = await fails(client.query(f"{long}two"))
            assert (lost.text, lost.output) == ("to two", None)
            filler.unlink()
            third = await client.query("three")
            assert (third.text, third.errors) == ("to ree", [])
        assert [str(error) for error in seen.errors] == [str(error) for error in lost.errors]
        assert seen.errors[0].key is not None
        texts = await seen.texts(model, third.session_id)
    assert texts == ["one", "to one", "three", "to ree"]


async def test_a_transcript_that_becomes_unwritable_fails_every_run_of_its_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder in the transcript's place keeps root out as well. Both runs of a shared turn get their own error."""
    seen = Seen()

    def answer(request: RecordedRequest) -> Reply:
        if "slow" in request.last_user_text:
            return Reply([tool_use("Bash", {"command": "until [ -e go ]; do sleep 0.05; done"})])
        return Reply("ok")

    with ScriptedModel(answer) as model:
        first = await run("one", seen.options(model))
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # has the private folder of a resumed session
        options = seen.options(model, resume=first.session_id, permission_mode="bypassPermissions")
        async with Client(options) as client:
            started = client.query("slow")
            async for message in started:
                if isinstance(message, AssistantMessage):
                    break
            [transcript] = tmp_path.glob(f"*/projects/*/{first.session_id}.jsonl")
            transcript.unlink()
            transcript.mkdir()
            joined = client.query("joined")
            async for each in client.messages():
                if isinstance(each, CommandLifecycleMessage):
                    break
            (Path(model.sandbox.cwd) / "go").touch()
            lost = [await fails(started), await fails(joined)]
            assert lost[0].errors[0] is not lost[1].errors[0]
            assert lost[0].message == lost[1].message
            failed = await client.query("third").result()
            assert isinstance(failed.error(), StoreError)


class Answers:
    """The model of a session with turns of many kinds."""

    def __init__(self) -> None:
        self.was_cut = False

    def __call__(self, request: RecordedRequest) -> Any:
        said = (request.last_user_text.splitlines() or [""])[-1]
        if request.conversation == "agent":
            return Reply("done")
        if said == "cut" and not self.was_cut:
            self.was_cut = True
            return CutStream(Reply(["first", "second"]), after_blocks=1)
        slow = tool_use("Bash", {"command": "until [ -e never ]; do sleep 0.1; done"})
        arguments = {"description": "look", "prompt": "Look", "subagent_type": "general-purpose"}
        answers: dict[str, Any] = {
            "slow": Reply([slow]),
            "agent": Reply([tool_use("Agent", {**arguments, "run_in_background": True})]),
            "bad": Failure(400, "invalid_request_error", "no"),
        }
        return answers.get(said, Reply("ok"))


async def test_turns_of_every_kind_are_complete() -> None:
    """Commands, failures, interrupts, cut streams, merged prompts, subagents and blocked prompts lose nothing."""
    seen = Seen()

    async def block(event: Any, context: Any) -> Any:
        return {"decision": "block", "reason": "no"} if event.prompt == "blocked" else {}

    async def several() -> Any:
        for prompt in ("a", "b", "c"):
            yield prompt

    with ScriptedModel(Answers()) as model:
        options = seen.options(
            model,
            forward_subagent_text=True,
            include_partial_messages=True,
            permission_mode="bypassPermissions",
            hooks={"UserPromptSubmit": [block]},
        )
        async with Client(options) as client:
            prompts: list[Any] = ["one", "/clear", "two", "/compact", "/context", "/help", "/nope", "blocked", "bad"]
            prompts += ["cut", several(), "agent"]
            for prompt in prompts:
                result = await client.query(prompt, until="idle").result()
                assert result.store_errors == [], prompt
            interrupted, queued = client.query("slow"), client.query("queued")
            async for message in interrupted:
                if isinstance(message, AssistantMessage):
                    break
            await interrupted.interrupt()
            for each in (interrupted, queued):
                assert (await each.result()).store_errors == []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # nobody waits for it
                client.query("slow")
                await client.close()
        assert seen.errors == []
