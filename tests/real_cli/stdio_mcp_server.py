"""A program that is a small MCP server, for the CLI to start.

With `--wait-for PATH` it first waits for a file. With `--schemas JSON` it offers a tool for each of these schemas, `t0`
and so on.
"""

import json
import os
import sys
import time
from typing import Any

TOOL = {
    "name": "add",
    "description": "Adds one.",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}}},
    "annotations": {"readOnlyHint": True},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            capabilities: dict[str, Any] = {"tools": {}, "resources": {}}
            server = {"name": "small", "version": "1.0.0"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": server}
        case "tools/list":
            return {"tools": list_tools()}
        case "tools/call" if "a" not in params.get("arguments", {}):
            return {"content": [{"type": "text", "text": "a is missing"}], "isError": True}
        case "tools/call":
            total = params["arguments"]["a"] + 1
            return {"content": [{"type": "text", "text": str(total)}], "structuredContent": {"total": total}}
        case "resources/list":
            return {"resources": [{"uri": "ui://page", "name": "page"}]}
        case "resources/read":
            return {"contents": [{"uri": params["uri"], "mimeType": "text/html", "text": "<p>hi</p>"}]}
    return {}


def list_tools() -> list[dict[str, Any]]:
    if sys.argv[1:2] != ["--schemas"]:
        return [TOOL]
    return [{**TOOL, "name": f"t{n}", "inputSchema": schema} for n, schema in enumerate(json.loads(sys.argv[2]))]


def main() -> None:
    if sys.argv[1:2] == ["--wait-for"]:
        while not os.path.exists(sys.argv[2]):
            time.sleep(0.02)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answer(message["method"], message.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
