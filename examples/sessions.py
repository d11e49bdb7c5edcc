"""Read, search and change the conversations on disk, without a process."""

import anyio
from anyio import to_thread
from offline import offline

from claude_agent_py import Client, ClientOptions
from claude_agent_py.sessions import (
    SessionBusyError,
    delete_session,
    fork_session,
    get_session,
    list_sessions,
    rename_session,
    search_sessions,
)
from claude_agent_py.testing import Reply, tool_use


async def main() -> None:
    async with Client(ClientOptions(allowed_tools=["Bash"])) as client:
        await client.query("Which files are here?")
        await client.query("Plan the release.")
        session_id = str(client.session_id)
        rename_session(session_id, "The release")  # the CLI takes the title over
        try:
            delete_session(session_id)
        except SessionBusyError as error:
            print("not now:", error)

    for info in await to_thread.run_sync(list_sessions):  # in a thread: it reads files
        print(f"{info.summary!r}, begun with {info.first_prompt!r}")

    session = get_session(session_id)
    print(len(session.messages), "messages; the last:", session.messages[-1].text)
    print("tools:", [(call.name, call.text) for call in session.tool_calls])
    async for message in session.messages:  # one at a time, however long the conversation is
        print(f"  {message.type}: {message.text}")

    for hit in search_sessions("RELEASE"):
        print("found:", hit.excerpt)

    answer = session.messages[3]  # up to the first answer
    copy = fork_session(session_id, up_to_message_id=answer.uuid, title="Another way")
    async with Client(ClientOptions(resume=copy.id)) as client:
        print((await client.query("What did I ask first?")).text)
    delete_session(copy.id)
    print("left:", [info.summary for info in list_sessions()])


SCRIPT = [
    Reply([tool_use("Bash", {"command": "echo none"})]),
    "There are none.",
    "Tag it, build it, publish it.",
    "Which files are here.",
]

if __name__ == "__main__":
    with offline(SCRIPT):
        anyio.run(main)
