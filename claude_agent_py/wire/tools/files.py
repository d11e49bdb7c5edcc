"""Tools that read and change files: Read, Write, Edit, NotebookEdit. Paths are absolute."""

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import field

from claude_agent_py.wire.base import CamelModel, FrameModel, JSONObject, Open, WireModel


class FileReadInput(FrameModel):
    """Read a file (tool `Read`)."""

    file_path: str
    offset: int | None = None
    """The first line to read, starting at 1."""
    limit: int | None = None
    """The number of lines to read."""
    pages: str | None = None
    """Page range of a PDF, for example `1-5`."""
    allow_large: bool | None = None


class TextFile(CamelModel):
    """Lines of a text file."""

    file_path: str
    content: str
    num_lines: int = 0
    start_line: int = 1
    total_lines: int = 0
    truncated_by_token_cap: bool | None = None


class ImageDimensions(CamelModel):
    """The size of an image in pixels, original and as shown to the model."""

    original_width: int | None = None
    original_height: int | None = None
    display_width: int | None = None
    display_height: int | None = None


class ImageFile(CamelModel):
    """An image."""

    base64: str
    type: str
    """Media type."""
    original_size: int = 0
    dimensions: ImageDimensions | None = None


class NotebookFile(CamelModel):
    """The cells of a notebook."""

    file_path: str
    cells: list[Any]


class PDFFile(CamelModel):
    """A PDF."""

    file_path: str
    base64: str
    original_size: int = 0


class PDFParts(CamelModel):
    """A PDF whose pages were extracted as images."""

    file_path: str
    original_size: int = 0
    count: int = 0
    output_dir: str = ""


class FileReadTextOutput(FrameModel, rename="camel"):
    """The output of `Read` for a text file."""

    type: ClassVar[Literal["text"]] = "text"
    file: TextFile


class FileReadImageOutput(FrameModel):
    """The output of `Read` for an image."""

    type: ClassVar[Literal["image"]] = "image"
    file: ImageFile


class FileReadNotebookOutput(FrameModel):
    """The output of `Read` for a notebook."""

    type: ClassVar[Literal["notebook"]] = "notebook"
    file: NotebookFile


class FileReadPDFOutput(FrameModel):
    """The output of `Read` for a whole PDF."""

    type: ClassVar[Literal["pdf"]] = "pdf"
    file: PDFFile


class FileReadPartsOutput(FrameModel, rename="camel"):
    """The output of `Read` for some pages of a PDF."""

    type: ClassVar[Literal["parts"]] = "parts"
    file: PDFParts
    first_page: int | None = None
    pages: list[JSONObject] | None = None


FileReadOutput: TypeAlias = (
    FileReadTextOutput | FileReadImageOutput | FileReadNotebookOutput | FileReadPDFOutput | FileReadPartsOutput
)
"""The result of the tool `Read`."""


class PatchHunk(CamelModel):
    """A hunk of a unified diff."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    lines: list[str]
    """Lines with their prefix `+`, `-` or space."""


class GitDiff(WireModel):
    """The change as a git diff."""

    filename: str
    status: Open[Literal["modified", "added"]]
    additions: int = 0
    deletions: int = 0
    changes: int = 0
    patch: str = ""
    repository: str | None = None


class FileWriteInput(FrameModel):
    """Create or overwrite a file (tool `Write`)."""

    file_path: str
    content: str


class FileWriteOutput(FrameModel, rename="camel"):
    """The output of `Write`."""

    type: Open[Literal["create", "update"]]
    file_path: str
    content: str
    structured_patch: list[PatchHunk] = field(default_factory=list)
    original_file: str | None = None
    git_diff: GitDiff | None = None
    user_modified: bool | None = None
    staged: bool | None = None


class FileEditInput(FrameModel):
    """Replace text in a file (tool `Edit`)."""

    file_path: str
    old_string: str
    new_string: str
    replace_all: bool | None = None


class FileEditOutput(FrameModel, rename="camel"):
    """The output of `Edit`."""

    file_path: str
    old_string: str
    new_string: str
    original_file: str | None = None
    structured_patch: list[PatchHunk] = field(default_factory=list)
    user_modified: bool = False
    replace_all: bool = False
    git_diff: GitDiff | None = None
    staged: bool | None = None


class NotebookEditInput(FrameModel):
    """Change a cell of a notebook."""

    notebook_path: str
    new_source: str
    cell_id: str | None = None
    """The cell to change. With `insert`, the cell after which to insert; None inserts at the beginning."""
    cell_type: Open[Literal["code", "markdown"]] | None = None
    edit_mode: Open[Literal["replace", "insert", "delete"]] | None = None


class NotebookEditOutput(FrameModel):
    """The output of `NotebookEdit`: the changed cell, or the error."""

    new_source: str
    old_source: str | None = None
    cell_id: str | None = None
    cell_type: Open[Literal["code", "markdown"]]
    language: str = ""
    edit_mode: str = ""
    error: str | None = None
    notebook_path: str = ""
    original_file: str = ""
    updated_file: str = ""
