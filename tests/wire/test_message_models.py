"""What the models of the conversation offer beyond their fields."""

import copy
import json
import pickle
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from recordings_loader import all_frames, as_line, frames, lines
from wire_values import as_json, read_frame

from claude_agent_py import (
    AssistantMessage,
    InitMessage,
    ResultMessage,
    StreamEventMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    UserMessage,
)
from claude_agent_py.control import (
    GetSettingsReply,
    ListPermissionRulesReply,
    MCPOAuthCallbackURLRequest,
    MCPServerStatus,
    MCPSetServersRequest,
    PermissionRulesState,
    SettingsOfSource,
)
from claude_agent_py.messages import (
    AssistantContent,
    ContentBlock,
    ContentBlockDeltaEvent,
    DocumentBlock,
    ImageBlock,
    MCPToolResultBlock,
    MediaSource,
    MessageOrigin,
    TextDelta,
    Usage,
    UserContent,
    WebFetchToolResultBlock,
    WebSearchToolResultBlock,
)
from claude_agent_py.wire import decode


def assistant(*blocks: Any, **fields: Any) -> AssistantMessage:
    return AssistantMessage(message=AssistantContent(role="assistant", content=list(blocks)), **fields)


def result(**fields: Any) -> ResultMessage:
    return ResultMessage(**{"subtype": "success", **fields})


# User ------------------------------------------------------------------------------------------------------------


def test_a_prompt_is_made_and_sent() -> None:
    message = UserMessage(message=UserContent(role="user", content="hi"), uuid="u")
    assert as_json(message) == {"type": "user", "message": {"role": "user", "content": "hi"}, "uuid": "u"}
    assert (message.text, message.content, message.tool_results, message.is_subagent) == ("hi", "hi", [], False)


def test_a_prompt_of_blocks_is_made_and_sent() -> None:
    content: list[ContentBlock] = [TextBlock(text="what is this?"), ImageBlock.from_bytes(b"\x00\x01", "image/png")]
    message = UserMessage(message=UserContent(role="user", content=content), priority="next", should_query=False)
    assert as_json(message) == {
        "type": "user",
        "message": {
            "role": "user",
            "content": [
                {"type": "text", "text": "what is this?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAE="}},
            ],
        },
        "priority": "next",
        "shouldQuery": False,
    }


def test_a_document_is_made_of_bytes() -> None:
    block = DocumentBlock.from_bytes(b"%PDF", title="Plan")
    assert block.source == MediaSource(type="base64", media_type="application/pdf", data="JVBERg==")
    assert block.title == "Plan"
    assert "title" not in as_json(DocumentBlock.from_bytes(b"%PDF"))


def test_results_of_tools_are_found() -> None:
    image = ImageBlock(source=MediaSource(type="url", url="https://example.com/a.png"))
    content: list[ContentBlock] = [TextBlock(text="a"), image, TextBlock(text="b")]
    block = ToolResultBlock(tool_use_id="t", content=content)
    message = UserMessage(message=UserContent(role="user", content=[block]))
    assert message.tool_results == [block]
    assert message.text == ""
    assert block.text == "a\nb"
    assert ToolResultBlock(tool_use_id="t", content="plain").text == "plain"
    assert ToolResultBlock(tool_use_id="t").text == ""


def test_a_subagent_is_distinguished_from_the_main_conversation() -> None:
    content = UserContent(role="user", content="hi")
    assert UserMessage(message=content, agent_id="a1").is_subagent
    assert UserMessage(message=content, parent_tool_use_id="t").is_subagent
    assert not UserMessage(message=content, parent_tool_use_id=None).is_subagent
    assert assistant(agent_id="a1").is_subagent
    assert not assistant().is_subagent


# Assistant -------------------------------------------------------------------------------------------------------


def test_text_and_tool_calls_of_an_answer_are_found() -> None:
    call = ToolUseBlock(id="t", name="Bash", input={"command": "ls"})
    message = assistant(ThinkingBlock(thinking="hm"), TextBlock(text="a"), call, TextBlock(text="b"))
    assert message.text == "a\nb"
    assert message.tool_uses == [call]
    assert message.content == message.message.content


