"""The real CLI, started from a `LaunchPlan` and spoken to by hand: what the options of a test become in the CLI."""

import itertools
import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from plans import plan_of

from claude_agent_py import ClientOptions
from claude_agent_py.options import find_cli
from claude_agent_py.transport import LaunchPlan

LONG_LIST_CHARS = 8 * 1024
"""Longer lists are not passed on the command line."""
_NAMES = """
    --add-dir --agent --allow-dangerously-skip-permissions --allowedTools --betas --continue --debug --debug-file
    --disallowedTools --effort --fallback-model --fork-session --include-hook-events --include-partial-messages
    --max-budget-usd --max-thinking-tokens --max-turns --mcp-config --model --no-session-persistence
    --permission-mode --permission-prompt-tool --permission-prompts --plugin-dir --plugin-dir-no-mcp
    --project-config-root --resume --resume-drops-turn --resume-session-at --session-id --session-mirror
    --setting-sources --strict-mcp-config --system-prompt-file --task-budget --thinking --thinking-display --tools
"""
FLAGS = frozenset(_NAMES.split())
"""The flags of the options, each of which some option sets."""
Frame = dict[str, Any]


class LaunchedCLI:
    """A process that has answered `initialize`."""

    def __init__(self, plan: LaunchPlan, process: subprocess.Popen[bytes]) -> None:
        self.plan = plan
        self.process = process
        self.frames: list[Frame] = []
        self._ids = itertools.count()
        self.reply = self.control("initialize", **plan.initialize)
        plan.check_reply(self.reply)

    def send(self, frame: Frame) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> Frame:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            raise AssertionError(f"the CLI ended: {self.process.stderr.read().decode()}")
        frame: Frame = json.loads(line)
        self.frames.append(frame)
        return frame

    def control(self, subtype: str, **fields: Any) -> Frame:
        """Send a control request and give the payload of the reply."""
        request_id = f"test_{next(self._ids)}"
        self.send({"type": "control_request", "request_id": request_id, "request": {"subtype": subtype, **fields}})
        while True:
            frame = self.read()
            if frame["type"] == "control_response" and frame["response"]["request_id"] == request_id:
                assert frame["response"]["subtype"] == "success", frame
                payload: Frame = frame["response"].get("response", {})
                return payload

    def prompt(self, text: str = "hi") -> Frame:
        """Send a prompt and give its result."""
        self.send({"type": "user", "message": {"role": "user", "content": text}})
        while (frame := self.read())["type"] != "result":
            pass
        return frame

    @property
    def tools(self) -> list[str]:
        """The tools of the last turn."""
        inits = [frame for frame in self.frames if frame.get("subtype") == "init"]
        tools: list[str] = inits[-1]["tools"]
        return tools

    def rules(self) -> list[tuple[str, str]]:
        """The permission rules in force: behaviour and rule."""
        state = self.control("list_permission_rules")["state"]
        return [(rule["behavior"], rule["rule"]) for rule in state["rules"]]


@contextmanager
def launched(
    options: ClientOptions, extra_initialize: Mapping[str, Any] | None = None, timeout: float = 180.0
) -> Iterator[LaunchedCLI]:
    """Start the real CLI with these options; end it, and check that it ended well."""
    plan = plan_of(options.replace(cli_path=find_cli(options.cli_path)))
    plan = replace(plan, is_elsewhere=False, initialize={**plan.initialize, **(extra_initialize or {})})
    plan.prepare()
    try:
        with subprocess.Popen(
            plan.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=plan.env, cwd=plan.cwd
        ) as process:
            watchdog = threading.Timer(timeout, process.kill)
            watchdog.start()
            try:
                yield LaunchedCLI(plan, process)
                process.communicate()
            except BaseException:
                process.kill()
                raise
            finally:
                watchdog.cancel()
    finally:
        plan.clean_up()
