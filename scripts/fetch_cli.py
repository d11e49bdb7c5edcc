"""Install a CLI into the cache and print its path, for `CLAUDE_AGENT_CLI`.

python scripts/fetch_cli.py minimum|pinned|newest|VERSION

`pinned` is the version that the package is tested with, `minimum` the oldest one, `newest` the latest on npm.
"""

import subprocess
import sys
from functools import partial

from claude_agent_py._version import CLI_VERSION, MINIMUM_CLI_VERSION
from claude_agent_py.options import install_cli
from claude_agent_py.transport.install import NPM_PACKAGE


def find_newest() -> str:
    """Return the latest version on npm."""
    command = ["npm", "view", NPM_PACKAGE, "version"]
    return subprocess.run(command, check=True, text=True, capture_output=True, timeout=120).stdout.strip()


def main(name: str) -> int:
    """Install a version and print its path."""
    known = {"minimum": MINIMUM_CLI_VERSION, "pinned": CLI_VERSION}
    version = find_newest() if name == "newest" else known.get(name, name)
    print(install_cli(version, exact=True, report=partial(print, file=sys.stderr)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
