"""Control traffic that is late, double, refused, malformed or unknown, both ways."""

import time
from typing import Any

import anyio
import pytest
from peers import MakeClient, start_in_memory
from pydantic import BaseModel

from claude_agent_py import (
    AgentDefinition,
    Allow,
    CLIExitError,
    ConnectionClosedError,
    ControlRejectedError,
    ControlTimeoutError,
    MalformedFrame,
    OptionsError,
    RemoteProtocolError,
    RunTimeoutError,
    TextBlock,
    Timeouts,
    UserMessage,
    tool,
)
from claude_agent_py.errors import LocalProtocolError
from claude_agent_py.messages import InitMessage, UnknownMessage, UserContent
from claude_agent_py.testing import FakeCLI, Gate, frames, steps
from claude_agent_py.tools import ToolServer

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
def start() -> MakeClient:
    """Return a function that makes clients of fakes in memory. Requests and replies cannot know what carries them."""
    return start_in_memory


def reply_to(request_id: str) -> dict[str, Any]:
    return {"type": "control_response", "response": {"request_id": request_id}}


async def answer_to(start: MakeClient, request: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Have the peer ask something; give the answer that it gets. The session must go on after it."""
    request_id = request["request_id"]
    fake = FakeCLI(request, steps.wait_for_reply(request_id), steps.turn("still here"))
    with anyio.fail_after(60):
        async with start(fake, **options) as client:
            [frame] = await fake.wait_received(reply_to(request_id))
            assert (await client.query("hi")).text == "still here"
    answer: dict[str, Any] = frame["response"]
    return answer


# What the CLI asks -----------------------------------------------------------------------------------------------


async def test_an_unknown_request_is_refused_as_such(start: MakeClient) -> None:
    answer = await answer_to(start, frames.control_request("r1", "read_minds", depth=3))
    assert (answer["subtype"], answer["error_code"]) == ("error", "unsupported_request")
    assert "read_minds" in answer["error"]


async def test_a_request_that_only_we_may_make_is_refused(start: MakeClient) -> None:
    answer = await answer_to(start, frames.control_request("r1", "set_model", model="opus"))
    assert (answer["subtype"], answer["error_code"]) == ("error", "unsupported_request")


@pytest.mark.parametrize(
    "request_body",
    [
        {"subtype": "can_use_tool", "tool_name": 5, "input": []},
        {"subtype": "hook_callback"},
        {"subtype": "mcp_message", "server_name": "x"},
        {"subtype": 5},
        {},
        None,
        "can_use_tool",
    ],
)
async def test_a_malformed_request_is_refused_and_reported(start: MakeClient, request_body: Any) -> None:
    request = {"type": "control_request", "request_id": "r1", "request": request_body}
    fake = FakeCLI(request, steps.wait_for_reply("r1"), steps.turn("still here"))
    with anyio.fail_after(60):
        async with start(fake) as client:
            [frame] = await fake.wait_received(reply_to("r1"))
            assert (await client.query("hi")).text == "still here"
            event = await anext(client.messages())
    answer = frame["response"]
    assert answer["subtype"] == "error" or answer["response"].get("behavior") == "deny" or answer["response"] == {}
    assert isinstance(event, MalformedFrame)


async def test_a_request_without_an_id_is_only_reported(start: MakeClient) -> None:
    fake = FakeCLI({"type": "control_request", "request": {"subtype": "can_use_tool"}}, steps.turn("still here"))
    with anyio.fail_after(60):
        async with start(fake) as client:
            assert (await client.query("hi")).text == "still here"
            assert isinstance(await anext(client.messages()), MalformedFrame)


async def test_questions_about_what_was_never_given_are_answered(start: MakeClient) -> None:
    """A hook, a server and a callback that nobody registered: the CLI must not wait for ever."""
    hook = frames.hook_callback("r1", "hook_99", {"hook_event_name": "Stop", "stop_hook_active": False})
    assert (await answer_to(start, hook)).get("response", {}) == {}
    server = await answer_to(start, frames.mcp_message("r2", "nobody", "tools/list"))
    assert "nobody" in str(server)


async def test_a_permission_prompt_that_nobody_answers_is_denied(start: MakeClient) -> None:
    answer = await answer_to(start, frames.can_use_tool("r1"))
    assert answer["response"]["behavior"] == "deny"


async def test_a_request_that_comes_twice_is_answered_once(start: MakeClient) -> None:
    asked: list[str] = []

    async def can_use_tool(request: Any, context: Any) -> Allow:
        asked.append(context.request_id)
        return Allow()

    ask = frames.can_use_tool("r1")
    fake = FakeCLI(ask, ask, steps.wait_for_reply("r1"), ask, steps.turn("still here"))
    with anyio.fail_after(60):
        async with start(fake, can_use_tool=can_use_tool) as client:
            await client.query("hi")
    assert asked == ["r1"]
    assert len(fake.received_like(reply_to("r1"))) == 1


async def test_a_request_that_is_taken_back_gets_no_answer(start: MakeClient) -> None:
    begun, cancelled = anyio.Event(), anyio.Event()
    gate = Gate()

    async def can_use_tool(request: Any, context: Any) -> Allow:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            assert context.cancellation
            cancelled.set()
        return Allow()

    fake = FakeCLI(frames.can_use_tool("r1"), steps.wait_gate(gate), frames.control_cancel("r1"), steps.turn("ok"))
    with anyio.fail_after(60):
        async with start(fake, can_use_tool=can_use_tool) as client:
            await begun.wait()
            gate.open()
            await cancelled.wait()
            await client.query("hi")
            assert client.handler_errors == []
    assert fake.received_like(reply_to("r1")) == []


async def test_taking_back_what_was_never_asked_does_no_harm(start: MakeClient) -> None:
    with anyio.fail_after(60):
        async with start(FakeCLI(frames.control_cancel("nobody"), steps.turn("ok"))) as client:
            assert (await client.query("hi")).text == "ok"


async def test_taking_back_what_is_refused_in_the_same_breath_does_no_harm(start: MakeClient) -> None:
    both = frames.encode(frames.control_request("r1", "something_new"), frames.control_cancel("r1"))
    fake = FakeCLI(both, steps.turn("ok"))
    with anyio.fail_after(60):
        async with start(fake) as client:
            assert (await client.query("hi")).text == "ok"
    assert len(fake.received_like(reply_to("r1"))) <= 1


# What we ask -----------------------------------------------------------------------------------------------------


async def test_a_refusal_carries_the_words_and_the_code(start: MakeClient) -> None:
    fake = FakeCLI(answers={"set_model": {"error": "no such model", "error_code": "bad_model"}})
    with anyio.fail_after(60):
        async with start(fake) as client:
            with pytest.raises(ControlRejectedError) as caught:
                await client.set_model("gpt")
    error = caught.value
    assert (error.error, error.error_code, error.subtype) == ("no such model", "bad_model", "set_model")


async def test_an_answer_that_came_while_the_loop_was_held_up_is_in_time(start_process: MakeClient) -> None:
    fake = FakeCLI(answers={"get_settings": {"response": {"in": "time"}}})
    answers: list[object] = []

    async def ask() -> None:
        answers.append(await client.control("get_settings", timeout=0.1))

    with anyio.fail_after(60):
        async with start_process(fake) as client:
            for number in range(8):
                async with anyio.create_task_group() as group:
                    group.start_soon(ask)
                    group.start_soon(client.control, "after_it")
                    await anyio.wait_all_tasks_blocked()
                    ends = time.monotonic() + 0.2
                    while time.monotonic() < ends or len(fake.requests("after_it")) <= number:
                        time.sleep(0.01)
    assert answers == [{"in": "time"}] * 8


async def test_a_request_without_an_answer_times_out_and_a_late_answer_does_no_harm(start: MakeClient) -> None:
    gate = Gate()
    fake = FakeCLI(
        steps.wait_for_request("get_settings"), steps.wait_gate(gate), steps.answer({"late": True}), steps.turn("ok")
    )
    with anyio.fail_after(60):
        async with start(fake, timeouts=Timeouts(control=0.1)) as client:
            with pytest.raises(ControlTimeoutError) as caught:
                await client.control("get_settings")
            gate.open()
            assert (await client.query("hi")).text == "ok"
            assert await client.control("other", timeout=60) == {}
    assert (caught.value.subtype, caught.value.timeout) == ("get_settings", 0.1)


async def test_an_answer_that_comes_twice_goes_to_the_first_only(start: MakeClient) -> None:
    fake = FakeCLI(
        steps.wait_for_request("one"),
        steps.answer({"n": 1}),
        steps.answer({"n": 2}),
        steps.answer(error="no"),
        steps.wait_for_request("two"),
        steps.answer({"n": 3}),
    )
    with anyio.fail_after(60):
        async with start(fake) as client:
            assert await client.control("one") == {"n": 1}
            assert await client.control("two") == {"n": 3}


async def test_unexpected_replies_are_ignored(start: MakeClient) -> None:
    stray = {"type": "control_response", "response": {"subtype": "success", "request_id": "nobody"}}
    with anyio.fail_after(60):
        async with start(FakeCLI(stray, stray, steps.turn("ok"))) as client:
            assert (await client.query("hi")).text == "ok"


async def test_answers_in_any_order_find_their_requests(start: MakeClient) -> None:
    def answer(number: int) -> dict[str, Any]:
        response = {"subtype": "success", "request_id": f"req_{number}", "response": {"n": number}}
        return {"type": "control_response", "response": response}

    answers = [answer(number) for number in (4, 2, 3)]  # the first request is `initialize`
    fake = FakeCLI(*[steps.wait_for_request(name) for name in "abc"], *answers)
    got: dict[str, Any] = {}
    with anyio.fail_after(60):
        async with start(fake) as client:

            async def ask(name: str) -> None:
                got[name] = await client.control(name)

            async with anyio.create_task_group() as group:
                for name in "abc":
                    group.start_soon(ask, name)
                    await fake.wait_received({"request": {"subtype": name}})
    assert got == {"a": {"n": 2}, "b": {"n": 3}, "c": {"n": 4}}


@pytest.mark.parametrize("broken", [{"subtype": "success", "response": 5}, {"subtype": "what"}, {}])
async def test_a_malformed_answer_is_an_error_at_once(start: MakeClient, broken: dict[str, Any]) -> None:
    response = {"request_id": frames.heard_field("request_id"), **broken}
    fake = FakeCLI(steps.wait_for_request("x"), {"type": "control_response", "response": response}, steps.turn("ok"))
    with anyio.fail_after(60):
        async with start(fake) as client:
            with pytest.raises(ControlRejectedError, match="malformed"):
                await client.control("x")
            assert (await client.query("hi")).text == "ok"


async def test_cancelling_who_waits_leaves_the_session_usable(start: MakeClient) -> None:
    gate = Gate()
    fake = FakeCLI(steps.wait_for_request("slow"), steps.wait_gate(gate), steps.answer({}), steps.turn("ok"))
    with anyio.fail_after(60):
        async with start(fake) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.control, "slow")
                await fake.wait_received({"request": {"subtype": "slow"}})
                group.cancel_scope.cancel()
            gate.open()
            assert (await client.query("hi")).text == "ok"


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", float("nan")])
async def test_a_value_that_is_no_json_is_not_sent(start: MakeClient, value: Any) -> None:
    fake = FakeCLI(steps.turn("ok"))
    with anyio.fail_after(60):
        async with start(fake) as client:
            with pytest.raises(OptionsError):
                await client.control("x", value=value)
            assert (await client.query("hi")).text == "ok"
    assert fake.requests("x") == []


async def test_a_request_to_exit_that_was_not_sent_explains_no_exit(start: MakeClient) -> None:
    with anyio.fail_after(60):
        async with start(FakeCLI(steps.wait_for_prompt(), steps.exit(0))) as client:
            with pytest.raises(OptionsError):
                await client.control("end_session", value=object())
            with pytest.raises(CLIExitError):
                await client.query("hi")
            with pytest.raises(CLIExitError):
                async for _ in client.messages():
                    pass


async def test_a_reply_to_an_interrupt_that_makes_no_sense_is_reported_as_such(start: MakeClient) -> None:
    fake = FakeCLI(steps.wait_for_prompt(), frames.init(), answers={"interrupt": {"response": {"still_queued": 5}}})
    with anyio.fail_after(60):
        async with start(fake) as client:
            run = client.query("hi")
            await anext(run)
            for interrupt in (run.interrupt, client.interrupt):
                with pytest.raises(RemoteProtocolError, match="still_queued") as caught:
                    await interrupt()
                assert caught.value.raw == {"still_queued": 5}


@pytest.mark.parametrize(
    ("option", "arguments"),
    [
        ("timeout", {"timeout": "soon"}),
        ("timeout", {"timeout": -1}),
        ("timeout", {"timeout": float("nan")}),
        ("subtype", {"subtype": "end_session"}),
    ],
)
async def test_wrong_arguments_of_a_request_send_nothing(start: MakeClient, option: str, arguments: Any) -> None:
    fake = FakeCLI()
    with anyio.fail_after(60):
        async with start(fake) as client:
            with pytest.raises(OptionsError) as caught:
                await client.control("x", **arguments)
            assert await client.control("y") == {}
    assert caught.value.option == option
    assert fake.requests("x") == fake.requests("end_session") == []


async def test_a_prompt_that_is_no_json_is_not_sent(start: MakeClient) -> None:
    fake = FakeCLI(steps.turn("ok"))
    with anyio.fail_after(60):
        async with start(fake) as client:
            with pytest.raises(OptionsError, match="prompt"):
                client.query([TextBlock(text="x", cache_control={"a": object()})])
            content = UserContent(role="user", content="hi")
            with pytest.raises(OptionsError, match="prompt: must be JSON"):
                client.query(UserMessage(message=content, tool_use_result={"a": float("nan")}))
            assert (await client.query("hi")).text == "ok"


async def test_an_answer_that_is_no_json_is_an_error_on_the_wire(start: MakeClient) -> None:
    async def can_use_tool(request: Any, context: Any) -> Allow:
        return Allow(updated_input={"command": float("nan")})

    answer = await answer_to(start, frames.can_use_tool("r1"), can_use_tool=can_use_tool)
    assert answer["subtype"] == "error" or answer["response"]["behavior"] == "deny"


async def test_hundreds_of_requests_at_once(start: MakeClient) -> None:
    fake = FakeCLI()
    with anyio.fail_after(60):
        async with start(fake) as client:

            async def ask(number: int) -> None:
                await client.control("x", n=number)

            async with anyio.create_task_group() as group:
                for number in range(300):
                    group.start_soon(ask, number)
    assert sorted(request["n"] for request in fake.requests("x")) == list(range(300))


async def test_a_run_that_takes_too_long_is_stopped_before_the_next_prompt_is_sent(start: MakeClient) -> None:
    """An interrupt names no prompt: one that came later would stop the next one."""
    fake = FakeCLI(
        steps.wait_for_prompt("slow"),
        frames.lifecycle("started"),
        frames.init(),
        steps.turn("quick", prompt="next"),
        answers={"cancel_async_message": None, "interrupt": None},
    )
    with anyio.fail_after(60):
        async with start(fake) as client:
            with pytest.raises(RunTimeoutError):
                await client.query("slow", timeout=0.1)
            assert (await client.query("next")).text == "quick"
    sent = [frame.get("request", frame).get("subtype", frame["type"]) for frame in fake.received]
    assert sent == ["initialize", "user", "cancel_async_message", "interrupt", "user"]


async def test_a_run_without_a_message_has_an_empty_result(start: MakeClient) -> None:
    with anyio.fail_after(60):
        async with start(FakeCLI()) as client:
            with pytest.raises(RunTimeoutError) as caught:
                await client.query("hi", timeout=0.1)
    result = caught.value.result
    assert result is not None
    assert (result.terminal_reason, result.budget_left_usd, result.session_id, result.text) == (None, None, "", "")


async def test_a_run_that_takes_too_long_after_its_turn_may_lack_the_structured_output(start: MakeClient) -> None:
    class Answer(BaseModel):
        city: str

    fake = FakeCLI(steps.turn([frames.task_started("b1", is_backgrounded=True), frames.result("It is Paris.")]))
    with anyio.fail_after(60):
        async with start(fake, output_type=Answer) as client:
            with pytest.raises(RunTimeoutError) as caught:
                await client.query("hi", until="idle", timeout=0.1)
    result = caught.value.result
    assert result is not None
    assert (result.text, result.output) == ("It is Paris.", None)


async def test_the_session_of_a_run_that_was_cut_off_after_a_message_without_one(start: MakeClient) -> None:
    fake = FakeCLI(
        steps.wait_for_prompt(),
        frames.of_prompt(frames.init(session_id="s1")),
        {"type": "of_a_later_version"},
        steps.exit(1),
    )
    with anyio.fail_after(60):
        async with start(fake) as client:
            with pytest.raises(CLIExitError) as caught:
                await client.query("hi")
    assert caught.value.result is not None
    assert [type(message) for message in caught.value.result.messages] == [InitMessage, UnknownMessage]
    assert caught.value.result.session_id == "s1"


async def test_a_cli_that_refuses_to_exit_takes_more_prompts(start: MakeClient) -> None:
    refusal = [steps.wait_for_request("end_session"), steps.answer(error="not now")]
    with anyio.fail_after(60):
        async with start(FakeCLI(*refusal, steps.turn("still here"))) as client:
            with pytest.raises(ControlRejectedError, match="not now"):
                await client.request_exit()
            assert (await client.query("hi")).text == "still here"


async def test_settings_that_take_the_agent_tool_from_a_delegation_guide_are_warned_about(
    start: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    fake = FakeCLI(
        steps.turn(
            [frames.init() | {"tools": ["Read"], "session_id": "other"}, frames.assistant("ok"), frames.result("ok")]
        )
    )
    agents = {"helper": AgentDefinition(description="Helps.", prompt="Help.")}
    with anyio.fail_after(60):
        async with start(fake, agents=agents, delegation_guide=True) as client:
            assert (await client.query("hi")).text == "ok"
    assert "delegation_guide tells the model to use the tool Agent" in caplog.text


@pytest.mark.parametrize("name", ["tools", "tools__mine"])
async def test_a_name_that_the_custom_tools_have_is_no_name_of_a_server(name: str, start: MakeClient) -> None:
    @tool
    def order() -> str:
        """Order."""
        return "ordered"

    with anyio.fail_after(60):
        with pytest.raises(OptionsError, match="is taken by custom_tools"):
            async with start(FakeCLI(), custom_tools=[order], mcp_servers={name: ToolServer("mine", [order])}):
                raise AssertionError("it starts")


async def test_a_subagent_shows_what_it_is_and_can_be_followed(start: MakeClient) -> None:
    said = frames.assistant("I look.", agent_id="a1", parent_tool_use_id="toolu_a1")
    started = frames.task_started("a1", "look", subagent_type="Explore")
    told = [frames.init(), started, said, *frames.task_end("a1"), frames.result("done")]
    with anyio.fail_after(60):
        async with start(FakeCLI(steps.turn(told))) as client:
            [agent] = (await client.query("hi")).agents
            assert repr(agent) == "<Subagent a1 Explore completed 'look'>"
            assert [message.text async for message in agent.follow()] == ["I look."]


async def test_what_the_options_do_not_give_is_refused_by_name(start: MakeClient) -> None:
    fake = FakeCLI(steps.turn("ok"), steps.wait_for_prompt(), steps.exit(1))
    with anyio.fail_after(60):
        async with start(fake) as client:
            with pytest.raises(OptionsError, match="interactions"):
                _ = client.interactions
            await client.sync_store()  # there is none
            with pytest.raises(LocalProtocolError, match="ended unexpectedly"):
                await client.reopen()
            await client.query("hi")
            with pytest.raises(CLIExitError):
                await client.query("hi")
            with pytest.raises(LocalProtocolError, match="not on this machine's disk"):
                await client.reopen()
        with pytest.raises(ConnectionClosedError):
            await client.reopen()
