"""Put sessions behind a web page, and see what it is sent. `claude-agent-py serve` opens the page itself."""

import json
import threading
import urllib.request

import uvicorn
from offline import offline

from claude_agent_py import ClientOptions
from claude_agent_py.serve import Server, Sessions, make_app, make_token
from claude_agent_py.testing import Reply, tool_use

TOKEN = make_token()


def call(method: str, url: str, body: object = None) -> urllib.request.Request:
    data = None if body is None else json.dumps(body).encode()
    return urllib.request.Request(url, data, {"authorization": f"Bearer {TOKEN}"}, method=method)


def chat(address: str) -> None:
    """Do what the page does: send a prompt, follow the events, answer the question."""
    with urllib.request.urlopen(call("POST", f"{address}/api/sessions", {})) as answer:
        session = f"{address}/api/sessions/{json.load(answer)['id']}"
    urllib.request.urlopen(call("POST", f"{session}/prompts", {"text": "Make the file"})).close()
    with urllib.request.urlopen(call("GET", f"{session}/events")) as events:
        for line in events:
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line.removeprefix(b"data: "))
            match event["type"]:
                case "question":
                    print("asks:", event["title"], event["lines"][0])
                    answer_at = f"{session}/answers/{event['question']}"
                    urllib.request.urlopen(call("POST", answer_at, {"decision": "allow"})).close()
                case "fact" if event["fact"]["fact"] == "call_ended":
                    print("call:", event["fact"]["call"]["name"], event["fact"]["status"])
                case "fact" if event["fact"]["fact"] == "message_added" and event["fact"].get("content"):
                    print("says:", event["fact"]["content"][0]["text"])
                case "run_ended":
                    print("ended:", event["status"])
                    return


def main() -> None:
    sessions = Sessions(ClientOptions(permission_mode="default"))
    app = make_app(sessions, token=TOKEN)
    config = uvicorn.Config(app, "127.0.0.1", 0, log_level="warning")
    socket = config.bind_socket()
    socket.listen()
    server = Server(config, sessions)
    serving = threading.Thread(target=server.run, args=([socket],))
    serving.start()
    chat(f"http://127.0.0.1:{socket.getsockname()[1]}")
    server.should_exit = True
    serving.join()


if __name__ == "__main__":
    make = tool_use("Bash", {"command": "touch made", "description": "Make it"})
    with offline([Reply([make]), Reply("It is made.")]):
        main()
