"""Replies of another shape: what can be read is read, and only what makes no sense is an error."""

import copy
from typing import Any

import pytest
from hypothesis import given, strategies as st
from reply_models import REPLIES

from claude_agent_py._connection.control_bodies import read_reply
from claude_agent_py.control import ContextUsageReply, GetUsageReply, ListModelsReply, ReadFileReply, SetCwdReply
from claude_agent_py.errors import RemoteProtocolError
from claude_agent_py.wire import JSONObject


def test_a_reply_that_fits_keeps_what_is_new() -> None:
    reply = read_reply(ReadFileReply, "read_file", {"contents": "x", "requested_path": "a"})
    assert reply.contents == "x"
    assert reply.raw == {"contents": "x", "requested_path": "a"}


def test_a_field_of_a_wrong_type_is_left_out() -> None:
    reply = read_reply(ReadFileReply, "read_file", {"contents": "x", "truncated": {"at": 3}, "lossy": True})
    assert (reply.contents, reply.truncated, reply.lossy) == ("x", None, True)


def test_an_entry_that_makes_no_sense_is_left_out_of_its_list() -> None:
    models = [{"value": "a"}, {"displayName": "nameless"}, 5, {"value": "b", "supportsEffort": "perhaps"}]
    reply = read_reply(ListModelsReply, "list_models", {"models": models})
    assert [model.value for model in reply.models] == ["a", "b"]
    assert reply.models[1].supports_effort is None


def test_deep_misfits_cost_only_themselves() -> None:
    payload = {
        "totalTokens": 7,
        "skills": {"tokens": 5, "skillFrontmatter": [{"name": "one"}, {"source": "x"}, {"name": "two", "tokens": []}]},
    }
    reply = read_reply(ContextUsageReply, "get_context_usage", payload)
    assert reply.total_tokens == 7
    assert reply.skills is not None
    assert [skill.name for skill in reply.skills.skill_frontmatter] == ["one", "two"]


def test_many_misfits_in_one_list_are_all_found() -> None:
    models: list[Any] = [{"value": str(i)} if i % 3 == 0 else i for i in range(40)]
    reply = read_reply(ListModelsReply, "list_models", {"models": models})
    assert [model.value for model in reply.models] == [str(i) for i in range(0, 40, 3)]


def test_the_payload_itself_is_left_alone() -> None:
    payload: JSONObject = {"contents": "x", "truncated": {"at": 3}}
    before = copy.deepcopy(payload)
    read_reply(ReadFileReply, "read_file", payload)
    assert payload == before


@pytest.mark.parametrize(
    ("model", "payload"),
    [
        (ReadFileReply, {}),
        (ReadFileReply, {"absPath": "/a"}),
        (ReadFileReply, {"contents": 5, "absPath": "/a"}),
        (GetUsageReply, {"session": []}),
        (SetCwdReply, {"status": {"code": 1}}),
        (ContextUsageReply, {"totalTokens": "many"}),
    ],
)
def test_a_reply_without_sense_is_an_error_that_has_it(model: Any, payload: JSONObject) -> None:
    with pytest.raises(RemoteProtocolError, match="get_it") as caught:
        read_reply(model, "get_it", payload)
    assert caught.value.raw == payload


def test_the_error_does_not_show_the_values() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        read_reply(GetUsageReply, "get_usage", {"session": "hunter2"})
    assert "hunter2" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "subtype", ["get_context_usage", "reload_plugins", "get_usage", "mcp_status", "list_permission_rules"]
)
@given(data=st.data())
def test_no_reply_raises_anything_else(subtype: str, data: st.DataObject) -> None:
    model = REPLIES[subtype]
    names = [name for name in model.__struct_encode_fields__ if name != "<source>"]
    payload = data.draw(st.dictionaries(st.sampled_from(names), JSON, max_size=5))
    try:
        reply: Any = read_reply(model, subtype, payload)
    except RemoteProtocolError as error:
        reply = error
    assert isinstance(reply, (model, RemoteProtocolError))
