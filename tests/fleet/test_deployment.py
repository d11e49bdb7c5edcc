"""The deployment examples are well formed, and run a command that exists."""

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from inside import ANSWER_SECONDS, make_parser, parse_address, read_size

from claude_agent_py.errors import OptionsError
from claude_agent_py.fleet import FleetMetrics

DEPLOY = Path(__file__).parent.parent.parent / "deploy"


def check_command(words: list[str], memory_limit: int, seconds: int) -> tuple[str, int]:
    """Check a command by the command line's own parser, that the sessions fit, and that a drain ends in time.

    Returns the address of its HTTP server.
    """
    assert Path(words[0]).name == "claude-agent-py"
    arguments = make_parser(words[1:]).parse_args(words[1:])
    assert arguments.fleet == "agents:fleet"
    assert read_size(arguments.memory, option="memory") < memory_limit
    assert 0 < arguments.grace <= seconds - 60
    return parse_address(arguments.health)


def test_the_systemd_unit() -> None:
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "fleet-worker.service")
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    service = unit["Service"]
    memory = read_size(service["MemoryMax"] + "iB", option="memory")
    minutes = int(service["TimeoutStopSec"].removesuffix("min"))
    assert check_command(shlex.split(service["ExecStart"]), memory, minutes * 60) == ("127.0.0.1", 8080)
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
    command = [*worker["command"], *worker["args"]]
    host, port = check_command(command, memory, pod["terminationGracePeriodSeconds"])
    assert {"name": "health", "containerPort": port} in worker["ports"]
    assert host == "0.0.0.0"  # probes come from outside the pod
    for probe, path in (("startup", "/readyz"), ("liveness", "/healthz"), ("readiness", "/readyz")):
        assert worker[f"{probe}Probe"]["httpGet"] == {"path": path, "port": "health"}
        assert worker[f"{probe}Probe"]["timeoutSeconds"] >= ANSWER_SECONDS
    assert deployment["template"]["metadata"]["annotations"]["prometheus.io/port"] == str(port)
    assert {mount["name"] for mount in worker["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert "secretRef" in worker["envFrom"][0]


def test_the_autoscaler_looks_at_the_backlog_and_at_figures_that_exist() -> None:
    autoscaler = yaml.safe_load((DEPLOY / "fleet-autoscaler.yaml").read_text())
    assert autoscaler["spec"]["scaleTargetRef"]["name"] == "fleet-worker"
    triggers = {trigger["name"]: trigger["metadata"] for trigger in autoscaler["spec"]["triggers"]}
    assert autoscaler["spec"]["advanced"]["scalingModifiers"]["formula"] == " + ".join(triggers)
    backlog, running = triggers["backlog"], triggers["running"]
    # The task queue of an agent and its deployment have the agent's name; versions are strings.
    assert backlog["taskQueue"] == backlog["workerDeploymentName"]
    assert all(isinstance(value, str) for value in backlog.values())
    shown = FleetMetrics(
        at=0.0, queued={"ready": 1}, running=1, waiting=1, failed=1, workers=1, slots=1
    ).to_prometheus()
    assert set(re.findall(r"claude_agent_fleet_\w+", running["query"])) <= set(re.findall(r"^\w+", shown, re.MULTILINE))


@pytest.mark.parametrize(
    ("text", "size"), [("4GiB", 4 << 30), ("500 MB", 500_000_000), ("1.5kib", 1536), (7, 7), ("12", 12)]
)
def test_sizes(text: str | int, size: int) -> None:
    assert read_size(text, option="memory") == size


@pytest.mark.parametrize("wrong", ["4 gallons", "", "-1GiB", 0, "0", True, 1.5, None])
def test_an_invalid_size_is_refused(wrong: object) -> None:
    with pytest.raises(OptionsError, match="memory"):
        read_size(wrong, option="memory")  # type: ignore[arg-type]
