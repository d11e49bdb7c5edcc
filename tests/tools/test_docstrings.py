"""Reading docstrings."""

import sys

import pytest

from claude_agent_py.tools.docstrings import Documentation, read_docstring

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


def test_google_style() -> None:
    assert read_docstring(GOOGLE) == Documentation(
        "Search for things.\n\nLooks everywhere,\nand long.",
        {"query": "What to look for, in words.", "limit": "How many.", "more": "Others."},
    )


@pytest.mark.parametrize("docstring", [NUMPY, REST])
def test_numpy_and_rest_style(docstring: str) -> None:
    assert read_docstring(docstring) == Documentation(
        "Search for things.", {"query": "What to look for.", "limit": "How many."}
    )


@pytest.mark.parametrize("docstring", [None, "", "   \n  "])
def test_no_docstring(docstring: str | None) -> None:
    assert read_docstring(docstring) == Documentation()


def test_without_the_library_the_summary_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docstring_parser", None)

    assert read_docstring("Search for\n    things.\n\n    Args:\n        query: What.") == Documentation(
        "Search for things."
    )
