"""Tools for reports and feedback (ReportFindings, SendFeedback, propose_skills), and for onboarding."""

from typing import Any, Literal

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


class SendFeedbackInput(FrameModel):
    """Send feedback to the developers of the CLI."""

    type: Open[Literal["bug", "idea", "missing_capability"]]
    title: str
    details: str
    area: str | None = None
    failure_mode: str | None = None
    task_category: str | None = None


class SendFeedbackOutput(FrameModel):
    """Whether the feedback was sent."""

    success: bool
    message: str = ""


class SkillProposal(WireModel):
    """A proposal to add or improve a skill."""

    name: str
    kind: Open[Literal["new", "improvement"]]
    description: str
    target: str | None = None
    evidence: list[str] | None = None
    edits: list[dict[str, Any]] | None = None
    skill_md: str | None = field(default=None, name="skillMd")


class ProposeSkillsInput(FrameModel):
    """Propose one to three skills."""

    proposals: list[SkillProposal]


class ProposeSkillsOutput(FrameModel, rename="camel"):
    """The number of proposals."""

    proposal_count: int


class ShowOnboardingRolePickerInput(FrameModel):
    """Ask the user for a role."""


class ShowOnboardingRolePickerOutput(FrameModel):
    """The chosen role."""

    role: str | None = None
    dismissed: bool | None = None


class OfferChromeSetupInput(FrameModel):
    """Offer to connect the browser."""

    reason: str | None = None


class OfferChromeSetupOutput(FrameModel):
    """The outcome of the offer."""

    outcome: Open[Literal["connected", "not_now", "no_attempt_yet"]]


class ShareOnboardingGuideInput(FrameModel):
    """Share the onboarding guide. Fields that the CLI does not document are in `raw`."""

    mode: str | None = None


class EndConversationInput(FrameModel):
    """End the conversation."""
