"""Start a conversation here, and resume it on a "machine" that has never seen it."""

import anyio
from offline import offline

from claude_agent_py import Client, ClientOptions, run
from claude_agent_py.sessions import SessionLeasedError, SQLiteStore, StoredSessions, list_sessions


async def main() -> None:
    here, there = anyio.Path("here"), anyio.Path("there")
    await here.mkdir()
    await there.mkdir()

    store = SQLiteStore("sessions.db")  # PostgresStore, RedisStore or S3Store where machines share no disk
    begun = await run("The launch code is kumquat.", ClientOptions(cwd="here", session_store=store))

    # From here on, only the id and the store are known; the directory and the configuration folder are others.
    fresh = {"CLAUDE_CONFIG_DIR": str(await there.resolve() / "config")}
    options = ClientOptions(cwd="there", env=fresh, session_store=SQLiteStore("sessions.db"), resume=begun.session_id)
    async with Client(options) as client:
        print((await client.query("What is the launch code?")).text)
        try:
            await run("Me too!", options)
        except SessionLeasedError as error:
            print("one at a time:", error.holder.count("-") > 0)

    print("left on the second machine:", list_sessions(config_dir=fresh["CLAUDE_CONFIG_DIR"]))
    sessions = StoredSessions(store, "here")
    await sessions.rename(begun.session_id, "Launch codes")
    for info in await sessions.list():
        print("in the store:", info.summary)
    session = await sessions.get(begun.session_id)
    print(len(session.messages), "messages; the last:", session.messages[-1].text)


SCRIPT = ["Noted.", "It is kumquat."]

if __name__ == "__main__":
    with offline(SCRIPT):
        anyio.run(main)
