"""The page: one HTML file with its style and script, which a content security policy names by their hashes."""

from functools import cache
from string import Template
from typing import Final

from claude_agent_py._base.page_assets import hash_source, read_asset


def _read(name: str) -> str:
    return read_asset(__name__, name)


def _hash(name: str) -> str:
    return hash_source(_read(name))


@cache
def read_page() -> str:
    """Return the page."""
    # The inserted texts are not searched for placeholders.
    return Template(_read("page.html")).substitute(style=_read("page.css"), script=_read("page.js"))


def _allow(kind: str, name: str) -> str:
    """Return the directive for the page's own script or style, and for that of a timeline, which the page opens."""
    timeline = hash_source(read_asset("claude_agent_py.observe.page", name))
    return f"{kind} 'sha256-{_hash(name)}' 'sha256-{timeline}'"


POLICY: Final = (
    f"default-src 'none'; {_allow('script-src', 'page.js')}; {_allow('style-src', 'page.css')}; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