def test_a_built_in_tool_has_typed_input() -> None:
    typed = ToolUseBlock(id="t", name="Bash", input={"command": "ls", "timeout": 5}).typed_input()
    assert not isinstance(typed, dict)
    assert getattr(typed, "command", None) == "ls"


def test_the_input_of_another_tool_is_a_dict() -> None:
    assert ToolUseBlock(id="t", name="mcp__x__y", input={"a": 1}).typed_input() == {"a": 1}


def test_a_built_in_tool_has_typed_results() -> None:
    frame = next(
        decoded
        for line in lines("tasks/s02_bg_bash_completed_failed_stopped")
        if isinstance(decoded := decode(line), UserMessage) and isinstance(decoded.tool_use_result, dict)
    )
    typed = frame.typed_result("Bash")
    assert not isinstance(typed, dict)
    assert frame.typed_result("mcp__x__y") == frame.tool_use_result


def test_the_rate_limit_behind_a_failure_is_typed() -> None:
    messages = [decode(line) for line in lines("control/05_ratelimit_rejected")]
    (failed,) = [message for message in messages if isinstance(message, AssistantMessage) and message.error]
    assert failed.rate_limit_info is not None
    assert failed.rate_limit_info.status == "rejected"
    assert failed.rate_limit_info.resets_at is not None


@pytest.mark.parametrize("params", [None, {}, {"rate_limit_info": None}, {"rate_limit_info": {"resetsAt": "x"}}])
def test_a_failure_without_a_rate_limit_has_none(params: Any) -> None:
    assert assistant(api_error_params=params).rate_limit_info is None


# Result ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "uuids"),
    [
        ({}, ()),
        ({"user_message_uuid": "a"}, ("a",)),
        ({"user_message_uuids": ["a", "b"]}, ("a", "b")),
        ({"user_message_uuid": "b", "user_message_uuids": ["a", "b"]}, ("a", "b")),
        ({"user_message_uuid": "c", "user_message_uuids": ["a", "b"]}, ("a", "b", "c")),
        ({"user_message_uuid": None, "user_message_uuids": None}, ()),
    ],
)
def test_the_prompts_that_a_result_answers(fields: dict[str, Any], uuids: tuple[str, ...]) -> None:
    assert result(**fields).prompt_uuids == uuids
    assert assistant(**fields).prompt_uuids == uuids


def test_an_event_from_outside_is_a_known_origin() -> None:
    origin = {"kind": "task-notification", "subkind": "external-event"}
    message = read_frame({"type": "result", "subtype": "success", "is_error": False, "origin": origin})
    assert message.origin.subkind == "external-event"


def test_a_turn_that_nobody_asked_for_is_injected() -> None:
    assert not result().is_injected
    assert not result(origin=MessageOrigin(kind="human")).is_injected
    assert result(origin=MessageOrigin(kind="task-notification", run_id="r")).is_injected
    assert result(origin=MessageOrigin(kind="of a newer CLI")).is_injected


def test_an_api_failure_is_no_success_though_its_subtype_says_so() -> None:
    failed = [decode(line) for line in lines("control/05_err_400")][-1]
    assert isinstance(failed, ResultMessage)
    assert (failed.subtype, failed.is_error, failed.is_success) == ("success", True, False)
    assert failed.api_error_status == 400
    assert failed.error_text == failed.result != ""


def test_the_words_of_a_failure() -> None:
    assert result(result="done").error_text == ""
    assert result(is_error=True, result="API Error").error_text == "API Error"
    assert result(is_error=True, errors=["a", "b"]).error_text == "a\nb"
    assert result(is_error=True).error_text == ""
    assert result().text == ""


@pytest.mark.parametrize("output", ["null", "{}", "[1]"])
def test_a_structured_output_may_be_null(output: str) -> None:
    frame = decode(f'{{"type":"result","subtype":"success","structured_output":{output}}}')
    assert isinstance(frame, ResultMessage)
    assert frame.has_structured_output
    assert not result().has_structured_output


def test_usage_adds_up() -> None:
    usage = Usage(input_tokens=1, output_tokens=2, cache_read_input_tokens=3, cache_creation_input_tokens=4)
    assert usage.total_tokens == 10
    assert Usage().total_tokens == 0


def test_an_init_names_the_prompts_of_its_turn() -> None:
    assert InitMessage(user_message_uuids=["a"]).prompt_uuids == ("a",)


