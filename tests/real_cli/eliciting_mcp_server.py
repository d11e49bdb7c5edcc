"""A program that is an MCP server whose one tool asks the user something. Its answer is what the user said."""

import json
import sys
from typing import Any

FORM = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 2}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
}
QUESTIONS: dict[str, dict[str, Any]] = {
    "form": {"message": "Who are you?", "requestedSchema": FORM},
    "url": {"mode": "url", "message": "Sign in", "url": "https://example.com/in", "elicitationId": "el1"},
}


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def main() -> None:
    calls: dict[str, Any] = {}
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                server = {"name": "asker", "version": "1"}
                version = message["params"]["protocolVersion"]
                send(
                    id=message["id"],
                    result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server},
                )
            case "tools/list":
                schema = {"type": "object", "properties": {"mode": {"type": "string"}}}
                send(
                    id=message["id"], result={"tools": [{"name": "ask", "description": "Asks", "inputSchema": schema}]}
                )
            case "tools/call":
                calls["q" + str(message["id"])] = message["id"]
                mode = message["params"]["arguments"]["mode"]
                send(id="q" + str(message["id"]), method="elicitation/create", params=QUESTIONS[mode])
            case None if message.get("id") in calls:
                said = json.dumps(message.get("result", message.get("error")))
                send(id=calls.pop(message["id"]), result={"content": [{"type": "text", "text": said}]})


if __name__ == "__main__":
    main()
