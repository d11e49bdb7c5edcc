"""Types that are loaded when a value needs them: the same results and the same errors, and nothing before."""

import json
import subprocess
import sys
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from claude_agent_py.wire import ControlRequest, decode
from claude_agent_py.wire.bodies import KnownControlRequest
from claude_agent_py.wire.later import Later
from claude_agent_py.wire.requests import SetModelRequest


class Soon(BaseModel):
    """Has a field of a type that comes later."""

    body: Annotated[Any, Later("claude_agent_py.wire.bodies", "KnownControlRequest")]


def test_a_value_becomes_what_the_type_itself_makes_of_it() -> None:
    body = {"subtype": "set_model", "model": "m", "new": [None, 1.5]}
    expected = TypeAdapter(KnownControlRequest).validate_python(body)
    assert Soon(body=body).body == Soon(body=expected).body == expected
    assert type(expected) is SetModelRequest


@pytest.mark.parametrize("body", ['{"subtype":"set_model","model":3}', '{"subtype":"levitate"}', "5", "{}"])
def test_errors_are_those_of_the_type_with_the_place_in_front(body: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Soon.model_validate_json(f'{{"body":{body}}}')
    with pytest.raises(ValidationError) as expected:
        TypeAdapter(KnownControlRequest).validate_json(body, strict=True)
    places = [("body", *error["loc"]) for error in expected.value.errors()]
    assert [error["loc"] for error in raised.value.errors()] == places
    assert [error["msg"] for error in raised.value.errors()] == [error["msg"] for error in expected.value.errors()]


def test_it_is_an_object_in_a_schema() -> None:
    assert Soon.model_json_schema()["properties"]["body"]["type"] == "object"


def test_what_the_cli_asks_loads_nothing_of_what_it_is_asked() -> None:
    request = {"subtype": "hook_callback", "callback_id": "h", "input": {}}
    line = json.dumps({"type": "control_request", "request_id": "r", "request": request})
    assert isinstance(decode(line), ControlRequest)
    program = f"""if True:
        import sys
        from claude_agent_py.wire import decode
        decode({line!r})
        print("claude_agent_py.wire.requests" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
