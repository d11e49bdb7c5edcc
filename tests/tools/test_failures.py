"""What the model is told when a tool fails."""

import pytest

from claude_agent_py._base.redaction import redact
from claude_agent_py.errors import ToolError
from claude_agent_py.tools.results import failure_text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("https://user:hunter2@db.example/x", "https://***@db.example/x"),
        ("GET https://example.com:8080/a?b=c failed", "GET https://example.com:8080/a?b=c failed"),
        ("Authorization: Bearer abc.def-123456", "Authorization: ***"),
        ("key sk-ant-api03-abcdefgh_123 is wrong", "key *** is wrong"),
        ("https://x/?api_key=abcd1234&b=1", "https://x/?api_key=***&b=1"),
        ("{'password': 'hunter22', 'n': 1}", "{'password': '***', 'n': 1}"),
        ("token=ghp_0123456789abcdefABCD", "token=***"),
        ("AWS AKIAIOSFODNN7EXAMPLE", "AWS ***"),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM", "jwt ***"),
        ("no such file: /home/me/monkey.txt", "no such file: /home/me/monkey.txt"),
        ("the key 'city' is missing", "the key 'city' is missing"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----", "***"),
    ],
)
def test_secrets_are_redacted(text: str, clean: str) -> None:
    assert redact(text) == clean


def test_secrets_of_the_environment_are_blanked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "correct horse battery")
    monkeypatch.setenv("SHORT_KEY", "abc")
    monkeypatch.setenv("CITY", "Heidelberg")

    assert redact("abc: correct horse battery in Heidelberg") == "abc: <SERVICE_TOKEN> in Heidelberg"


def test_a_failure_names_the_tool_and_the_error() -> None:
    assert failure_text("search", ValueError("bad")) == "search failed: ValueError: bad"
    assert failure_text("search", ValueError()) == "search failed: ValueError"


def test_a_tool_error_is_the_tools_own_word() -> None:
    assert failure_text("search", ToolError("Use https://me:secret@host instead.")) == (
        "Use https://me:secret@host instead."
    )
    assert failure_text("search", ToolError()) == "search failed"


def test_a_long_failure_is_cut() -> None:
    assert len(failure_text("search", ValueError("x" * 100_000))) <= 2_000
