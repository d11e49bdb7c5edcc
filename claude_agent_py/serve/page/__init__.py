"""The page: one HTML file with its style and script, which a content security policy names by their hashes."""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from string import Template
from typing import Final


@cache
def _read(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8").strip()


def _hash(name: str) -> str:
    return base64.b64encode(hashlib.sha256(_read(name).encode()).digest()).decode()


@cache
def read_page() -> str:
    """Return the page."""
    # The inserted texts are not searched for placeholders.
    return Template(_read("page.html")).substitute(style=_read("page.css"), script=_read("page.js"))


POLICY: Final = (
    f"default-src 'none'; script-src 'sha256-{_hash('page.js')}'; style-src 'sha256-{_hash('page.css')}'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
