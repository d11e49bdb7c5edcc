"""Get the answer as an instance of a Python type."""

from typing import Literal

import anyio
from offline import offline
from pydantic import BaseModel

from claude_agent_py import ClientOptions, StructuredOutputError, run
from claude_agent_py.testing import tool_use


class Finding(BaseModel):
    file: str
    severity: Literal["low", "high"]
    text: str


class Review(BaseModel):
    approved: bool
    findings: list[Finding]


async def main() -> None:
    options = ClientOptions(output_type=Review)  # dataclasses, TypedDicts, list[int], ... work as well
    try:
        result = await run("Review auth.py: `if token == secret: log(secret)`", options)
    except StructuredOutputError as error:
        print("the model gave none that fits:", error)
        return
    review: Review = result.output
    print("approved" if review.approved else "rejected")
    for finding in review.findings:
        print(f"{finding.severity}: {finding.file}: {finding.text}")


ANSWER = {
    "approved": False,
    "findings": [{"file": "auth.py", "severity": "high", "text": "the secret is logged"}],
}

if __name__ == "__main__":
    with offline([tool_use("StructuredOutput", ANSWER)]):  # how the model returns one
        anyio.run(main)
