"""Serve many short sessions from pre-started processes."""

import anyio
from offline import offline

from claude_agent_py import ClientOptions
from claude_agent_py.pool import Pool
from claude_agent_py.testing import RecordedRequest


async def answer(pool: Pool, user: str, options: ClientOptions, answers: dict[str, str]) -> None:
    """Hold one user's conversation; each has a separate process."""
    async with pool.client(options) as client:
        await client.query(f"My name is {user}.")
        answers[user] = (await client.query("What is my name?")).text


async def main() -> None:
    options = ClientOptions(permission_mode="default", tools=[], setting_sources=[], model="sonnet")
    answers: dict[str, str] = {}
    async with Pool(options, size=2, max_size=3) as pool:
        await pool.ready()  # raises if the CLI cannot be started
        async with anyio.create_task_group() as users:
            for user in ("Ada", "Grace"):
                # The model is changed when the process is handed out; tools, for example, could not be.
                wanted = options.replace(model="haiku") if user == "Grace" else options
                users.start_soon(answer, pool, user, wanted, answers)
        stats = pool.stats()
    print(*(f"{user}: {text}" for user, text in sorted(answers.items())), sep="\n")
    print(f"{stats.warm + stats.cold} sessions, {pool.stats().processes} processes left")


def model(request: RecordedRequest) -> str:
    """Answer with the name that the conversation began with."""
    said = str(request.body["messages"])
    name = next(name for name in ("Ada", "Grace") if name in said)
    return f"{name}, says {request.body['model'].split('-')[1]}."


if __name__ == "__main__":
    with offline(model):
        anyio.run(main)
