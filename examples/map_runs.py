"""Run many prompts with retries and a journal; the second call only runs the failed prompts."""

import anyio
from offline import offline

from claude_agent_py import ClientOptions
from claude_agent_py.pool import RetryPolicy, map_runs
from claude_agent_py.testing import Failure, RecordedRequest, Reply

PROMPTS = [f"Summarize chapter {number}" for number in range(1, 3)]


async def summarize() -> None:
    # The policy retries, so the CLI itself need not.
    options = ClientOptions(tools=[], setting_sources=[], env={"CLAUDE_CODE_MAX_RETRIES": "0"})
    policy = RetryPolicy(attempts=3, wait=0.2, budget=600)
    async with map_runs(PROMPTS, options, concurrency=2, retry=policy, journal="summaries.jsonl") as runs:
        async for outcome in runs:
            source = "journal" if outcome.from_journal else f"attempt {outcome.attempts}"
            print(f"{outcome.prompt}: {outcome.text or type(outcome.error).__name__} ({source})")
    print(f"{runs.progress.done - runs.progress.failed} of {runs.progress.total} answered")


async def main() -> None:
    await summarize()
    chapters.add("2")  # fix the cause
    print("again:")
    await summarize()


chapters = {"1"}
failed_once: set[str] = set()


def model(request: RecordedRequest) -> Reply | Failure:
    """Refuse a chapter that is not there, and be overloaded once for chapter 1."""
    number = request.last_user_text[-1]
    if number not in chapters:
        return Failure(400)
    if number == "1" and number not in failed_once:
        failed_once.add(number)
        return Failure(529)
    return Reply(f"chapter {number} in short")


if __name__ == "__main__":
    with offline(model):
        anyio.run(main)
