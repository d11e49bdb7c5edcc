"""A claim is kept by a sign of life at an interval, through failures, until it is given up."""

import logging

import anyio
import pytest

from claude_agent_py._base.kept_alive import KeptAlive

pytestmark = pytest.mark.anyio


async def test_a_sign_of_life_that_fails_is_given_again_soon_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    signs = 0
    is_kept = anyio.Event()

    async def sign() -> None:
        nonlocal signs
        signs += 1
        if signs in (2, 3):
            raise OSError("the file is away")
        if signs == 5:
            is_kept.set()

    with caplog.at_level(logging.WARNING), anyio.fail_after(60):
        async with KeptAlive(sign, 0.01, "the lease"):
            await is_kept.wait()
        before = signs
        await anyio.wait_all_tasks_blocked()
    assert signs == before
    assert [record.getMessage() for record in caplog.records] == [
        "the lease cannot be kept, trying again: the file is away"
    ]


async def test_a_claim_that_was_never_kept_may_be_given_up() -> None:
    with anyio.fail_after(60):
        await KeptAlive(anyio.sleep_forever, 0.01, "the lease").stop()
