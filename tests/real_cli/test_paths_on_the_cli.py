"""What a policy sees of a path, and what the tool opens: the gap between the two is where a fence opens."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from one_session import OneSession

from claude_agent_py import Client, HookContext, HookMatcher, ToolServer, guard, tool, within
from claude_agent_py.hooks import PreToolUseOutput
from claude_agent_py.permissions import allow_tools, deny_tools, first_of
from claude_agent_py.testing import RecordedRequest, Reply, ScriptedModel, text, tool_use

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real_cli,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),  # the backend is no part of it
]

WRITING = ("Write", "Edit", "NotebookEdit")
TOOLS = ["Read", "Write", "Edit", "NotebookEdit", "Grep", "Glob", "Bash"]
TRIMMED = "\t\n\v\f\r \xa0\u1680\u2000\u2009\u2028\u2029\u202f\u205f\u3000\ufeff"
"""Some of what JavaScript's trim() cuts off."""
KEPT = "\x1c\x85\u180e\u200b"
"""What Python or people take for white space, and JavaScript does not."""
SECRET = "from the outside"
NOTEBOOK = {
    "cells": [
        {
            "cell_type": "code",
            "id": "a",
            "source": [SECRET],
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
    ],
    "metadata": {"language_info": {"name": "python"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


@dataclass
class Row:
    """One call. `<repo>` stands for the repository, `<out>` for the directory outside, `<home>` for the CLI's home."""

    tool: str
    input: dict[str, Any]
    opens: str | None
    """`outside`, `inside`, or None for nothing at all."""
    seen: dict[str, Any] = field(default_factory=dict)
    """What the policy sees otherwise than it was written."""


def read(path: str, opens: str | None, seen: str | None = None) -> Row:
    return Row("Read", {"file_path": path}, opens, {"file_path": seen} if seen else {})


def grep(path: str | None, opens: str | None, **more: str) -> Row:
    where = {} if path is None else {"path": path}
    return Row("Grep", {"pattern": "side", "output_mode": "content", **where, **more}, opens)


def glob(pattern: str, opens: str | None, path: str | None = None) -> Row:
    return Row("Glob", {"pattern": pattern, **({} if path is None else {"path": path})}, opens)


ROWS = [
    # Links, and the ways to write where they are.
    read("<repo>/plain.txt", "inside"),
    read("<repo>/file", "outside"),
    read("<repo>/file/", "outside"),
    read("<repo>/sub/../file", "outside", "<repo>/file"),
    read("file", "outside", "<repo>/file"),
    read("~/file", None, "<home>/file"),
    read("$OUT/secret.txt", None, "<repo>/$OUT/secret.txt"),
    read("<repo>/$LINK/secret.txt", None),
    read("<repo>/%66ile", None),
    read("file://<out>/secret.txt", None, "<repo>/file:<out>/secret.txt"),
    read("<repo>/u\u0308.txt", "inside"),  # nothing is normalised: the composed name is a link to the outside
    read("<repo>/\xfc.txt", "outside"),
    read("<repo>/Shot 1.00 PM.png", None),  # finds the name with U+202F, and refuses a link there by itself
    read("<repo>/half\ud800.txt", "outside", "<repo>/half\ufffd.txt"),
    Row("Grep", {"pattern": "side", "path": "<repo>/half\ud800"}, "outside", {"path": "<repo>/half\ufffd"}),
    grep("<repo>/sub", "inside"),
    grep("<repo>/sub/", "inside"),
    grep("<repo>", "inside"),
    grep(None, "inside"),
    grep("<repo>/link", "outside"),
    grep("<repo>/link/", "outside"),
    grep("<repo>/sub/../link", "outside"),
    grep("link", "outside"),
    grep("<out>", "outside"),
    grep("<repo>/$LINK", None),
    grep("<repo>/li*", None),
    grep("<repo>/{link,sub}", None),
    grep("<repo>/sub,<repo>/link", None),
    grep("<repo>/sub <repo>/link", None),
    grep("file://<out>", None),
    grep("<repo>/o\u0308", "inside"),
    grep("<repo>/\xf6", "outside"),
    grep("<repo>", None, glob="<out>/*"),
    grep("<repo>", None, glob="link/*"),
    grep("<repo>", None, glob="--follow"),
    grep("<repo>", "inside", glob="*.txt --follow <out>"),
    grep("<repo>", None, pattern="--follow"),
    grep("<repo>", None, pattern="-f<out>/secret.txt"),
    grep("<repo>", None, type="--follow"),
    Row(
        "Grep", {"pattern": "side", "file_path": "<repo>/link "}, "outside", {"path": "<repo>/link ", "file_path": None}
    ),
    glob("**/*.txt", "inside", "<repo>"),
    glob("**/*", "inside"),
    glob("link/*", None, "<repo>"),
    glob("lin?/*", None, "<repo>"),
    glob("{link,sub}/*", "inside", "<repo>"),
    glob("../*/*", None, "<repo>"),
    glob("*/../../*/*", None, "<repo>"),
    glob("[.][.]/*/*", None, "<repo>"),
    glob("{..,x}/*/*", None, "<repo>"),
    glob("~/*", None, "<repo>"),
    glob("$OUT/*", None, "<repo>"),
    glob("file://<out>/*", None, "<repo>"),
    glob("[/]tmp/**/secret.txt", None, "<repo>"),
    glob("{<out>,x}/*", None, "<repo>"),
    glob("--follow", None, "<repo>"),
    glob("<out>/*", "outside", "<repo>"),
    glob("/<out>/*", "outside", "<repo>"),
    glob("<out>/../*/*", "outside", "<repo>"),
    glob("<repo>/../*/*", "outside", "<repo>"),
    glob("<repo>/link/*", "outside", "<repo>"),
    glob("<repo>/lin?/*", None, "<repo>"),
    glob("<repo>/sub/*", "inside", "<repo>"),
    glob("<repo>/link /*", "outside", "<repo>"),
    glob("<repo>/link /secret.*", "outside"),
    glob("<repo>/link /secret.txt", "outside", "<repo>"),
    glob("<repo>/link\u3000/!(x)", "outside", "<repo>"),
    glob("<repo>/link/ *", None, "<repo>"),
    glob(" <repo>/link/*", None, "<repo>"),
    glob("link /*", None, "<repo>"),
    # White space around a path: cut off before a policy looks, or afterwards.
    *(read(f"<repo>/file{space}", "outside", "<repo>/file") for space in TRIMMED),
    *(read(f"<repo>/file{other}", None) for other in KEPT),
    read(" <repo>/file", "outside", "<repo>/file"),
    *(grep(f"<repo>/link{space}", "outside") for space in TRIMMED),
    *(grep(f"<repo>/link{other}", None) for other in KEPT),
    grep("\ufeff<repo>/link", "outside"),
    grep("<repo>/link /", None),
    *(glob("*", "outside", f"<repo>/link{space}") for space in TRIMMED),
    *(glob("*", None, f"<repo>/link{other}") for other in KEPT),
    glob("*", "outside", "\n<repo>/link"),
    # Writing: nothing is written through a link that is the file itself.
    Row("Write", {"file_path": "<repo>/link/new1\n", "content": ""}, "outside", {"file_path": "<repo>/link/new1"}),
    Row(
        "Write",
        {"path": "<repo>/link/new2 ", "content": ""},
        "outside",
        {"file_path": "<repo>/link/new2", "path": None},
    ),
    Row("Write", {"file_path": "<repo>/link/new3\u200b", "content": ""}, "outside"),
    Row("Write", {"file_path": "<repo>/file", "content": "x"}, None),
    Row("Write", {"file_path": "<repo>/sub/new4\u3000", "content": ""}, "inside", {"file_path": "<repo>/sub/new4"}),
    read("<repo>/link/secret.txt", "outside"),
    read("<repo>/link/nb.ipynb\t", "outside", "<repo>/link/nb.ipynb"),
    Row(
        "NotebookEdit",
        {"notebook_path": "<repo>/link/nb.ipynb ", "cell_id": "a", "new_source": "x"},
        "outside",
        {"notebook_path": "<repo>/link/nb.ipynb"},
    ),
    Row(
        "Edit",
        {"file_path": "link/secret.txt\ufeff", "old_string": "from", "new_string": "still from"},
        "outside",
        {"file_path": "<repo>/link/secret.txt", "replace_all": False},
    ),
    # The tools of servers: nothing is changed on the way.
    Row("mcp__own__echo", {"path": " ~/$OUT/../file \u3000"}, None),
]


@dataclass
class Place:
    """A repository, and beside it a directory that links in it lead to."""

    root: Path
    home: str = ""

    @property
    def repo(self) -> Path:
        return self.root / "repo"

    @property
    def out(self) -> Path:
        return self.root / "out"

    def filled(self, value: Any) -> Any:
        """Put the real directories in."""
        if isinstance(value, dict):
            return {key: self.filled(one) for key, one in value.items()}
        if not isinstance(value, str):
            return value
        return value.replace("<repo>", str(self.repo)).replace("<out>", str(self.out)).replace("<home>", self.home)

    def opened(self, row: Row, result: Mapping[str, Any], seen: Mapping[str, Any]) -> str | None:
        """Return where a tool was, by its result."""
        said = str(result["content"])
        if result.get("is_error") or row.tool.startswith("mcp__"):
            return None
        if row.tool in WRITING:
            path = Path(seen.get("file_path") or seen["notebook_path"])
            return "outside" if path.resolve().is_relative_to(self.out) else "inside"
        if any(mark in said for mark in (SECRET, "secret.txt", "nb.ipynb")):
            return "outside"
        return "inside" if any(mark in said for mark in ("from the inside", "in.txt")) else None


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    repo, out = place.repo, place.out
    for path in (out, repo / "sub", repo / "o\u0308"):
        path.mkdir(parents=True)
    (out / "secret.txt").write_text(SECRET)
    (out / "nb.ipynb").write_text(json.dumps(NOTEBOOK))
    for name in ("plain.txt", "sub/in.txt", "o\u0308/in.txt", "u\u0308.txt"):
        (repo / name).write_text("from the inside")
    for name in ("link", "\xf6", "half\ufffd"):
        (repo / name).symlink_to(out)
    for name in ("file", "\xfc.txt", "half\ufffd.txt", "Shot 1.00\u202fPM.png"):
        (repo / name).symlink_to(out / "secret.txt")
    return place


@dataclass
class Trial:
    """What became of the rows."""

    opened: list[str | None]
    seen: list[dict[str, Any]]
    """The last that a hook saw; empty where the CLI refused the call before."""
    results: list[dict[str, Any]]
    echoed: list[str]
    """What the server's tool was given."""


async def go(place: Place, rows: list[Row], **options: Any) -> Trial:
    """Let the model call all of it in one message."""
    (trial,) = await go_often(place, rows, **options)
    return trial


async def go_often(
    place: Place,
    rows: list[Row],
    *,
    first: Sequence[Any] = (),
    then: Sequence[Callable[[Client], Awaitable[object]]] = (),
    **options: Any,
) -> list[Trial]:
    """Let the model call all of it in one message, after what comes `first`, and again after each of `then`."""
    seen: dict[str | None, dict[str, Any]] = {}
    echoed: list[str] = []

    @tool
    def echo(path: str) -> str:
        """Say nothing of it.

        Args:
            path: A text.
        """
        echoed.append(path)
        return "heard"

    def look(input: Any, context: HookContext) -> None:
        seen[input.tool_use_id] = dict(input.tool_input)

    def call_all(request: RecordedRequest) -> Any:
        return Reply([tool_use(row.tool, place.filled(row.input)) for row in rows])

    trials: list[Trial] = []
    one = OneSession()
    with one.model as model:
        place.home = str(model.sandbox.home)
        hooks = {"PreToolUse": [HookMatcher(None, look), *options.pop("guards", ())]}
        own = {
            "cwd": place.repo,
            "tools": TOOLS,
            "hooks": hooks,
            "mcp_servers": {"own": ToolServer("own", [echo])},
            "env": {"OUT": str(place.out), "LINK": "link"},
        }
        async with Client(model.options(**own | options)) as one.client:
            for change in (None, *then):
                if change is not None:
                    await change(one.client)
                await one.ask(*first, call_all, "done", until="result")  # more than a hundred calls
                last = one.requests_of()[-1]
                (calls,) = [
                    [block for block in message["content"] if block["type"] == "tool_use"]
                    for message in last.messages[-2:-1]
                ]
                results = {result["tool_use_id"]: result for result in last.tool_results}
                answers = [results[call["id"]] for call in calls]
                saw = [seen.get(call["id"], {}) for call in calls]
                opened = [place.opened(*called) for called in zip(rows, answers, saw, strict=True)]
                trials.append(Trial(opened, saw, answers, echoed))
    return trials


async def test_a_policy_sees_the_path_that_a_tool_opens(place: Place) -> None:
    trial = await go(place, ROWS, permission_mode="bypassPermissions")
    for row, opened, seen, result in zip(ROWS, trial.opened, trial.seen, trial.results, strict=True):
        expected = {key: value for key, value in place.filled(row.input | row.seen).items() if value is not None}
        assert (row, seen) == (row, expected), result
        assert (row, opened) == (row, row.opens), result
    assert trial.echoed == [ROWS[-1].input["path"]]
    assert {path.name for path in place.out.iterdir()} == {"secret.txt", "nb.ipynb", "new1", "new2", "new3\u200b"}
    assert (place.out / "secret.txt").read_text() == f"still {SECRET}"


@pytest.mark.parametrize("how", ["a guard", pytest.param("can_use_tool", marks=pytest.mark.long)])
async def test_no_way_to_write_a_path_leads_out_of_within(place: Place, how: str) -> None:
    policy, options = within(place.repo), dict[str, Any]()
    if how == "a guard":
        options = {
            "guards": [guard(policy)],
            "permission_mode": "bypassPermissions",
            "additional_directories": [place.out],
        }
    else:
        options = {"can_use_tool": policy, "permission_mode": "default"}
    trial = await go(place, ROWS, **options)
    for row, opened, result in zip(ROWS, trial.opened, trial.results, strict=True):
        assert (row, opened) == (row, row.opens if row.opens == "inside" else None), result
    assert {path.name for path in place.out.iterdir()} == {"secret.txt", "nb.ipynb"}
    assert (place.out / "secret.txt").read_text() == SECRET


@pytest.mark.filterwarnings("ignore:can_use_tool will not be called")
async def test_a_search_without_a_path_stays_inside_after_the_shell_went_outside(place: Place) -> None:
    rows = [grep(None, None), grep("", None), glob("*", None), glob("**/*", None, "")]
    policy = first_of(allow_tools("Bash"), within(place.repo))
    fence = guard(policy)

    async def ask_instead(client: Client) -> None:
        """Have `can_use_tool` decide, which only hears of a search there if something wants it asked."""
        assert await client.hooks.remove(fence)
        await client.hooks.add("PreToolUse", ask_about_searches)
        await client.set_permission_mode("default")

    guarded, asked = await go_often(
        place,
        rows,
        first=[Reply(tool_use("Bash", {"command": f"cd {place.out}", "description": "Leave"}))],
        then=[ask_instead],
        guards=[fence],
        can_use_tool=policy,
        permission_mode="bypassPermissions",
        additional_directories=[place.out],
    )
    # a guard knows where the shell is, and denies; the other one does not, and says where to search
    assert guarded.opened == [None] * len(rows), guarded.results
    assert asked.opened == ["inside"] * len(rows), asked.results


def ask_about_searches(input: Any, context: HookContext) -> PreToolUseOutput | None:
    return PreToolUseOutput(permission_decision="ask") if input.tool_name != "Bash" else None


@pytest.mark.parametrize(
    ("is_closed", "verbatim"),
    [(True, None), *(pytest.param(False, given, marks=pytest.mark.long) for given in (False, None))],
)
async def test_mentioned_files_are_read_without_a_fenced_tool(
    place: Place, is_closed: bool, verbatim: bool | None
) -> None:
    """A guard that is not switched off leaves the files in a prompt to the tools."""
    skill = place.repo / ".claude" / "skills" / "look" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: look\ndescription: Look\n---\nLook.\n")
    (place.out / "other.txt").write_text("also outside")
    call = Reply(tool_use("Skill", {"skill": "look", "args": f"@{place.out}/other.txt"}))
    policy = first_of(within(place.repo), deny_tools("*")) if is_closed else within(place.repo)
    with ScriptedModel([call, text("done")]) as model:
        options = model.options(
            cwd=place.repo,
            setting_sources=["project"],
            hooks={"PreToolUse": [guard(policy)]},
            **({} if verbatim is None else {"verbatim_prompts": verbatim}),
        )
        with anyio.fail_after(240):
            async with Client(options) as client:
                await client.query("look at @link/secret.txt")
        last = model.requests_of("main")[-1]
    assert last.contains(SECRET) is (verbatim is False)
    assert last.contains("also outside") != is_closed
