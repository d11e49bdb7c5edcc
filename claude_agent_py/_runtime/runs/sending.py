"""Open a run and send its prompts to the session."""

import inspect
import logging
from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING, Any, Final

import anyio

from claude_agent_py._callbacks import is_not_the_functions, make_handler_error
from claude_agent_py._errors import OptionsError
from claude_agent_py._runtime.runs.prompts import is_stream, prompt_message

if TYPE_CHECKING:
    from claude_agent_py._runtime.runs.run_state import RunState
    from claude_agent_py._runtime.session.session import Session
    from claude_agent_py.wire.messages.conversation import UserMessage

logger: logging.Logger = logging.getLogger("claude_agent_py")

GENERATOR_GRACE: Final = 1.0
"""How many seconds a generator of prompts may take to close."""


def start_run(session: "Session", run: "RunState", prompt: "UserMessage | AsyncIterable[Any]") -> None:
    """Open a run and send its prompt, or begin to send its iterable of prompts. Raises as `Session.open_run` does."""
    if is_stream(prompt):
        run.sending = anyio.CancelScope()
        session.start_logged(_send_each, session, run, prompt, run.sending)
        session.open_run(run)
    else:
        session.open_run(run, prompt)


async def _send_each(
    session: "Session", run: "RunState", prompts: AsyncIterable[Any], scope: anyio.CancelScope
) -> None:
    """Send the prompts of an async iterable as they come. Runs in a worker of the session; its errors fail the run."""
    iterator: AsyncIterator[Any] | None = None
    try:
        with scope:
            iterator = aiter(prompts)
            async for prompt in iterator:
                message = prompt_message(prompt, verbatim=session.options.verbatim_prompts)
                session.send_prompt(run, message)
            if not run.prompts:
                raise OptionsError("the iterable yielded no prompt", option="prompt")
            session.seal_run(run)
    except BaseException as error:
        failure = error if isinstance(error, Exception) else make_handler_error("the prompts", error)
        session.fail_run(run, lambda: failure)
    finally:
        await _close(iterator)


async def _close(iterator: AsyncIterator[Any] | None) -> None:
    """Close a generator of prompts. Python would do so later, and trio only with a warning."""
    if inspect.isasyncgen(iterator):
        with anyio.move_on_after(GENERATOR_GRACE, shield=True):
            try:
                await iterator.aclose()
            except BaseException as error:
                if is_not_the_functions(error):
                    raise
                logger.exception("closing the prompts failed")
