"""The plan of a start: what a program gets that starts the CLI elsewhere (`spawn`)."""

import sys
from dataclasses import replace

import anyio
import pytest

from claude_agent_py import Client, ClientOptions
from claude_agent_py.transport import LaunchPlan, Transport


class NotStarted(Exception):
    """The plan is all that a test wants."""


_STARTED: list[LaunchPlan] = []
"""The plans of the starts: when one is collected, it removes the files of its copy as well."""


def plan_of(options: ClientOptions) -> LaunchPlan:
    """Return the plan that a client with these options makes, as `claude` unless the options name a program."""
    plans = list[LaunchPlan]()

    def keep(plan: LaunchPlan) -> Transport:
        _STARTED.append(plan)
        plans.append(replace(plan))
        raise NotStarted

    with pytest.raises(NotStarted):
        anyio.run(Client(options.replace(spawn=keep, cli_path=options.cli_path or "claude")).connect)
    return plans[0]


def refusal_of(options: ClientOptions) -> Exception:
    """Return the error with which a start of the CLI on this machine is refused."""
    with pytest.raises(Exception) as caught:
        anyio.run(Client(options.replace(cli_path=sys.executable)).connect)
    return caught.value
