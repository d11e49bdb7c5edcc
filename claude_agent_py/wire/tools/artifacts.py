"""The tool Artifact, which publishes pages.

Its outputs have no tag: each variant is recognized by a field that only it has. Nested objects stay dicts.
"""

from typing import Any, Literal, TypeAlias

from msgspec import field

from claude_agent_py.wire.base import FrameModel, Open
from claude_agent_py.wire.tools.files import ArtifactRead


class ArtifactInput(FrameModel):
    """Publish or manage an artifact."""

    action: (
        Open[
            Literal[
                "publish",
                "list",
                "read",
                "list_types",
                "watch",
                "unwatch",
                "status",
                "upload_asset",
                "list_assets",
                "read_asset",
                "delete_asset",
                "pin",
                "unpin",
            ]
        ]
        | None
    ) = None
    """None means `publish`."""
    file_path: str | None = None
    favicon: str | None = None
    icon: str | None = None
    limit: int | None = None
    page_token: str | None = None
    scope: Open[Literal["mine", "shared", "all"]] | None = None
    title: str | None = None
    description: str | None = None
    label: str | None = None
    url: str | None = None
    prompt: str | None = None
    force: bool | None = None
    pin: bool | None = None
    out_dir: str | None = None
    file_paths: list[str] | None = None
    asset_id: str | None = None
    after: str | None = None
    capabilities: dict[str, Any] | None = None
    contract: str | None = None


class ArtifactPublishOutput(FrameModel):
    """An artifact was published."""

    url: str
    path: str
    artifact_id: str | None = None
    title: str | None = None
    version: str | None = None
    warnings: list[str] | None = None
    updated: bool | None = None
    owned: bool | None = None
    unchanged: bool | None = None
    pinned: bool | None = None


class ArtifactListOutput(FrameModel):
    """The user's artifacts."""

    artifacts: list[dict[str, Any]]
    truncated: bool | None = None
    total: int | None = None
    next_page_token: str | None = None
    scope: str | None = None


class ArtifactReadOutput(FrameModel):
    """An artifact was read."""

    read: dict[str, Any]
    owned: bool | None = None
    artifact_read: ArtifactRead | None = field(default=None, name="artifactRead")


class ArtifactWatchOutput(FrameModel):
    """An artifact is watched by a background task."""

    watch: dict[str, Any]


class ArtifactUnwatchOutput(FrameModel):
    """An artifact is no longer watched."""

    unwatch: dict[str, Any]


class ArtifactStatusOutput(FrameModel):
    """The watched artifacts."""

    watches: list[dict[str, Any]]
    filter_url: str | None = None
    arms: list[dict[str, Any]] | None = None


class ArtifactAssetUploadOutput(FrameModel):
    """A file was uploaded."""

    asset_upload: dict[str, Any]
    written: dict[str, Any] | None = None
    owned: bool | None = None


class ArtifactAssetUploadsOutput(FrameModel):
    """The results of uploading several files."""

    asset_uploads: dict[str, Any]
    written: dict[str, Any] | None = None
    owned: bool | None = None


class ArtifactAssetListOutput(FrameModel):
    """The files of an artifact."""

    asset_list: dict[str, Any]


class ArtifactAssetReadOutput(FrameModel):
    """A file of an artifact was read."""

    asset_read: dict[str, Any]


class ArtifactAssetDeleteOutput(FrameModel):
    """A file of an artifact was deleted."""

    asset_delete: dict[str, Any]
    written: dict[str, Any] | None = None
    owned: bool | None = None


class ArtifactPinOutput(FrameModel):
    """An artifact was pinned or unpinned."""

    pin: dict[str, Any]


ArtifactOutput: TypeAlias = (
    ArtifactPublishOutput
    | ArtifactListOutput
    | ArtifactReadOutput
    | ArtifactWatchOutput
    | ArtifactUnwatchOutput
    | ArtifactStatusOutput
    | ArtifactAssetUploadOutput
    | ArtifactAssetUploadsOutput
    | ArtifactAssetListOutput
    | ArtifactAssetReadOutput
    | ArtifactAssetDeleteOutput
    | ArtifactPinOutput
)
