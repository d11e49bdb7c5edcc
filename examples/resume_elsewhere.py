"""Begin a conversation here, and go on with it on a "machine" that has never seen it."""

import anyio
from offline import offline

from claude_agent_py import Client, ClientOptions, run
from claude_agent_py.sessions import SessionLeasedError, SQLiteStore, list_sessions


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
    [key] = await store.find_session(begun.session_id)
    entries = await store.load({"project_key": key, "session_id": begun.session_id}) or []
    print("turns in the store:", sum(entry["type"] == "assistant" for entry in entries))


SCRIPT = ["Noted.", "It is kumquat."]

if __name__ == "__main__":
    with offline(SCRIPT):
        anyio.run(main)
