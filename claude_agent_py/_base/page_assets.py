"""The files of a page that contains its style and script, and the hashes by which a policy allows only these."""

import base64
import hashlib
from functools import cache
from importlib.resources import files


@cache
def read_asset(package: str, name: str) -> str:
    """Return the text of a file in a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8").strip()


def hash_source(text: str) -> str:
    """Return the hash of a style or a script, without the prefix `sha256-`."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
