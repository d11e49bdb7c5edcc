"""Formatting of values and named sections as text, media values, and truncation.

Only the `from_path` constructors of media do I/O.
"""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py.formatting.builder import (
        Reading as Reading,
        SectionBuilder as SectionBuilder,
        SectionEnded as SectionEnded,
        SectionEvent as SectionEvent,
        SectionGrew as SectionGrew,
        SectionStarted as SectionStarted,
        TextSource as TextSource,
    )
    from claude_agent_py.formatting.encoders import (
        Encoder as Encoder,
        EncodingError as EncodingError,
        JSONEncoder as JSONEncoder,
        YAMLEncoder as YAMLEncoder,
    )
    from claude_agent_py.formatting.json_format import JSONFormat as JSONFormat
    from claude_agent_py.formatting.markdown import MarkdownFormat as MarkdownFormat
    from claude_agent_py.formatting.media import (
        Audio as Audio,
        File as File,
        Image as Image,
        Media as Media,
        ResourceLink as ResourceLink,
    )
    from claude_agent_py.formatting.sections import (
        ParsedText as ParsedText,
        Place as Place,
        Problem as Problem,
        ProblemKind as ProblemKind,
        Section as Section,
        SectionSpec as SectionSpec,
        TextFormatError as TextFormatError,
    )
    from claude_agent_py.formatting.text_format import TextFormat as TextFormat, TextStream as TextStream
    from claude_agent_py.formatting.truncation import text_length as text_length, truncate as truncate
    from claude_agent_py.formatting.xml import XMLFormat as XMLFormat
    from claude_agent_py.formatting.yaml_format import YAMLFormat as YAMLFormat
else:
    _NAMES = {
        "claude_agent_py.formatting.builder": """
            Reading SectionBuilder SectionEnded SectionEvent SectionGrew SectionStarted TextSource
        """,
        "claude_agent_py.formatting.encoders": "Encoder EncodingError JSONEncoder YAMLEncoder",
        "claude_agent_py.formatting.json_format": "JSONFormat",
        "claude_agent_py.formatting.markdown": "MarkdownFormat",
        "claude_agent_py.formatting.media": "Audio File Image Media ResourceLink",
        "claude_agent_py.formatting.sections": """
            ParsedText Place Problem ProblemKind Section SectionSpec TextFormatError
        """,
        "claude_agent_py.formatting.text_format": "TextFormat TextStream",
        "claude_agent_py.formatting.truncation": "text_length truncate",
        "claude_agent_py.formatting.xml": "XMLFormat",
        "claude_agent_py.formatting.yaml_format": "YAMLFormat",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