# Stream ----------------------------------------------------------------------------------------------------------


def test_the_text_of_a_delta() -> None:
    event = ContentBlockDeltaEvent(index=0, delta=TextDelta(text="a"))
    assert StreamEventMessage(event=event).text_delta == "a"


def test_abandoned_blocks_are_named() -> None:
    messages = [decode(line) for line in lines("control/05_sse_truncated_mid_gap_partialmsgs")]
    (void,) = [m for m in messages if isinstance(m, StreamEventMessage) and m.abandoned_blocks is not None]
    assert void.abandoned_blocks is not None
    assert void.event.type == "message_stop"
    started = [m.api_message_id for m in messages if isinstance(m, StreamEventMessage)]
    assert void.abandoned_blocks.api_message_id == started[0] != started[-1]


# Blocks of tools that the API runs --------------------------------------------------------------------------------


def block_of(raw: dict[str, Any]) -> Any:
    frame = decode(json.dumps({"type": "assistant", "message": {"role": "assistant", "content": [raw]}}))
    assert isinstance(frame, AssistantMessage), frame
    assert as_json(frame)["message"]["content"] == [raw]
    return frame.content[0]


def test_a_web_search_has_hits_or_an_error() -> None:
    hit = {"type": "web_search_result", "url": "https://example.com", "title": "A", "encrypted_content": "e"}
    found = block_of({"type": "web_search_tool_result", "tool_use_id": "t", "content": [hit]})
    assert isinstance(found, WebSearchToolResultBlock)
    assert isinstance(found.content, list)
    assert found.content[0].url == "https://example.com"
    error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    failed = block_of({"type": "web_search_tool_result", "tool_use_id": "t", "content": error})
    assert failed.content.error_code == "max_uses_exceeded"


def test_a_web_fetch_has_what_came() -> None:
    for content in (
        {"type": "web_fetch_result", "url": "https://example.com", "content": {"type": "document"}},
        {"type": "web_fetch_tool_result_error", "error_code": "url_not_accessible"},
        {"type": "new"},
    ):
        fetched = block_of({"type": "web_fetch_tool_result", "tool_use_id": "t", "content": content})
        assert isinstance(fetched, WebFetchToolResultBlock)
        assert fetched.content == content


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "redacted_thinking", "data": "x"},
        {"type": "server_tool_use", "id": "t", "name": "web_search", "input": {"query": "a"}},
        {"type": "mcp_tool_listing", "mcp_server_name": "s", "tools": [{"name": "a", "input_schema": {}}]},
        {"type": "mcp_tool_use", "id": "t", "name": "a", "server_name": "s", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "t", "is_error": False, "content": [{"type": "text", "text": "a"}]},
        {"type": "search_result", "source": "s", "title": "T", "content": [{"type": "text", "text": "a"}]},
        {"type": "container_upload", "file_id": "f"},
        {"type": "compaction", "content": None},
        {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}},
        {"type": "tool_reference", "tool_name": "a"},
        {
            "type": "bash_code_execution_tool_result",
            "tool_use_id": "t",
            "content": {
                "type": "bash_code_execution_result",
                "stdout": "a",
                "stderr": "",
                "return_code": 0,
                "content": [{"type": "bash_code_execution_output", "file_id": "f"}],
            },
        },
        {
            "type": "code_execution_tool_result",
            "tool_use_id": "t",
            "content": {"type": "encrypted_code_execution_result", "encrypted_stdout": "e"},
        },
        {
            "type": "text_editor_code_execution_tool_result",
            "tool_use_id": "t",
            "content": {"type": "text_editor_code_execution_view_result", "content": "a", "num_lines": 1},
        },
        {
            "type": "tool_search_tool_result",
            "tool_use_id": "t",
            "content": {"type": "tool_search_tool_search_result", "tool_references": []},
        },
        {
            "type": "advisor_tool_result",
            "tool_use_id": "t",
            "content": {"type": "advisor_tool_result_error", "error_code": "e"},
        },
    ],
    ids=lambda raw: raw["type"],
)
def test_every_other_block_has_a_model(raw: dict[str, Any]) -> None:
    assert not isinstance(block_of(raw), UnknownBlock)


