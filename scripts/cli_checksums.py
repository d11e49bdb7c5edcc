"""Print the checksums of the CLI's programs for `claude_agent_py/transport/checksums.py`.

python scripts/cli_checksums.py 2.1.332      fetches each platform's package with npm (about 170 MB each)
python scripts/cli_checksums.py              the version that the package is tested with
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from claude_agent_py._version import CLI_VERSION
from claude_agent_py.transport.checksums import CHECKSUMS
from claude_agent_py.transport.install import NPM_PACKAGE, checksum, unpack_program

PLATFORMS = tuple(next(iter(CHECKSUMS.values())))


def program_checksum(version: str, platform: str) -> str:
    """Return the SHA-256 of the program in a platform's package."""
    with tempfile.TemporaryDirectory() as folder:
        package = f"{NPM_PACKAGE}-{platform}@{version}"
        command = ["npm", "pack", "--silent", "--ignore-scripts", "--cache", f"{folder}/cache", package]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=900)
        (archive,) = Path(folder).glob("*.tgz")
        return checksum(unpack_program(archive))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Print the checksums of the CLI's programs.")
    parser.add_argument("version", nargs="?", default=CLI_VERSION)
    version = parser.parse_args().version
    print(f'    "{version}": {{')
    for platform in PLATFORMS:
        print(f'        "{platform}": "{program_checksum(version, platform)}",', flush=True)
    print("    },")
    return 0


if __name__ == "__main__":
    sys.exit(main())
