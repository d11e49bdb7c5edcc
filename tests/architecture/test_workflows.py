"""The hosted workflows only call targets of the Makefile, so that each of their steps can be run on any machine."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def read_jobs(path: Path) -> dict[str, dict[str, Any]]:
    jobs: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return jobs


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_step_is_a_target_or_a_pinned_action(path: Path) -> None:
    for job in read_jobs(path).values():
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@\S+", step["uses"])
                continue
            make, *arguments = re.sub(r"\$\{\{.*?\}\}", "", step["run"]).split()
            assert make == "make"
            assert {each for each in arguments if "=" not in each} <= TARGETS


def test_only_publishing_gets_a_permission() -> None:
    given = {
        f"{path.stem}/{name}": job["permissions"]
        for path in WORKFLOWS
        for name, job in read_jobs(path).items()
        if "permissions" in job
    }
    assert given == {"release/publish": {"id-token": "write"}, "release/site": {"contents": "write"}}
    assert all("permissions:\n  contents: read\n" in path.read_text(encoding="utf-8") for path in WORKFLOWS)


def test_every_classifier_of_python_is_a_job() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = {found[1] for each in project["classifiers"] if (found := re.search(r":: (3\.\d+)$", each))}
    assert versions <= set(read_jobs(ROOT / ".github/workflows/test.yml")["tests"]["strategy"]["matrix"]["python"])
