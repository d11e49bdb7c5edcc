"""Listing sessions from the beginnings and the ends of their transcripts, and finding text in them."""

import contextlib
import errno
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from bounds import set_bound
from stored import SESSION, Stored, call

from claude_agent_py import sessions
from claude_agent_py.errors import OptionsError, SessionBusyError, SessionError, SessionNotFoundError
from claude_agent_py.sessions import (
    SessionInfo,
    fork_session,
    get_session,
    get_session_info,
    list_sessions,
    project_key_for_directory,
    running_sessions,
    search_sessions,
)


def session_id(number: int) -> str:
    return str(uuid.UUID(int=number, version=4))


@pytest.mark.anyio
async def test_a_call_with_await_says_to_leave_it_out_and_does_nothing(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.user("hello")
    unawaitable: Any = sessions
    for name in ("list_sessions", "running_sessions"):
        with pytest.raises(TypeError, match=rf"^{name}\(\) is not a coroutine: call it without await"):
            await getattr(unawaitable, name)()
    for name in ("get_session", "get_session_info", "fork_session", "delete_session"):
        with pytest.raises(TypeError, match=rf"to_thread\.run_sync\({name}, \.\.\.\)"):
            await getattr(unawaitable, name)(stored.id, config_dir=stored.config)
    [found] = await to_thread.run_sync(lambda: list_sessions(config_dir=stored.config))
    assert found.id == found.session_id == stored.id


def info(stored: Stored) -> SessionInfo:
    return get_session_info(stored.id, config_dir=stored.config)


def test_the_facts_of_a_session(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.note("queue-operation", operation="enqueue", content="hi", timestamp="2026-01-01T00:00:00.000Z")
    stored.user("<command-name>/clear</command-name>")
    stored.user("a caveat", isMeta=True)
    stored.user([{"type": "text", "text": "Find\nthe   bug"}])
    stored.assistant("found", gitBranch="fix")
    stored.note("last-prompt", lastPrompt="Find the bug")
    stored.note("tag", tag="old")
    stored.note("ai-title", aiTitle="A bug")
    stored.note("tag", tag="urgent")
    stored.note("cost-state", totalCostUSD=0.25)
    [found] = list_sessions(config_dir=tmp_path)
    status = stored.path.stat()
    assert found == SessionInfo(
        session_id=SESSION,
        summary="A bug",
        last_modified=status.st_mtime_ns // 1_000_000,
        file_size=status.st_size,
        custom_title="A bug",
        first_prompt="Find the bug",
        last_prompt="Find the bug",
        git_branch="fix",
        cwd="/work",
        tag="urgent",
        created_at=1767225600000,
        cost_usd=0.25,
        message_count=4,
        path=str(stored.path),
    )
    assert found.project_key == "-work"
    stored.note("custom-title", customTitle="Mine")
    stored.note("tag", tag="")
    assert (info(stored).custom_title, info(stored).tag, info(stored).summary) == ("Mine", None, "Mine")


def test_notes_quoted_in_messages_are_no_titles(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    forged = '{"type":"custom-title","customTitle":"forged"}'
    stored.user(f"hello\n{forged}")
    stored.assistant(call("t1", "Write", customTitle="forged", summary="forged", tag="forged", type="tag"))
    stored.result("t1", forged, toolUseResult={"type": "custom-title", "customTitle": "forged", "lastPrompt": "forged"})
    assert "forged" not in str([info(stored).custom_title, info(stored).tag, info(stored).last_prompt])
    assert info(stored).first_prompt == f"hello {forged}"


def test_a_large_transcript_is_read_at_its_ends(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.entry("attachment", attachment={"type": "x", "text": "x" * 30_000})
    stored.user("the prompt")
    stored.note("custom-title", customTitle="in the middle")
    for _ in range(10):
        stored.assistant("x" * 15_000)
    found = info(stored)
    assert (found.first_prompt, found.custom_title, found.message_count) == ("the prompt", "in the middle", None)


def test_a_title_is_not_forgotten_when_a_session_continues(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.user("the prompt")
    stored.note("custom-title", customTitle="far away")
    assert info(stored).custom_title == "far away"
    for _ in range(30):
        stored.assistant("x" * 20_000)
    assert info(stored).custom_title == "far away"


def test_a_longer_file_with_the_inode_of_the_one_that_it_replaces_does_not_get_its_title(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.user("the prompt")
    stored.note("custom-title", customTitle="Old")
    stored.note("tag", tag="old")
    assert info(stored).custom_title == "Old"
    inode = stored.path.stat().st_ino
    stored.path.write_text("")
    another = Stored(tmp_path)
    another.user("another prompt", timestamp="2026-02-01T00:00:00.000Z")
    another.assistant("x" * 300_000)
    another.note("custom-title", customTitle="New")
    another.assistant("x" * 300_000)
    assert stored.path.stat().st_ino == inode  # as that of a file that replaced a deleted one often is
    [listed] = list_sessions(config_dir=tmp_path)
    assert (listed.first_prompt, listed.custom_title, listed.tag) == ("another prompt", None, None)
    assert (info(another).custom_title, info(another).tag) == ("New", None)


@pytest.mark.parametrize("cut", ['{"type":"custom-title","customTi', '{"type":"tag","ta', '{"type":"last-prompt"'])
def test_a_note_that_is_not_complete_does_not_hide_the_one_before(tmp_path: Path, cut: str) -> None:
    stored = Stored(tmp_path)
    stored.user("one")
    stored.note("custom-title", customTitle="A title")
    stored.note("tag", tag="a tag")
    stored.note("last-prompt", lastPrompt="two")
    with stored.path.open("a") as file:
        file.write(cut)
    for found in (*list_sessions(config_dir=tmp_path), info(stored)):
        assert (found.custom_title, found.tag, found.last_prompt) == ("A title", "a tag", "two")


def test_a_session_that_is_deleted_while_others_are_listed_hides_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        Stored(tmp_path, session_id(number)).user("hi")
    real, gone = os.scandir, list[str]()

    @contextlib.contextmanager
    def scan(path: Any) -> Iterator[Iterator[os.DirEntry[str]]]:
        def entries() -> Iterator[os.DirEntry[str]]:
            for entry in found:
                if entry.name.endswith(".jsonl") and not gone:
                    gone.append(entry.name.removesuffix(".jsonl"))
                    os.unlink(entry.path)
                yield entry

        with real(path) as found:
            yield entries()

    monkeypatch.setattr(os, "scandir", scan)
    listed = {each.id for each in list_sessions(config_dir=tmp_path)}
    assert listed - {*gone} == {session_id(number) for number in range(3)} - {*gone}


def test_a_title_far_back_is_found_for_a_single_session(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.user("one")
    stored.note("custom-title", customTitle="Old")
    for number in range(12):
        stored.assistant("x" * 200_000)
        if number == 3:
            stored.note("custom-title", customTitle="New")
            stored.note("tag", tag="kept")
    [listed] = list_sessions(config_dir=tmp_path)
    assert listed.tag is None
    assert (info := get_session_info(stored.id, config_dir=tmp_path)).custom_title == "New"
    assert info.tag == "kept"
    [listed] = list_sessions(config_dir=tmp_path)
    assert (listed.custom_title, listed.tag) == ("New", "kept")  # it is remembered, also when the session goes on
    stored.user("more")
    assert [one.tag for one in list_sessions(config_dir=tmp_path)] == ["kept"]
    stored.note("tag", tag="")
    assert get_session_info(stored.id, config_dir=tmp_path).tag is None


def test_sessions_are_listed_newest_first_in_pages(tmp_path: Path) -> None:
    for number in range(6):
        stored = Stored(tmp_path, session_id(number), project=f"-work-{number % 2}")
        stored.user(f"prompt {number}")
        os.utime(stored.path, (number, number))
    Stored(tmp_path, session_id(7)).note("mode", mode="normal")  # nobody prompted yet
    (tmp_path / "projects" / "-work" / "notes.jsonl").write_text("{}\n")
    prompts = [found.first_prompt for found in list_sessions(config_dir=tmp_path)]
    assert prompts == [f"prompt {number}" for number in (5, 4, 3, 2, 1, 0)]
    page = list_sessions(limit=2, offset=1, config_dir=tmp_path)
    assert [found.first_prompt for found in page] == ["prompt 4", "prompt 3"]
    assert list_sessions(limit=0, config_dir=tmp_path) == []
    with pytest.raises(OptionsError, match="limit"):
        list_sessions(limit=-1, config_dir=tmp_path)


def test_listing_again_reads_only_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = [Stored(tmp_path, session_id(number)) for number in range(3)]
    for one in stored:
        one.user("hi")
    before = list_sessions(config_dir=tmp_path)
    read: list[str] = []
    real = os.open

    def noted(path: str, *args: int, **more: int) -> int:
        read.append(str(path))
        return real(path, *args, **more)

    monkeypatch.setattr(os, "open", noted)
    assert list_sessions(config_dir=tmp_path) == before
    assert read == []
    stored[1].note("custom-title", customTitle="new")
    again = list_sessions(config_dir=tmp_path)
    assert read == [str(stored[1].path)]
    assert [found.custom_title for found in again if found.session_id == stored[1].id] == ["new"]


def test_what_cannot_be_read_hides_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = [Stored(tmp_path, session_id(number)) for number in range(3)]
    for one in stored:
        one.user("hi")
    Path(stored[0].path.with_name(f"{session_id(4)}.jsonl")).mkdir()
    Path(stored[0].path.with_name(f"{session_id(5)}.jsonl")).symlink_to(stored[0].path)
    real_open, real_scan, locked = os.open, os.scandir, tmp_path / "projects" / "-locked"
    locked.mkdir()

    def refuse(path: Any, *arguments: Any, **more: Any) -> int:
        if path == str(stored[1].path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real_open(path, *arguments, **more)

    def refuse_folder(path: Any) -> Any:
        if path == str(locked):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real_scan(path)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "scandir", refuse_folder)
    listed = {found.id for found in list_sessions(config_dir=tmp_path)}
    assert listed == {stored[0].id, stored[2].id}
    for read in (get_session_info, get_session, fork_session):
        with pytest.raises(SessionError, match="cannot be read: Permission denied") as caught:
            read(stored[1].id, config_dir=tmp_path)
        assert caught.value.session_id == stored[1].id


def test_the_cache_of_a_list_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "MOST_CACHED", 2)
    for number in range(3):
        stored = Stored(tmp_path, session_id(number))
        stored.user("hi")
        os.utime(stored.path, (number, number))
    before = list_sessions(config_dir=tmp_path)
    read: list[str] = []
    real = os.open

    def noted(path: Any, *arguments: Any, **more: Any) -> int:
        read.append(os.path.basename(path))
        return real(path, *arguments, **more)

    monkeypatch.setattr(os, "open", noted)
    assert list_sessions(limit=1, config_dir=tmp_path) == before[:1]
    assert list_sessions(limit=1, config_dir=tmp_path) == before[:1]
    assert read == [f"{session_id(2)}.jsonl"]


def test_nothing_there_is_no_error(tmp_path: Path) -> None:
    assert list_sessions(config_dir=tmp_path / "nowhere") == []
    assert list_sessions(tmp_path, config_dir=tmp_path) == []
    with pytest.raises(SessionNotFoundError, match=SESSION):
        get_session_info(SESSION, config_dir=tmp_path)


# Projects --------------------------------------------------------------------------------------------------------


def test_the_key_of_a_directory(tmp_path: Path) -> None:
    """Measured with CLI 2.1.328: the key is of UTF-16 units, and a long one is cut at 200 and gets a hash."""
    assert project_key_for_directory("/a/b.c_d") == "-a-b-c-d"
    assert project_key_for_directory("/\U0001f600-\xe9") == "-----"
    assert project_key_for_directory("/e\u0301") == "--"
    assert project_key_for_directory() == project_key_for_directory(".")
    long = f"/tmp/claude-agent-py-xcackd5u/work/{'L' * 120}/{'M' * 120}"
    assert project_key_for_directory(long).endswith("MMM-a5ul46")
    assert len(project_key_for_directory(long)) == 207


def test_a_project_includes_its_working_trees(tmp_path: Path) -> None:
    repository, tree, other = tmp_path / "repo", tmp_path / "tree", tmp_path / "other"
    repository.mkdir()
    other.mkdir()
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(repository)]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], ["worktree", "add", "-q", str(tree)]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    for number, folder in enumerate((repository, tree, other)):
        Stored(tmp_path, session_id(number), project_key_for_directory(folder)).user(folder.name)

    def listed(folder: Path, **more: bool) -> set[str | None]:
        return {found.first_prompt for found in list_sessions(folder, config_dir=tmp_path, **more)}

    (tree / "below").mkdir()
    assert listed(tree / "below") == {"repo", "tree"}
    assert listed(repository) == listed(tree) == {"repo", "tree"}
    assert listed(tree, include_worktrees=False) == {"tree"}
    assert listed(other) == {"other"}
    assert get_session_info(session_id(1), repository, config_dir=tmp_path).first_prompt == "tree"
    with pytest.raises(SessionNotFoundError):
        get_session_info(session_id(2), repository, config_dir=tmp_path)


# Search ----------------------------------------------------------------------------------------------------------


def test_search_finds_prompts_calls_results_and_compacted_messages(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.user("Where is the NEEDLE, and the \xc9l\xe9phant?")
    last = stored.assistant(call("t1", command="grep needle"))
    stored.entry("system", after=None, subtype="compact_boundary", logicalParentUuid=last)
    stored.user("summary", isCompactSummary=True)
    stored.result("t1", 'a "needle" in\nthe hay')
    Stored(tmp_path, session_id(2)).user("nothing here")
    hits = list(search_sessions("needle", config_dir=tmp_path))
    assert [hit.excerpt for hit in hits] == [
        "Where is the NEEDLE, and the \xc9l\xe9phant?",
        "grep needle",
        'a "needle" in\nthe hay',
    ]
    assert {hit.session_id for hit in hits} == {SESSION}
    assert len(list(search_sessions("\xe9L\xc9PHANT", config_dir=tmp_path))) == 1
    assert len(list(search_sessions('"needle" in\nthe', config_dir=tmp_path))) == 1
    assert len(list(search_sessions("needle", limit=2, config_dir=tmp_path))) == 2
    assert list(search_sessions("parentUuid", config_dir=tmp_path)) == []
    with pytest.raises(OptionsError, match="text"):
        search_sessions(" ", config_dir=tmp_path)


@pytest.mark.parametrize("text", ["needle", "n\xe9edle"])
def test_search_continues_after_a_session_that_was_deleted_meanwhile(text: str, tmp_path: Path) -> None:
    for number in range(2):
        stored = Stored(tmp_path, session_id(number))
        stored.user(text)
        os.utime(stored.path, (number, number))
    hits = search_sessions(text, config_dir=tmp_path)
    stored.path.unlink()
    assert [hit.session_id for hit in hits] == [session_id(0)]


def test_an_excerpt_has_the_text_whatever_is_before_it(tmp_path: Path) -> None:
    Stored(tmp_path).user("\xdf" * 100 + "\u0130" * 100 + " NEEDLE here")  # lower case of these is longer
    [hit] = search_sessions("needle", config_dir=tmp_path)
    assert hit.excerpt == "\u2026" + "\u0130" * 59 + " NEEDLE here"


def test_search_finds_no_thoughts_and_pictures(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "needle"}}
    stored.user([{"type": "text", "text": "look"}, picture])
    stored.assistant({"type": "thinking", "thinking": "needle", "signature": ""}, "a needle")
    assert [hit.excerpt for hit in search_sessions("needle", config_dir=tmp_path)] == ["a needle"]


def test_text_that_json_escapes_is_found(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    with stored.path.open("w") as file:
        entry = {"type": "user", "uuid": "u", "message": {"role": "user", "content": "caf\xe9 \u2028 end"}}
        file.write(json.dumps(entry, ensure_ascii=True) + "\n")
    assert len(list(search_sessions("caf\xe9 \u2028", config_dir=tmp_path))) == 1


def test_bad_records_of_processes_hide_no_session(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    good = {"pid": os.getpid(), "sessionId": "good", "cwd": "/work", "startedAt": 1_700_000_000_000}
    numbers = (10**400, -(10**400), 10**17, 1e308, True, "soon", None, [1])
    records = [json.dumps({**good, "sessionId": f"s{at}", "startedAt": number}) for at, number in enumerate(numbers)]
    elsewhere = {"pidDomain": "linux:m:pid:[1]"}
    records += [json.dumps({**good, **elsewhere, "pid": pid}) for pid in (0, -1, 10**30, True, 1.5, "1", None)]
    records += ["", "{", "[]", "1" * 5000, '{"pid": ' + "1" * 5000 + "}", "[" * 10_000, json.dumps(good)]
    records += [json.dumps(good).replace("1700000000000", "1e999").replace("good", "far")]
    for number, record in enumerate(records):
        (folder / f"{number}.json").write_text(record)
    (folder / "999.json").mkdir()
    found = running_sessions(tmp_path)
    assert sorted(each.session_id for each in found) == sorted(["far", "good", *(f"s{at}" for at in range(8))])
    assert {each.started_at for each in found} <= {0.0, 0.001, 1_700_000_000.0}


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_a_process_of_another_user_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, signal: int) -> None:
        raise PermissionError

    (tmp_path / "sessions").mkdir()
    record = {"pid": os.getpid(), "sessionId": "s", "cwd": "/work", "startedAt": 1_700_000_000_000}
    (tmp_path / "sessions" / "1.json").write_text(json.dumps(record))
    (tmp_path / "sessions" / "1.json.tmp").write_text(json.dumps(record))
    monkeypatch.setattr(os, "kill", refuse)
    assert [each.session_id for each in running_sessions(tmp_path)] == ["s"]


def test_where_no_namespace_is_known_a_process_is_in_that_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> str:
        raise FileNotFoundError(errno.ENOENT, "there is no /proc", path)

    (tmp_path / "sessions").mkdir()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for pid in (os.getpid(), ended.pid):
        record = {"pid": pid, "sessionId": str(pid), "cwd": "/work", "pidDomain": "linux:m:pid:[1]"}
        (tmp_path / "sessions" / f"{pid}.json").write_text(json.dumps(record))
    assert len(running_sessions(tmp_path)) == 2
    monkeypatch.setattr(os, "readlink", fail)
    assert [each.session_id for each in running_sessions(tmp_path)] == [str(os.getpid())]


def test_a_session_in_two_projects_is_listed_once(tmp_path: Path) -> None:
    for number, project in enumerate(("-one", "-two")):
        stored = Stored(tmp_path, project=project)
        stored.user(project)
        os.utime(stored.path, (number, number))
    (tmp_path / "projects" / "a-file").write_text("no project")
    assert [found.first_prompt for found in list_sessions(config_dir=tmp_path)] == ["-two"]


def test_a_branch_that_is_no_text_is_none(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.user("hello")
    stored.path.write_text(stored.path.read_text().replace('"gitBranch":"main"', '"gitBranch":"\\x"'))
    assert info(stored).git_branch is None


def test_a_bare_repository_has_no_main_working_tree(tmp_path: Path) -> None:
    bare, tree = tmp_path / "bare.git", tmp_path / "tree"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C"]
    source = tmp_path / "source"
    source.mkdir()
    for command in (
        [str(source), "init", "-q"],
        [str(source), "commit", "-q", "--allow-empty", "-m", "x"],
        [str(source), "clone", "-q", "--bare", ".", str(bare)],
        [str(bare), "worktree", "add", "-q", str(tree)],
    ):
        subprocess.run([*git, *command], check=True, capture_output=True)
    for number, folder in enumerate((tree, bare, bare.parent)):
        Stored(tmp_path, session_id(number), project_key_for_directory(folder)).user(folder.name)
    assert [found.first_prompt for found in list_sessions(tree, config_dir=tmp_path)] == ["tree"]


def test_a_git_folder_elsewhere_is_that_of_one_working_tree(tmp_path: Path) -> None:
    """As `git init --separate-git-dir` makes it, and as in a submodule: it has no common folder."""
    source, folder = tmp_path / "source", tmp_path / "elsewhere" / ".git"
    folder.parent.mkdir()
    command = ["git", "init", "-q", "--separate-git-dir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    for number, each in enumerate((source, folder, folder.parent)):
        Stored(tmp_path, session_id(number), project_key_for_directory(each)).user(each.name)
    assert {found.first_prompt for found in list_sessions(source, config_dir=tmp_path)} == {"source", "elsewhere"}


def test_a_project_of_a_long_path_is_found_whatever_its_hash(tmp_path: Path) -> None:
    long = f"/tmp/{'L' * 120}/{'M' * 120}"
    key = project_key_for_directory(long)
    Stored(tmp_path, project=f"{key.rpartition('-')[0]}-0ld1").user("of an earlier CLI")
    assert [found.first_prompt for found in list_sessions(long, config_dir=tmp_path)] == ["of an earlier CLI"]


def test_search_finds_the_parts_of_a_call(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.user("Change it.")
    stored.assistant(call("t1", "Edit", edits=[{"old": "left"}, "right"], count=1234567, none=None), "ok")
    assert [hit.excerpt for hit in search_sessions("left", config_dir=tmp_path)] == ["left"]
    assert [hit.excerpt for hit in search_sessions("right", config_dir=tmp_path)] == ["right"]
    assert [hit.excerpt for hit in search_sessions("345", config_dir=tmp_path)] == ["1234567"]
    assert [hit.excerpt for hit in search_sessions("ok", config_dir=tmp_path)] == ["ok"]


def test_a_process_of_another_session_is_not_that_of_this_one(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    record = {"pid": os.getpid(), "cwd": "/work", "startedAt": 1_700_000_000_000}
    for number, name in enumerate(("other", SESSION.upper(), "another")):
        (tmp_path / "sessions" / f"{number}.json").write_text(json.dumps({**record, "sessionId": name}))
    Stored(tmp_path).user("hello")
    with pytest.raises(SessionBusyError):
        sessions.delete_session(SESSION, config_dir=tmp_path)
    (tmp_path / "sessions" / "1.json").unlink()
    sessions.delete_session(SESSION, config_dir=tmp_path)
    assert list_sessions(config_dir=tmp_path) == []
