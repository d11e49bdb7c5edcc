"""Resume a session in a new process, and fork it."""

import anyio
from offline import offline

from claude_agent_py import ClientOptions, run
from claude_agent_py.testing import RecordedRequest


async def main() -> None:
    first = await run("My name is Ada. Remember it.")
    print(first.text)

    again = await run("What is my name?", ClientOptions(resume=first.session_id))
    print(again.text, "the same session:", again.session_id == first.session_id)

    copy = await run("From now on I am Grace.", ClientOptions(resume=first.session_id, fork_session=True))
    print(copy.text, "the same session:", copy.session_id == first.session_id)


def model(request: RecordedRequest) -> str:
    if "What is my name" in request.last_user_text:
        return "Ada." if request.contains("My name is Ada") else "I do not know."
    return "Hello, Grace." if "Grace" in request.last_user_text else "Hello, Ada."


if __name__ == "__main__":
    with offline(model):
        anyio.run(main)
