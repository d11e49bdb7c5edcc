"""The typed views of tool inputs and outputs. The examples are cut from recordings of CLI 2.1.328."""

import subprocess
import sys
from typing import Any

import msgspec
import pytest
from wire_values import as_json

from claude_agent_py import Allow, PermissionContext, PermissionRequest, tools
from claude_agent_py.control import CanUseToolRequest
from claude_agent_py.permissions import allow_tools

FORMER = {
    "Task": "Agent",
    "KillShell": "TaskStop",
    "KillBash": "TaskStop",
    "ListPeers": "ListAgents",
    "Brief": "SendUserMessage",
    "ListMcpResources": "ListMcpResourcesTool",
    "ReadMcpResource": "ReadMcpResourceTool",
    "ReadMcpResourceDir": "ReadMcpResourceDirTool",
    "ProposeGoal": "SetGoal",
}

INPUTS = [
    (
        "Agent",
        {"description": "d", "prompt": "p", "subagent_type": "helper", "run_in_background": False},
        tools.TaskInput,
    ),
    ("Task", {"description": "d", "prompt": "p", "name": "n", "team_name": "t", "mode": "plan"}, tools.TaskInput),
    ("Bash", {"command": "ls", "timeout": 1500, "dangerouslyDisableSandbox": True}, tools.BashInput),
    ("KillShell", {"shell_id": "b1"}, tools.TaskStopInput),
    ("TaskStop", {"task_id": "b1"}, tools.TaskStopInput),
    ("TaskOutput", {"task_id": "b1", "block": True, "timeout": 5000}, tools.TaskOutputInput),
    ("Monitor", {"command": "x", "description": "d", "timeout_ms": 5000}, tools.MonitorInput),
    (
        "SendMessage",
        {"to": "worker", "message": "m", "type": "message", "recipient": "worker", "content": "m"},
        tools.SendMessageInput,
    ),
    ("ExitPlanMode", {}, tools.ExitPlanModeInput),
    ("ExitPlanMode", {"plan": "1. do a", "planFilePath": "/p.md"}, tools.ExitPlanModeInput),
    ("TaskUpdate", {"taskId": "1", "status": "deleted", "addBlockedBy": ["2"]}, tools.TaskUpdateInput),
    ("Grep", {"pattern": "x", "-B": 2, "-i": True, "head_limit": 0}, tools.GrepInput),
    ("ListMcpResources", {}, tools.ListMCPResourcesInput),
    ("ToolSearch", {"query": "select:x"}, tools.ToolSearchInput),
    ("Workflow", {"script": "x"}, tools.WorkflowInput),
    ("ListPeers", {}, tools.ListAgentsInput),
    ("ReportFindings", {"findings": []}, tools.ReportFindingsInput),
    ("PowerShell", {"command": "ls"}, tools.PowerShellInput),
    ("Read", {"file_path": "/a"}, tools.FileReadInput),
    ("Write", {"file_path": "/a", "content": "x"}, tools.FileWriteInput),
    ("Edit", {"file_path": "/a", "old_string": "x", "new_string": "y"}, tools.FileEditInput),
    ("NotebookEdit", {"notebook_path": "/a", "new_source": "x"}, tools.NotebookEditInput),
    ("EnterPlanMode", {}, tools.EnterPlanModeInput),
    ("EnterWorktree", {}, tools.EnterWorktreeInput),
    ("ExitWorktree", {"action": "keep"}, tools.ExitWorktreeInput),
    ("CronCreate", {"cron": "0 0 * * *", "prompt": "p"}, tools.CronCreateInput),
    ("CronDelete", {"id": "c"}, tools.CronDeleteInput),
    ("CronList", {}, tools.CronListInput),
    ("ScheduleWakeup", {}, tools.ScheduleWakeupInput),
    ("Glob", {"pattern": "*"}, tools.GlobInput),
    ("WebFetch", {"url": "u", "prompt": "p"}, tools.WebFetchInput),
    ("WebSearch", {"query": "q"}, tools.WebSearchInput),
    ("ReadMcpResource", {"server": "s", "uri": "u"}, tools.ReadMCPResourceInput),
    ("TaskCreate", {"subject": "s", "description": "d"}, tools.TaskCreateInput),
    ("TaskGet", {"taskId": "1"}, tools.TaskGetInput),
    ("TaskList", {}, tools.TaskListInput),
    ("TodoWrite", {"todos": []}, tools.TodoWriteInput),
    (
        "AskUserQuestion",
        {"questions": [{"question": "Q?", "header": "H", "options": [{"label": "A"}], "multiSelect": True}]},
        tools.AskUserQuestionInput,
    ),
]

