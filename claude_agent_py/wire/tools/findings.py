"""ReportFindings: the findings of a code review."""

from typing import Literal

from msgspec import field

from claude_agent_py.wire.base import FrameModel, Open, WireModel
from claude_agent_py.wire.tools.agent import Effort


class Finding(WireModel):
    """One finding of a review."""

    file: str
    summary: str
    failure_scenario: str = ""
    line: int | None = None
    """The line number, starting at 1."""
    short_summary: str | None = None
    category: str | None = None
    severity: Open[Literal["important", "pre_existing", "nit"]] | None = None
    verdict: Open[Literal["CONFIRMED", "PLAUSIBLE"]] | None = None
    outcome: Open[Literal["fixed", "skipped", "no_change_needed"]] | None = None


class ReportFindingsInput(FrameModel):
    """Report the findings of a code review, at most 32, most severe first."""

    findings: list[Finding]
    level: Effort | None = None


class ReportFindingsOutput(FrameModel):
    """The accepted findings."""

    count: int
    findings: list[Finding] = field(default_factory=list)
    level: Effort | None = None
