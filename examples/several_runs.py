"""Concurrent runs: in separate processes, and in one session."""

import anyio
from offline import offline

from claude_agent_py import Client, run
from claude_agent_py.testing import RecordedRequest, Reply

CITIES = ("Oslo", "Quito")


async def in_processes_of_their_own() -> dict[str, str]:
    """Run independent conversations in parallel."""
    answers: dict[str, str] = {}

    async def ask(city: str) -> None:
        answers[city] = (await run(f"In which country is {city}? One word.")).text

    async with anyio.create_task_group() as workers:
        for city in CITIES:
            workers.start_soon(ask, city)
    return answers


async def on_one_session() -> dict[str, str]:
    """Send several prompts to one conversation.

    The CLI runs one turn at a time, and may answer queued prompts together. Each run gets the result that answers its
    prompt; prompts that were answered together share a result.
    """
    async with Client() as client:
        runs = {city: client.query(f"In which country is {city}? One word.") for city in CITIES}  # all are sent
        return {city: (await run).text for city, run in runs.items()}


async def main() -> None:
    for title, answers in (("processes:", await in_processes_of_their_own()), ("session:", await on_one_session())):
        print(title, *(f"{city}={answers[city]}" for city in CITIES))


def model(request: RecordedRequest) -> Reply:
    countries = {"Oslo": "Norway", "Quito": "Ecuador"}
    return Reply("+".join(country for city, country in countries.items() if city in request.last_user_text), delay=0.2)


if __name__ == "__main__":
    with offline(model):
        anyio.run(main)
