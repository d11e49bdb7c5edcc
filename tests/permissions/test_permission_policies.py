"""Decisions by rule."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st
from questions import RecordingContext
from wire_values import read_request

from claude_agent_py import Allow, Deny, PermissionContext, PermissionRequest, guard, read_only, within
from claude_agent_py.control import CanUseToolRequest
from claude_agent_py.errors import OptionsError
from claude_agent_py.options import OptionsWarning
from claude_agent_py.permissions import allow_tools, ask, bash_commands, deny_tools, first_of
from claude_agent_py.tools import BUILTIN_TOOL_NAMES

pytestmark = [pytest.mark.anyio, pytest.mark.one_backend]
BASH = shutil.which("bash")


async def opinion(policy: Any, tool: str, data: dict[str, Any] | None = None, *, cwd: str | None = None) -> Any:
    """Ask a policy about one call."""
    request = PermissionRequest(CanUseToolRequest(tool_name=tool, input=data or {}, tool_use_id="t"))
    answer = policy(request, PermissionContext(request_id="r", cwd=cwd))
    return await answer if hasattr(answer, "__await__") else answer


def path_in(directory: Path, *parts: str) -> str:
    return str(directory.joinpath(*parts))


# Names -----------------------------------------------------------------------------------------------------------


async def test_tools_are_allowed_by_name_and_nothing_else_is() -> None:
    policy = allow_tools("Read", "mcp__files__*", "Task")
    assert await opinion(policy, "Read") == Allow()
    assert await opinion(policy, "mcp__files__list") == Allow()
    assert await opinion(policy, "Agent") == Allow()  # the new name of Task
    for other in ("Bash", "read", "ReadX", "mcp__filesystem__list", "mcp__files"):
        assert await opinion(policy, other) is None


async def test_tools_are_denied_by_name() -> None:
    policy = deny_tools("Agent", "mcp__*", message="not here")
    assert await opinion(policy, "Task") == Deny("not here")
    assert await opinion(policy, "mcp__a__b") == Deny("not here")
    assert isinstance(await opinion(deny_tools("*"), "Write"), Deny)
    assert await opinion(deny_tools("*"), "StructuredOutput") is None
    assert isinstance(await opinion(deny_tools("*", "StructuredOutput"), "StructuredOutput"), Deny)
    assert await opinion(policy, "Read") is None


async def test_reading_is_allowed_and_changing_is_not() -> None:
    policy = read_only()
    allowed = {name for name in BUILTIN_TOOL_NAMES if await opinion(policy, name) == Allow()}
    assert {"Read", "Glob", "Grep"} <= allowed
    assert allowed.isdisjoint({"Bash", "Write", "Edit", "NotebookEdit", "WebFetch", "Agent", "Monitor", "PowerShell"})


@pytest.mark.parametrize("make", [allow_tools, deny_tools])
@pytest.mark.parametrize(
    "name", ["", "Bash(ls)", 3, "mcp__my server__x", "mcp__a.b__*", "mcp__[ab]__x", "Rea?", "Bash\n"]
)
def test_an_invalid_tool_name_is_refused(make: Callable[..., Any], name: Any) -> None:
    with pytest.raises(OptionsError):
        make(name)


@pytest.mark.parametrize("make", [allow_tools, deny_tools])
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Bsah", "did you mean 'Bash'"),
        ("bash", "did you mean 'Bash'"),
        ("Nothing", "is not a known tool"),
        ("mcp__files", re.escape("use 'mcp__files__*'")),
    ],
)
def test_a_name_that_matches_nothing_warns(make: Callable[..., Any], name: str, hint: str) -> None:
    with pytest.warns(OptionsWarning, match=f"{make.__name__}: '{name}'.*{hint}") as caught:
        make("Read", name)
    assert [one.filename for one in caught] == [__file__]


@pytest.mark.parametrize("name", ["Bash", "Task", "StructuredOutput", "mcp__files__read", "mcp__files*", "*"])
def test_a_known_name_does_not_warn(name: str) -> None:
    deny_tools(name)  # warnings are errors in tests


@pytest.mark.parametrize("make", [allow_tools, deny_tools, first_of])
def test_a_policy_needs_something_to_decide_about(make: Callable[..., Any]) -> None:
    with pytest.raises(OptionsError, match=make.__name__):
        make()


async def test_a_denied_shell_runs_no_command_as_a_monitor() -> None:
    for name in ("Bash", "Ba*", "Monitor", "*"):
        assert isinstance(await opinion(deny_tools(name), "Monitor"), Deny)
    assert await opinion(deny_tools("Read"), "Monitor") is None
    assert await opinion(allow_tools("Bash"), "Monitor") is None


# Composing -------------------------------------------------------------------------------------------------------


async def test_the_first_opinion_counts() -> None:
    policy = first_of(deny_tools("Bash"), allow_tools("Bash", "Read"), allow_tools("*"))
    assert isinstance(await opinion(policy, "Bash"), Deny)
    assert await opinion(policy, "Read") == Allow()
    assert await opinion(first_of(read_only()), "Bash") is None


async def test_plain_and_async_policies_compose() -> None:
    def plain(request: PermissionRequest, context: PermissionContext) -> Deny | None:
        return Deny("x") if request.tool_name == "Bash" else None

    policy = first_of(plain, allow_tools("*"))
    assert await opinion(policy, "Bash") == Deny("x")
    assert await opinion(policy, "Write") == Allow()


async def test_a_policy_that_fails_is_not_passed_over() -> None:
    def broken(request: PermissionRequest, context: PermissionContext) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await opinion(first_of(broken, allow_tools("*")), "Bash")
    with pytest.raises(ValueError, match="type bool"):
        await opinion(first_of(lambda request, context: True, allow_tools("*")), "Bash")  # type: ignore[arg-type,return-value]


def test_a_value_that_is_no_policy_is_refused() -> None:
    with pytest.raises(OptionsError, match="not Allow"):
        first_of(Allow())  # type: ignore[arg-type]


@pytest.mark.parametrize("wrap", [first_of, ask, guard])
def test_a_half_ported_callback_is_no_policy(wrap: Callable[..., Any]) -> None:
    async def callback(tool_name: Any, tool_input: Any, context: Any = None) -> Allow:
        return Allow()

    with pytest.raises(OptionsError, match=r"callback must take two arguments: .*, but 'tool_name' is .*To port"):
        wrap(callback)


async def test_asking_says_that_a_person_is_waited_for() -> None:
    heard: list[Any] = []

    def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        heard.append("asked")
        return Allow()

    request = PermissionRequest(CanUseToolRequest(tool_name="Bash", tool_use_id="t"))
    context = RecordingContext(request_id="r", waits=heard)
    answer: Any = ask(decide)(request, context)
    assert await answer == Allow()
    assert heard == [True, "asked", False]


# Paths -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A directory with something outside of it, and links across."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("x")
    repo = tmp_path / "repo"
    (repo / "src").mkdir(parents=True)
    (tmp_path / "repository").mkdir()
    (repo / "out").symlink_to(tmp_path / "secret")
    (repo / "key").symlink_to(tmp_path / "secret" / "key")
    (repo / "in").symlink_to(repo / "src")
    return repo


@pytest.mark.parametrize("parts", [("a.txt",), ("src", "new", "b.txt"), ("src", "..", "c"), ("in", "d"), ("..a",)])
@pytest.mark.parametrize("tool", ["Read", "Write", "Edit"])
async def test_inside_is_allowed(repo: Path, tool: str, parts: tuple[str, ...]) -> None:
    assert await opinion(within(repo), tool, {"file_path": path_in(repo, *parts)}) == Allow()


@pytest.mark.parametrize(
    "parts",
    [
        ("..", "secret", "key"),
        ("src", "..", "..", "x"),
        ("out", "key"),
        ("out", "new"),
        ("key",),
        ("..", "repository", "x"),
    ],
)
async def test_outside_is_denied_whatever_way_it_is_written(repo: Path, parts: tuple[str, ...]) -> None:
    answer = await opinion(within(repo), "Write", {"file_path": path_in(repo, *parts)})
    assert isinstance(answer, Deny)
    assert str(repo) in answer.message


@pytest.mark.parametrize("path", ["a.txt", "~/x", "", None, 3, "/\0", "/\ud800", "../x"])
async def test_a_path_that_is_not_absolute_is_denied(repo: Path, path: Any) -> None:
    assert isinstance(await opinion(within(repo), "Read", {"file_path": path}, cwd=str(repo)), Deny)


async def test_a_missing_path_is_denied(repo: Path) -> None:
    assert isinstance(await opinion(within(repo), "NotebookEdit", {"file_path": str(repo)}), Deny)


async def test_several_directories(repo: Path, tmp_path: Path) -> None:
    policy = within(repo, tmp_path / "repository")
    assert await opinion(policy, "NotebookEdit", {"notebook_path": path_in(tmp_path, "repository", "n")}) == Allow()
    assert isinstance(await opinion(policy, "Read", {"file_path": path_in(tmp_path, "secret", "key")}), Deny)


async def test_a_search_without_a_path_is_in_the_directory_of_the_session(repo: Path, tmp_path: Path) -> None:
    policy = within(repo)
    for path in ({}, {"path": None}, {"path": ""}):
        answer = await opinion(policy, "Grep", {"pattern": "x", **path}, cwd=str(repo))
        assert answer == Allow(updated_input={"pattern": "x", "path": str(repo)})  # wherever the CLI stands by now
    assert isinstance(await opinion(policy, "Grep", {"pattern": "x"}, cwd=str(tmp_path)), Deny)
    assert isinstance(await opinion(policy, "Grep", {"pattern": "x"}), Deny)
    assert isinstance(await opinion(policy, "Grep", {"pattern": "x", "path": path_in(repo, "out")}), Deny)


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [
        ("**/*.py", True),
        ("src/*.{py,txt}", True),
        ("../*", False),
        ("src/../../secret/*", False),
        ("{src,..}/*", False),
        ("out/*", False),
        ("/etc/*", False),
    ],
)
async def test_a_glob_must_not_reach_outside(repo: Path, pattern: str, allowed: bool) -> None:
    answer = await opinion(within(repo), "Glob", {"pattern": pattern, "path": str(repo)})
    assert isinstance(answer, Allow if allowed else Deny)


@pytest.mark.parametrize(
    "end", [*" \t\n\r\v\f\x1c\x85\xa0\u1680\u180e\u2009\u200b\u2028\u202f\u3000\ufeff", "\n\ufeff"]
)
async def test_white_space_that_the_cli_may_cut_off_is_denied(repo: Path, end: str) -> None:
    policy = within(repo)
    assert isinstance(await opinion(policy, "Read", {"file_path": path_in(repo, f"key{end}")}), Deny)
    assert isinstance(await opinion(policy, "NotebookEdit", {"notebook_path": path_in(repo, f"key{end}")}), Deny)
    assert isinstance(await opinion(policy, "LSP", {"filePath": path_in(repo, f"key{end}")}), Deny)
    assert isinstance(await opinion(policy, "Grep", {"pattern": "x", "path": path_in(repo, f"out{end}")}), Deny)
    for begin in ("", str(repo) + os.sep):
        pattern = {"pattern": f"{begin}out{end}/*", "path": str(repo)}
        assert isinstance(await opinion(policy, "Glob", pattern), Deny)


@pytest.mark.parametrize("pattern", ["My *", "a b/c *.txt", " x*"])
async def test_a_name_in_a_pattern_may_have_spaces(repo: Path, pattern: str) -> None:
    assert await opinion(within(repo), "Glob", {"pattern": pattern, "path": str(repo)}) == Allow()


@pytest.mark.parametrize(("there", "written"), [("\u202f", " "), (" ", "\u202f")])
async def test_the_other_name_of_a_screenshot_counts(repo: Path, tmp_path: Path, there: str, written: str) -> None:
    (repo / f"Shot 1.00{there}PM.png").symlink_to(tmp_path / "secret" / "key")
    denied = {"file_path": path_in(repo, f"Shot 1.00{written}PM.png")}
    assert isinstance(await opinion(within(repo), "Read", denied), Deny)
    assert await opinion(within(repo), "Read", {"file_path": path_in(repo, f"Shot 2.00{written}PM.png")}) == Allow()


async def test_other_tools_are_none_of_its_business(repo: Path) -> None:
    assert await opinion(within(repo), "Bash", {"command": "cat /etc/passwd"}) is None


@pytest.mark.parametrize("directory", ["/nowhere/at/all", "~nobody-of-this-name/x", "/tmp/\0"])
def test_a_directory_that_is_not_there_is_refused(directory: str) -> None:
    with pytest.raises(OptionsError, match="no such directory"):
        within(directory)


# Commands --------------------------------------------------------------------------------------------------------

ALLOWED = ["git status", "npm test *", "grep -r *"]


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "  git   status ",
        "git 'status'",
        "npm test",
        "npm test --watch=false a.js",
        "grep -r 'a|b; c > d' src",
        'grep -r "a && (b)" src',
        r"grep -r a\|b src",
        r"grep -r \"x src",
        "grep -r 'it is' *.py",
    ],
)
async def test_plain_commands_are_allowed(command: str) -> None:
    assert await opinion(bash_commands(ALLOWED), "Bash", {"command": command}) == Allow()


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git status --porcelain",
        "git",
        "/usr/bin/git status",
        "npm",
        "npm run x",
        "git status; rm -rf /",
        "git status;rm -rf /",
        "git status && rm x",
        "git status || rm x",
        "git status | sh",
        "git status & rm x",
        "npm test > /etc/passwd",
        "npm test >x",
        "npm test < x",
        "npm test <(rm x)",
        "npm test $(rm x)",
        'npm test "$(rm x)"',
        "npm test `rm x`",
        'npm test "`rm x`"',
        "npm test $HOME",
        "npm test ${IFS}",
        "npm test $'\\x3b rm x'",
        "npm test\nrm x",
        "npm test \\\nrm x",
        "npm test\rrm x",
        "(npm test)",
        "{ npm test; }",
        "X=1 npm test",
        "! npm test",
        "npm test 'x",
        'npm test "a\\" ; rm x ; echo "b"; rm y',
        'npm test \\" ; rm x ; \\"',
        "npm test \\'; rm x'",
        "npm test 'a'\\''; rm x",
        "npm test \\\\; rm x",
        "",
        "   ",
        "# npm test",
        None,
        ["npm", "test"],
    ],
)
async def test_bash_commands_has_no_opinion_of_other_commands(command: Any) -> None:
    assert await opinion(bash_commands(ALLOWED), "Bash", {"command": command}) is None


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("ls", True),
        ("ls -la 'a b'", True),
        ("lsof", False),
        ("ls; rm x", False),
        ("ls $(rm x)", False),
        ("cat ls", False),
    ],
)
async def test_a_program_alone_is_allowed_with_any_arguments(command: str, allowed: bool) -> None:
    answer = await opinion(bash_commands(allow=["ls"]), "Bash", {"command": command})
    assert answer == (Allow() if allowed else None)


async def test_leaving_the_sandbox_is_not_allowed() -> None:
    data = {"command": "git status", "dangerouslyDisableSandbox": True}
    assert await opinion(bash_commands(ALLOWED), "Bash", data) is None


async def test_only_bash_is_meant() -> None:
    assert await opinion(bash_commands(ALLOWED), "PowerShell", {"command": "git status"}) is None


@pytest.mark.parametrize("allow", [[""], ["*"], ["git status; ls"], ["echo $HOME"], ["'"], "git status"])
def test_commands_that_cannot_be_allowed_are_refused(allow: Any) -> None:
    with pytest.raises(OptionsError, match="bash_commands"):
        bash_commands(allow)


async def test_the_words_of_a_command_are_those_that_the_shell_sees() -> None:
    policy = bash_commands([shlex.join(["a", "b c", "d;e", "f g"])])
    assert await opinion(policy, "Bash", {"command": "a 'b c' \"d;e\" f\\ g"}) == Allow()
    assert await opinion(policy, "Bash", {"command": "a b c 'd;e' 'f g'"}) is None


@pytest.mark.skipif(BASH is None, reason="there is no bash to ask")
@given(rest=st.text(alphabet="a '\"\\;|&<>(){}#!$`=\n\t-", max_size=14))
def test_a_real_shell_runs_nothing_but_the_words_that_were_judged(rest: str) -> None:
    command = f"npm {rest}"

    def allows(pattern: str, command: str) -> bool:
        return bool(anyio.run(opinion, bash_commands([pattern]), "Bash", {"command": command}) == Allow())

    if not allows("npm *", command):
        return
    script = f"set -f; set +B; npm() {{ printf '%s\\0' npm \"$@\"; }}\n{command}"
    done = subprocess.run(
        [str(BASH), "--norc", "-c", script], capture_output=True, text=True, env={"PATH": "/nowhere"}, check=False
    )
    seen = done.stdout.split("\0")[:-1]
    assert done.stderr == ""
    # a comment is the one thing that the shell leaves out
    comments = [index for index, character in enumerate(command) if character == "#"]
    judged = ["a", *seen]  # a pattern of one word allows any others
    assert any(allows(shlex.join(judged), f"a {command[:end]}") for end in (*comments, None))


# What is left to a person ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "why", [{"decision_reason_type": "rule"}, {"matched_ask_rule": {"source": "userSettings", "tool_name": "Bash"}}]
)
async def test_a_policy_does_not_approve_a_call_that_an_ask_rule_matches(tmp_path: Path, why: dict[str, Any]) -> None:
    calls = [
        (allow_tools("*"), "Bash", {"command": "ls"}),
        (read_only(), "Read", {"file_path": "/x"}),
        (bash_commands(["ls"]), "Bash", {"command": "ls"}),
        (within(tmp_path), "Write", {"file_path": str(tmp_path / "x")}),
    ]
    for policy, tool, data in calls:
        assert await opinion(policy, tool, data) == Allow()
        wire = read_request({"subtype": "can_use_tool", "tool_name": tool, "input": data, "tool_use_id": "t", **why})
        answer: Any = policy(PermissionRequest(wire), PermissionContext(request_id="r"))
        assert (await answer if hasattr(answer, "__await__") else answer) is None


async def test_a_star_does_not_stand_for_what_asks_a_person() -> None:
    for tool in ("ExitPlanMode", "AskUserQuestion"):
        assert await opinion(allow_tools("*"), tool) is None
        assert await opinion(allow_tools(tool), tool) == Allow()
    wire = CanUseToolRequest(tool_name="mcp__a__b", tool_use_id="t", requires_user_interaction=True)
    answer: Any = allow_tools("mcp__*")(PermissionRequest(wire), PermissionContext(request_id="r"))
    assert await answer is None


# Paths that mean another file elsewhere --------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc")
async def test_a_path_through_proc_is_denied(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo)
    (repo / "me").symlink_to("/proc/self")
    (repo / "here").symlink_to("me/cwd")
    (repo / "loop").symlink_to("loop")
    written = ["/proc/self/cwd/x", "/proc/self/root/x", "/dev/fd/3", "/dev/stdin", "//proc/self/cwd/x", "/./proc/x"]
    written += [str(repo / "me" / "cwd" / "x"), str(repo / "here" / "x"), str(repo / "loop")]
    for path in written:
        assert isinstance(await opinion(within(repo), "Write", {"file_path": path}), Deny), path


async def test_two_dots_after_a_link_are_denied(tmp_path: Path, repo: Path) -> None:
    (tmp_path / "link").symlink_to(repo / "src")
    answer = await opinion(within(repo), "Write", {"file_path": path_in(tmp_path, "link", "..", "x")})
    assert isinstance(answer, Deny)