# Control ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        MCPServerStatus(name="s", status="connected", config={"headers": {"Authorization": "hunter2"}}),
        MCPSetServersRequest(servers={"s": {"type": "http", "headers": {"Authorization": "hunter2"}}}),
        decode('{"type":"control_request","request_id":"r","request":{"subtype":"initialize","agents":"hunter2"}}'),
        MCPOAuthCallbackURLRequest(server_name="s", callback_url="http://localhost/?code=hunter2"),
        GetSettingsReply(effective={"env": {"K": "hunter2"}}),
        GetSettingsReply(sources=[SettingsOfSource(source="userSettings", settings={"env": {"K": "hunter2"}})]),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_repr_shows_no_secrets(model: Any) -> None:
    assert "hunter2" not in repr(model)
    assert "hunter2" not in str(model)
    assert "hunter2" in json.dumps(as_json(model))


# All of them -----------------------------------------------------------------------------------------------------


def test_a_message_is_a_value() -> None:
    message = assistant(TextBlock(text="a"))
    with pytest.raises(AttributeError, match="immutable"):
        message.uuid = "other"  # type: ignore[misc]
    assert message == assistant(TextBlock(text="a"))
    assert message != assistant(TextBlock(text="b"))


def test_a_repr_shows_what_is_there() -> None:
    assert repr(TextBlock(text="a")) == "TextBlock(text='a')"
    frame = decode('{"type":"assistant","message":{"role":"assistant","content":[]},"new":1}')
    assert repr(frame) == str(frame) == "AssistantMessage(message=AssistantContent(role='assistant', content=[]))"


def test_every_recorded_frame_can_be_pickled_copied_and_shown() -> None:
    examples = {(frame["type"], frame.get("subtype")): frame for _, _, frame in all_frames()}
    for frame in examples.values():
        message = decode(as_line(frame))
        assert pickle.loads(pickle.dumps(message)) == message
        assert copy.deepcopy(message) == message
        assert type(message).__name__ in repr(message)


def test_every_message_has_a_uuid_and_a_session() -> None:
    for frame in frames("tasks/s04_nested_bg"):
        message = decode(as_line(frame))
        if not frame["type"].startswith("control_"):
            assert (message.uuid, message.session_id) == (frame["uuid"], frame["session_id"])  # type: ignore[union-attr]


@pytest.mark.parametrize("block", [ToolResultBlock, MCPToolResultBlock])
@pytest.mark.parametrize("given", [{}, {"is_error": None}, {"is_error": False}])
def test_is_error_is_left_out_unless_it_is_true(block: Any, given: dict[str, Any]) -> None:
    made = block(tool_use_id="t", **given)
    content = [{"tool_use_id": "t", **given, "type": block.type}]
    (read,) = read_frame({"type": "user", "message": {"role": "user", "content": content}}).content

    assert made.is_error is read.is_error is False
    assert as_json(made) == as_json(read) == {"type": block.type, "tool_use_id": "t"}
    assert as_json(block(tool_use_id="t", is_error=True))["is_error"] is True


class Kept(BaseModel):
    """A model of a program, with models of the wire as its fields."""

    block: TextBlock
    message: UserMessage


def test_a_model_of_the_wire_is_a_field_of_a_pydantic_model() -> None:
    message = {"type": "user", "message": {"role": "user", "content": "hi"}, "uuid": "u", "new": 1}
    kept = Kept.model_validate({"block": {"type": "text", "text": "a"}, "message": message})
    assert (kept.block.text, kept.message.raw) == ("a", message)
    assert kept.model_dump(mode="json") == {"block": {"type": "text", "text": "a"}, "message": message}
    assert Kept(block=kept.block, message=kept.message) == kept
    with pytest.raises(ValidationError, match="Expected `str`, got `int`"):
        Kept.model_validate({"block": {"type": "text", "text": 5}, "message": message})


def test_an_object_as_received_keeps_its_undeclared_fields_in_a_made_one() -> None:
    state = {"rules": [], "new": {"a": 1}}
    received = TypeAdapter(PermissionRulesState).validate_python(state)
    assert ListPermissionRulesReply(state=received).raw == {"state": state}


def test_equal_messages_are_one_in_a_set() -> None:
    line = '{"type":"user","message":{"role":"user","content":"hi"},"uuid":"u"}'
    assert len({decode(line), decode(line)}) == 1
