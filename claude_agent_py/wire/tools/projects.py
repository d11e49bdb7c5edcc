"""Tools that use claude.ai: Projects and ClaudeDesign."""

from typing import Any, Literal

from msgspec import field

from claude_agent_py.wire.base import FrameModel, Open


class ProjectsInput(FrameModel):
    """Read or change the session's project."""

    method: Open[
        Literal[
            "project_info",
            "project_read",
            "project_search",
            "project_write",
            "project_delete",
            "project_memory_list",
            "project_memory_read",
        ]
    ]
    path: str | None = None
    content: str | None = None
    local_path: str | None = None
    present_to_user: bool | None = None
    query: str | None = None
    n: int | None = None


class ProjectsOutput(FrameModel):
    """The result. `method` determines which fields are set; undocumented fields are in `raw`."""

    method: str
    notice: str | None = None
    name: str | None = None
    description: str | None = None
    instructions: str | None = None
    path: str | None = None
    content: str | None = None
    local_file: str | None = None
    created_at: str | None = None
    docs: list[Any] | None = None
    files: list[dict[str, Any]] | None = None
    hits: list[dict[str, Any]] | None = None
    replaced: bool | None = None
    deleted: bool | None = None
    truncated: bool | None = None


class ClaudeDesignInput(FrameModel):
    """Run an operation of Claude Design."""

    operation: str
    arguments: dict[str, Any]


class ClaudeDesignOutput(FrameModel):
    """The result of an operation of Claude Design."""

    operation: str
    content: list[dict[str, Any]] = field(default_factory=list)
    is_error: bool | None = field(default=None, name="isError")
