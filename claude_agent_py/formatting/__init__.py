"""Objects as text, for models and for people.

A tool returns data; what the model reads is made here. Start with `text_format`, the contract of `MarkdownFormat`
and `XMLFormat`; `encoders` writes values, `media` is what is no text, `truncation` what is too much text. Pure: nothing
here does I/O but the `from_path` constructors of media.
"""

from claude_agent_py.formatting.encoders import Encoder, EncodingError, JSONEncoder, YAMLEncoder
from claude_agent_py.formatting.markdown import MarkdownFormat
from claude_agent_py.formatting.media import Audio, File, Image, Media, ResourceLink
from claude_agent_py.formatting.sections import Section, SectionSpec
from claude_agent_py.formatting.text_format import TextFormat
from claude_agent_py.formatting.truncation import text_length, truncate
from claude_agent_py.formatting.xml import XMLFormat

__all__ = [
    "Audio",
    "Encoder",
    "EncodingError",
    "File",
    "Image",
    "JSONEncoder",
    "MarkdownFormat",
    "Media",
    "ResourceLink",
    "Section",
    "SectionSpec",
    "TextFormat",
    "XMLFormat",
    "YAMLEncoder",
    "text_length",
    "truncate",
]
