"""Test agents without a model.

`ScriptedModel` is a Messages API on loopback for the real CLI. `FakeCLI` replaces the CLI itself and is scripted with
`steps` and `frames`. A `Gate` blocks either until the test opens it. Everything here is public.

Names are loaded on first use: pytest imports this package, for `pytest_plugin`, in every project that has it installed.
"""

from claude_agent_py._base.lazy_names import attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from claude_agent_py.testing import frames as frames, steps as steps
    from claude_agent_py.testing.assertions import (
        AgentAssertions as AgentAssertions,
        assert_agent as assert_agent,
        call as call,
        task as task,
    )
    from claude_agent_py.testing.cassettes import (
        Cassette as Cassette,
        CassetteMismatch as CassetteMismatch,
        CassetteMode as CassetteMode,
    )
    from claude_agent_py.testing.fake_cli import FakeCLI as FakeCLI, FakeTransport as FakeTransport
    from claude_agent_py.testing.requests import RecordedRequest as RecordedRequest
    from claude_agent_py.testing.run_text import run_as_text as run_as_text
    from claude_agent_py.testing.script import (
        Answer as Answer,
        AnyScript as AnyScript,
        Block as Block,
        CutStream as CutStream,
        Failure as Failure,
        Gate as Gate,
        LooseAnswer as LooseAnswer,
        RawBlock as RawBlock,
        Reply as Reply,
        Script as Script,
        Text as Text,
        Thinking as Thinking,
        ToolCall as ToolCall,
        Usage as Usage,
        text as text,
        thinking as thinking,
        tool_use as tool_use,
    )
    from claude_agent_py.testing.scripted_model import (
        Match as Match,
        Sandbox as Sandbox,
        ScriptedModel as ScriptedModel,
    )
    from claude_agent_py.testing.stage import (
        MakeClient as MakeClient,
        MakeFakeCLI as MakeFakeCLI,
        MakeOptions as MakeOptions,
        MakeScriptedModel as MakeScriptedModel,
        RunSnapshot as RunSnapshot,
    )
    from claude_agent_py.testing.store_contract import check_session_store as check_session_store
    from claude_agent_py.testing.text_formats import check_text_format as check_text_format
else:
    _NAMES = {
        "claude_agent_py.testing": "frames steps",
        "claude_agent_py.testing.assertions": "AgentAssertions assert_agent call task",
        "claude_agent_py.testing.cassettes": "Cassette CassetteMismatch CassetteMode",
        "claude_agent_py.testing.fake_cli": "FakeCLI FakeTransport",
        "claude_agent_py.testing.requests": "RecordedRequest",
        "claude_agent_py.testing.run_text": "run_as_text",
        "claude_agent_py.testing.script": """
            Answer AnyScript Block CutStream Failure Gate LooseAnswer RawBlock Reply Script Text Thinking ToolCall Usage
            text thinking tool_use
        """,
        "claude_agent_py.testing.scripted_model": "Match Sandbox ScriptedModel",
        "claude_agent_py.testing.stage": "MakeClient MakeFakeCLI MakeOptions MakeScriptedModel RunSnapshot",
        "claude_agent_py.testing.store_contract": "check_session_store",
        "claude_agent_py.testing.text_formats": "check_text_format",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
