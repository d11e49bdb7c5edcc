"""Measuring and cutting text."""

import pytest
from hypothesis import given, strategies as st

from claude_agent_py.formatting import text_length, truncate

FAMILY = "👩\u200d👩\u200d👧"
SPLITTABLE = ["😀", "e\u0301", FAMILY, "🇩🇪", "👍🏽", "\r\n"]


def take(text: str, limit: int) -> str:
    """Return the beginning of a text, without a note."""
    return truncate(text, limit, note=lambda kept, total: "")


texts = st.lists(st.sampled_from(SPLITTABLE) | st.text(st.characters(codec="utf-8"), max_size=4)).map("".join)


def test_length_is_counted_as_the_cli_counts() -> None:
    assert text_length("abc") == 3
    assert text_length("ä😀") == 3
    assert text_length("\ud800") == 1


def test_short_text_stays() -> None:
    assert truncate("abc", 3) == "abc"


def test_long_text_is_cut_with_a_note_of_the_total() -> None:
    cut = truncate("x" * 200_000, 1000)

    assert 990 < len(cut) <= 1000
    assert cut.endswith("\n\n[truncated: the first 948 of 200,000 characters]")


def test_a_note_of_your_own() -> None:
    assert truncate("x" * 30, 20, note=lambda kept, total: f"[{kept}/{total}]") == "x" * 13 + "[13/30]"


def test_a_limit_without_room_for_a_note_cuts_all_the_same() -> None:
    assert truncate("x" * 100, 5) == "xxxxx"
    assert truncate("x" * 100, 0) == ""


@pytest.mark.parametrize("character", SPLITTABLE)
def test_a_character_is_never_split(character: str) -> None:
    for limit in range(text_length(character)):
        assert take("a" + character, 1 + limit) == "a"
    assert take("a" + character, 1 + text_length(character)) == "a" + character


def test_flags_in_a_row_are_cut_between_two_flags() -> None:
    assert take("🇩🇪🇫🇷🇮🇹", 11) == "🇩🇪🇫🇷"


@given(texts, st.integers(0, 50))
def test_a_beginning_that_fits(text: str, limit: int) -> None:
    beginning = take(text, limit)

    assert text.startswith(beginning)
    assert text_length(beginning) <= limit


@given(texts, st.integers(0, 120))
def test_cut_text_fits(text: str, limit: int) -> None:
    assert text_length(truncate(text * 20, limit)) <= limit
