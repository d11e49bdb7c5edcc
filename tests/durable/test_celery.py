"""`run_turn` in a Celery task, as the docs show it: real workers, a real broker and the real CLI."""

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from anyio import to_thread
from doc_blocks import blocks_of
from installed_cli import CLI_VARIABLE, find_cli
from turns import HAS_KILL, PATIENCE, paying, until

from claude_agent_py.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.one_backend]

PAGE = Path(__file__).parents[2] / "docs" / "durable-turns.md"
MORE = """
from pathlib import Path
from claude_agent_py.errors import StoreError

class Away(SQLiteStore):
    async def load(self, key):
        if not Path("was-away").exists():
            Path("was-away").touch()
            raise StoreError("the store is away")
        return await super().load(key)

store = Away("sessions.db")
app.conf.broker_transport_options = {"visibility_timeout": 2}
"""
SEND = """
import json, sys, agents
print(json.dumps(agents.answer.delay(*sys.argv[1:]).get(timeout=240)))
"""


@pytest.mark.long
@pytest.mark.real_cli
@pytest.mark.skipif(not HAS_KILL, reason="needs SIGKILL")
async def test_a_command_runs_once_although_the_store_was_away_and_a_worker_was_killed(
    tmp_path: Path, redis_server: str
) -> None:
    ran = tmp_path / "ran"
    [code] = [block.code for block in blocks_of(PAGE) if "Celery(" in block.code]
    assert "visibility_timeout" in code
    code = code.replace("redis://localhost:6379/0", redis_server)
    code = code.replace("ClientOptions()", 'ClientOptions(permission_mode="bypassPermissions")')
    (tmp_path / "agents.py").write_text(code + MORE)
    with ScriptedModel(paying(ran, then="; sleep 300")) as model:
        env = {**os.environ, **model.environment(), CLI_VARIABLE: str(find_cli())}
        programs: list[subprocess.Popen[str]] = []

        def start(*arguments: str) -> "subprocess.Popen[str]":
            with (tmp_path / f"{len(programs)}.log").open("w") as log:
                command = [sys.executable, *arguments]
                programs.append(
                    subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
                )
            return programs[-1]

        worker = ("-m", "celery", "-A", "agents", "worker", "--pool", "solo", "--loglevel", "INFO")
        try:
            first = start(*worker)
            sender = start("-c", SEND, str(uuid4()), str(uuid4()), "pay the bill")
            await until(ran.exists, "the command runs")
            first.kill()
            start(*worker)
            out, _ = await to_thread.run_sync(lambda: sender.communicate(timeout=PATIENCE))
            outcome = json.loads(out)
        finally:
            for program in programs:
                program.kill()
                program.communicate()
    assert (outcome["kind"], outcome["text"]) == ("done", "it is paid")
    assert ran.read_text() == "once\n"
    assert (tmp_path / "was-away").exists()
