"""`python -m claude_agent_py`: the command line."""

import sys

from claude_agent_py.cli import main

if __name__ == "__main__":
    sys.exit(main())
