"""The tool Artifact: pages that the session publishes.

Its outputs have no field that names their kind; each variant is known by the field that only it has. Objects deep
inside them stay dicts.
"""

from typing import Any, Literal, TypeAlias

from msgspec import field

from claude_agent_py.wire.base import Open, WireModel
from claude_agent_py.wire.tools.files import ArtifactRead


class ArtifactInput(WireModel):
    """Publish an artifact, or do something else with one."""

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


class ArtifactPublishOutput(WireModel):
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


class ArtifactListOutput(WireModel):
    """Artifacts of the user."""

    artifacts: list[dict[str, Any]]
    truncated: bool | None = None
    total: int | None = None
    next_page_token: str | None = None
    scope: str | None = None


class ArtifactReadOutput(WireModel):
    """An artifact was read."""

    read: dict[str, Any]
    owned: bool | None = None
    artifact_read: ArtifactRead | None = field(default=None, name="artifactRead")


class ArtifactWatchOutput(WireModel):
    """An artifact is watched; the watch is a background task."""

    watch: dict[str, Any]


class ArtifactUnwatchOutput(WireModel):
    """An artifact is no longer watched."""

    unwatch: dict[str, Any]


class ArtifactStatusOutput(WireModel):
    """What is watched."""

    watches: list[dict[str, Any]]
    filter_url: str | None = None
    arms: list[dict[str, Any]] | None = None


class ArtifactAssetUploadOutput(WireModel):
    """A file was uploaded."""

    asset_upload: dict[str, Any]
    written: dict[str, Any] | None = None
    owned: bool | None = None


class ArtifactAssetUploadsOutput(WireModel):
    """Several files were uploaded, or not."""

    asset_uploads: dict[str, Any]
    written: dict[str, Any] | None = None
    owned: bool | None = None


class ArtifactAssetListOutput(WireModel):
    """The files of an artifact."""

    asset_list: dict[str, Any]


class ArtifactAssetReadOutput(WireModel):
    """A file of an artifact was fetched."""

    asset_read: dict[str, Any]


class ArtifactAssetDeleteOutput(WireModel):
    """A file of an artifact was deleted."""

    asset_delete: dict[str, Any]
    written: dict[str, Any] | None = None
    owned: bool | None = None


class ArtifactPinOutput(WireModel):
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
