"""Reading docstrings."""

import subprocess
import sys

import pytest

from claude_agent_py import tool

GOOGLE = """Search for things.

    Looks everywhere,
    and long.

    Args:
        query: What to look for,
            in words.
        limit (int): How many.
        *more: Others.

    Returns:
        Hits.
    """

NUMPY = """Search for things.

    Parameters
    ----------
    query : str
        What to look for.
    limit : int, optional
        How many.

    Returns
    -------
    list
    """

REST = """Search for things.

    :param query: What to look for.
    :param int limit: How many.
    :returns: Hits.
    """


def read(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Return what a tool with such a docstring tells about itself, and about those parameters that it describes."""

    def search(query: str, limit: int, more: str, x: str, a: str, b: str, c: str, d: str) -> None: ...

    search.__doc__ = docstring
    made = tool(search)
    described: dict[str, dict[str, str]] = made.input_schema["properties"]
    return made.description, {name: field["description"] for name, field in described.items() if "description" in field}


def test_google_style() -> None:
    assert read(GOOGLE) == (
        "Search for things.\n\nLooks everywhere,\nand long.",
        {"query": "What to look for, in words.", "limit": "How many.", "more": "Others."},
    )


@pytest.mark.parametrize("docstring", [NUMPY, REST])
def test_numpy_and_rest_style(docstring: str) -> None:
    assert read(docstring) == ("Search for things.", {"query": "What to look for.", "limit": "How many."})


@pytest.mark.parametrize("docstring", [None, "", "   \n  "])
def test_no_docstring(docstring: str | None) -> None:
    assert read(docstring) == ("", {})


@pytest.mark.parametrize(
    ("docstring", "known"),
    [
        ("Search for\n    things.\n\n    Args:\n        query: What.", {"query": "What."}),
        ("S.\n\nArguments:\n  a (dict(str, int), optional): One\n    see http://x\n  b:\n    Two: b", {
            "a": "One see http://x", "b": "Two: b"}),
        ("S.\n\nArgs:\n  a: One.\n\n  b: Two.\n\nMore, not: about b.\n", {"a": "One.", "b": "Two."}),
        ("S.\n\nParameters\n----------\na, *b : int\n    Both.\n\n    And more.\nc\n    Third.\n\nNotes\n---\nd : no", {
            "a": "Both. And more.", "b": "Both. And more.", "c": "Third."}),
        ("S.\n\n:param Callable[[int], str] a: One,\n    still one.\n:type a: int\n:raises ValueError: b", {
            "a": "One, still one."}),
        ("S.\n\nKeyword Args:\n  a: One.\nReturns:\n  b: no", {"a": "One."}),
        ("Say:\n  a: not a parameter.", {}),
        ("S.\n\nArgs:\n  Nothing that is an entry.", {}),
        ("Args:", {}),
        ("Parameters\n---", {}),
        (":param", {}),
        (":param x", {}),
    ],
)  # fmt: skip
def test_parameters(docstring: str, known: dict[str, str]) -> None:
    assert read(docstring)[1] == known


def test_the_description_ends_before_the_sections() -> None:
    told = read("Search for\n    things: all.\n\n    Note:\n        Slow.\n\n    Returns:\n        Hits.\n    ")
    assert told == ("Search for\nthings: all.\n\nNote:\n    Slow.", {})


def test_a_tool_describes_its_parameters_without_further_packages() -> None:
    program = """
import sys
sys.modules["docstring_parser"] = None
from claude_agent_py import tool

@tool
def search(query: str) -> str:
    '''Search.

    Args:
        query: What to look for.
    '''
    return query

print(search.input_schema["properties"]["query"]["description"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("What to look for.\n", "")
