"""Run many prompts: a few at a time, with retries, failures as values, and the cost of all attempts."""

import anyio
from offline import offline

from claude_agent_py import ClientOptions, RetryPolicy, RunFailed, RunResult, run
from claude_agent_py.testing import Failure, RecordedRequest, Reply

PROMPTS = [f"Summarize chapter {number}" for number in range(1, 3)]
AT_ONCE = 2


async def batch(prompts: list[str], options: ClientOptions) -> tuple[list[RunResult | RunFailed], float]:
    """Return the result or the error of each prompt, in order, and the cost of all attempts in US dollars."""
    policy = RetryPolicy(attempts=3, wait=0.2, budget=600)
    limit = anyio.Semaphore(AT_ONCE)  # each run is a separate process
    answers: dict[str, RunResult | RunFailed] = {}
    failures: list[RunFailed] = []

    async def one(prompt: str) -> None:
        async with limit:
            try:
                answers[prompt] = await policy.run(lambda: run(prompt, options), failures=failures)
            except RunFailed as error:
                answers[prompt] = error

    async with anyio.create_task_group() as workers:
        for prompt in prompts:
            workers.start_soon(one, prompt)
    results = [answer for answer in answers.values() if isinstance(answer, RunResult)]
    results += [error.result for error in failures if error.result is not None]
    return [answers[prompt] for prompt in prompts], sum(result.cost_usd for result in results)


async def main() -> None:
    # The policy retries, so the CLI itself need not.
    options = ClientOptions(tools=[], setting_sources=[], env={"CLAUDE_CODE_MAX_RETRIES": "0"})
    answers, cost = await batch(PROMPTS, options)
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        print(f"{prompt}: {type(answer).__name__ if isinstance(answer, RunFailed) else answer.text}")
    print("it cost something" if cost > 0 else "it cost nothing")


failed_once: set[str] = set()


def model(request: RecordedRequest) -> Reply | Failure:
    """Be overloaded once for chapter 1, and refuse chapter 2."""
    number = request.last_user_text[-1]
    if number == "2":
        return Failure(400)
    if number == "1" and number not in failed_once:
        failed_once.add(number)
        return Failure(529)
    return Reply(f"chapter {number} in short")


if __name__ == "__main__":
    with offline(model):
        anyio.run(main)