OUTPUTS = [
    (
        "Agent",
        {
            "status": "completed",
            "agentId": "a1",
            "content": [{"type": "text", "text": "<note>"}, {"type": "text", "text": "done"}],
            "totalTokens": 5,
            "harnessNoteCount": 1,
            "canContinueAgent": True,
            "usage": {"input_tokens": 1, "output_tokens": 2, "server_tool_use": None, "inference_geo": "eu"},
        },
        tools.AgentCompletedOutput,
    ),
    (
        "Task",
        {"isAsync": True, "status": "async_launched", "agentId": "a1", "outputFile": "/x", "description": "d"},
        tools.AgentAsyncLaunchedOutput,
    ),
    ("Agent", {"status": "remote_launched", "taskId": "t1", "sessionUrl": "u"}, tools.AgentRemoteLaunchedOutput),
    (
        "Bash",
        {
            "stdout": "",
            "stderr": "",
            "interrupted": False,
            "isImage": False,
            "noOutputExpected": False,
            "backgroundTaskId": "b1",
            "timedOutAfterMs": 2000,
        },
        tools.BashOutput,
    ),
    ("Monitor", {"taskId": "b1", "timeoutMs": 5000, "persistent": False}, tools.MonitorOutput),
    ("SendMessage", {"success": True, "message": "m", "pin": {"id": "a", "name": "n"}}, tools.SendMessageOutput),
    ("TaskUpdate", {"success": True, "taskId": "1", "updatedFields": ["status"]}, tools.TaskUpdateOutput),
    ("TaskGet", {"task": None}, tools.TaskGetOutput),
    (
        "Read",
        {"type": "text", "file": {"filePath": "/a", "content": "x", "numLines": 1, "startLine": 1, "totalLines": 1}},
        tools.FileReadTextOutput,
    ),
    ("Read", {"type": "pdf", "file": {"filePath": "/a", "base64": "", "originalSize": 9}}, tools.FileReadPDFOutput),
    (
        "WebSearch",
        {"query": "q", "results": ["text", {"tool_use_id": "t", "content": [{"title": "T", "url": "u"}]}]},
        tools.WebSearchOutput,
    ),
]


@pytest.mark.parametrize(("name", "data", "model"), INPUTS)
def test_an_input_is_typed_and_loses_nothing(name: str, data: dict[str, Any], model: type[msgspec.Struct]) -> None:
    value = tools.typed_input(name, data)
    assert type(value) is model
    assert as_json(value) == data


@pytest.mark.parametrize(("name", "data", "model"), OUTPUTS)
def test_an_output_is_typed_and_loses_nothing(name: str, data: dict[str, Any], model: type[msgspec.Struct]) -> None:
    value = tools.typed_output(name, data)
    assert type(value) is model
    assert as_json(value) == data


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("NoSuchTool", {"a": 1}),
        ("mcp__server__tool", {"a": 1}),
        ("Bash", {"cmd": "ls"}),
        ("Bash", {"command": 5}),
        ("Bash", {"command": "ls", "run_in_background": "yes"}),
        ("Grep", {"pattern": "x", "-B": True}),
    ],
)
def test_an_input_that_fits_no_model_comes_back_as_it_is(name: str, data: dict[str, Any]) -> None:
    assert tools.typed_input(name, data) is data


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("Bash", "Error: Exit code 4"),
        ("Bash", None),
        ("Agent", {"status": "queued_to_running", "agentId": "a"}),
        ("Read", []),
        ("Skill", {"success": True}),
        ("NoSuchTool", {"a": 1}),
    ],
)
def test_an_output_that_fits_no_model_comes_back_as_it_is(name: str, data: Any) -> None:
    assert tools.typed_output(name, data) is data


