"""The deployment examples are well formed, and run a command that exists."""

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from claude_agent_py.cli.main import make_parser
from claude_agent_py.transport.memory import read_size

DEPLOY = Path(__file__).parent.parent.parent / "deploy"


def check_command(words: list[str], memory_limit: int, seconds: int) -> None:
    """Check a command by the command line's own parser, that the sessions fit, and that a drain ends in time."""
    assert Path(words[0]).name == "claude-agent-py"
    arguments = make_parser(words[1:]).parse_args(words[1:])
    assert arguments.fleet == "agents:fleet"
    assert read_size(arguments.memory, option="memory") < memory_limit
    assert 0 < arguments.grace <= seconds - 60


def test_the_systemd_unit() -> None:
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "fleet-worker.service")
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    service = unit["Service"]
    memory = read_size(service["MemoryMax"] + "iB", option="memory")
    minutes = int(service["TimeoutStopSec"].removesuffix("min"))
    check_command(shlex.split(service["ExecStart"]), memory, minutes * 60)
    assert (service["KillMode"], service["Restart"], service["User"]) == ("mixed", "always", "fleet")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze on this machine")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "fleet-worker.service").read_text().replace("/srv/fleet/.venv/bin/claude-agent-py", "/bin/true")
    (tmp_path / "fleet-worker.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "fleet-worker.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Unknown" not in done.stderr


def test_the_kubernetes_manifests() -> None:
    manifests: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "fleet-worker.yaml").read_text()))
    assert [(one["apiVersion"], one["kind"]) for one in manifests] == [
        ("apps/v1", "Deployment"),
        ("policy/v1", "PodDisruptionBudget"),
    ]
    deployment, budget = (one["spec"] for one in manifests)
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels == budget["selector"]["matchLabels"]
    pod = deployment["template"]["spec"]
    [worker] = pod["containers"]
    memory = read_size(worker["resources"]["limits"]["memory"] + "B", option="m")
    check_command([*worker["command"], *worker["args"]], memory, pod["terminationGracePeriodSeconds"])
    assert {mount["name"] for mount in worker["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert "secretRef" in worker["envFrom"][0]
