"""What a model asks the user with the tool `AskUserQuestion`."""

from typing import Any


def asking(question: str, *labels: str) -> dict[str, Any]:
    """Return the input of the tool: one question, of which one choice is the answer."""
    options = [{"label": label, "description": label.upper()} for label in labels]
    return {"questions": [{"question": question, "header": "Choose", "multiSelect": False, "options": options}]}
