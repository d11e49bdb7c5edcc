"""Formatting of values and named sections as text, media values, and truncation.

Only the `from_path` constructors of media do I/O.
"""

from claude_agent_py.errors import TextFormatError
from claude_agent_py.formatting.builder import (
    SectionBuilder,
    SectionEnded,
    SectionEvent,
    SectionGrew,
    SectionStarted,
)
from claude_agent_py.formatting.encoders import Encoder, EncodingError, JSONEncoder, YAMLEncoder
from claude_agent_py.formatting.json_format import JSONFormat
from claude_agent_py.formatting.markdown import MarkdownFormat
from claude_agent_py.formatting.media import Audio, File, Image, Media, ResourceLink
from claude_agent_py.formatting.parsed import ParsedText
from claude_agent_py.formatting.problems import Place, Problem, ProblemKind
from claude_agent_py.formatting.sections import Section, SectionSpec
from claude_agent_py.formatting.source import Reading, TextSource
from claude_agent_py.formatting.text_format import TextFormat, TextStream
from claude_agent_py.formatting.truncation import text_length, truncate
from claude_agent_py.formatting.xml import XMLFormat
from claude_agent_py.formatting.yaml_format import YAMLFormat

__all__ = [
    "Audio",
    "Encoder",
    "EncodingError",
    "File",
    "Image",
    "JSONEncoder",
    "JSONFormat",
    "MarkdownFormat",
    "Media",
    "ParsedText",
    "Place",
    "Problem",
    "ProblemKind",
    "Reading",
    "ResourceLink",
    "Section",
    "SectionBuilder",
    "SectionEnded",
    "SectionEvent",
    "SectionGrew",
    "SectionSpec",
    "SectionStarted",
    "TextFormat",
    "TextFormatError",
    "TextSource",
    "TextStream",
    "XMLFormat",
    "YAMLEncoder",
    "YAMLFormat",
    "text_length",
    "truncate",
]