def test_a_self_containing_input_comes_back_as_it_is() -> None:
    data: dict[str, Any] = {"script": "x"}
    data["args"] = data
    assert tools.typed_input("Workflow", data)


def test_lists_of_models_are_typed() -> None:
    value = tools.typed_output("ListMcpResourcesTool", [{"uri": "u", "name": "n", "server": "s"}])
    assert [resource.uri for resource in value] == ["u"]
    assert tools.typed_output("ListMcpResourcesTool", []) == []


def test_the_report_of_an_agent_is_its_last_text() -> None:
    value = tools.typed_output("Agent", OUTPUTS[0][1])
    assert value.report == "done"
    assert value.content[0].text == "<note>"
    assert value.raw == OUTPUTS[0][1]
    assert tools.AgentCompletedOutput(agent_id="a").report == ""


def test_models_are_constructible_by_python_names_and_encode_wire_names() -> None:
    assert as_json(tools.TaskInput(description="x", prompt="y")) == {"description": "x", "prompt": "y"}
    assert tools.AgentInput is tools.TaskInput
    assert as_json(tools.BashInput(command="ls", dangerously_disable_sandbox=True)) == {
        "command": "ls",
        "dangerouslyDisableSandbox": True,
    }
    assert as_json(tools.AgentAsyncLaunchedOutput(agent_id="a")) == {"status": "async_launched", "agentId": "a"}
    assert as_json(tools.GrepInput(pattern="x", before=1)) == {"pattern": "x", "-B": 1}


def test_omitted_arguments_have_the_default_of_the_tool() -> None:
    output = tools.TaskOutputInput(task_id="b1")
    assert (output.block, output.timeout) == (True, 30_000)
    assert as_json(output) == {"task_id": "b1"}
    assert tools.MonitorInput(description="d", command="x").timeout_ms == 300_000


@pytest.mark.anyio
async def test_a_former_name_stands_for_the_current_one() -> None:
    for former, name in FORMER.items():
        assert former not in tools.BUILTIN_TOOL_NAMES
        assert name in tools.BUILTIN_TOOL_NAMES
        request = PermissionRequest(CanUseToolRequest(tool_name=name, input={}, tool_use_id="t"))
        policy: Any = allow_tools(former)
        assert await policy(request, PermissionContext(request_id="r")) == Allow()


def test_every_model_is_that_of_a_tool_and_documented() -> None:
    models = {getattr(tools, name) for name in dir(tools) if name.endswith("Input")}
    assert models == {model for _, _, model in INPUTS}
    assert all(model.__doc__ for model in models)
    for name in {model.__name__.removesuffix("Input") for model in models - {tools.AgentInput}} | {"Agent"}:
        msgspec.json.Decoder(getattr(tools, f"{name}Output"))


def test_a_changed_input_keeps_what_its_model_does_not_know() -> None:
    data = {"command": "ls", "new": {"a": [1]}}
    typed = tools.typed_input("Bash", data)
    assert isinstance(typed, tools.BashInput)
    assert as_json(typed.replace(command="pwd")) == {"command": "pwd", "new": {"a": [1]}}
    assert data["command"] == "ls"


def test_a_module_is_loaded_only_when_one_of_its_models_is_used() -> None:
    code = (
        "import sys; from claude_agent_py.tools import typed_input; "
        "typed_input('Bash', {'command': 'ls'}); "
        "print(sorted(m.rpartition('.')[2] for m in sys.modules if m.startswith('claude_agent_py.wire.tools.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['bash', 'registry']"
