"""What a server keeps of sessions and users in memory is bounded, and costs as much for many as for one."""

import time

from claude_agent_py.serve.event_log import EventLog
from claude_agent_py.serve.recent_use import RecentUse


def test_the_log_drops_what_a_fact_contains_and_whole_turns_beyond_its_limit() -> None:
    log = EventLog(1000, began_at=5.0)
    log.add(b"a", part_of="m")
    log.add(b"b", part_of="m")
    log.merge("m")
    log.add(b"ab")
    # Who has read the first delta gets the other one, too; who comes now gets neither.
    assert [event.data for event in log.read(1, joined=0)] == [b"b", b"ab"]
    assert [event.data for event in log.read(0, joined=3)] == [b"ab"]
    log.drop_merged(2)
    assert [event.data for event in log.read(0, joined=0)] == [b"ab"]
    assert log.start == (0, 5.0)
    for turn in range(10):
        log.add(b"prompt", cut_at=10.0 + turn)
        log.add(b"x" * 190)
    number, began_at = log.start
    assert not log.has_all_after(0)
    assert log.has_all_after(number)
    first = log.read(number)[0]
    assert (first.data, first.number) == (b"prompt", number + 1)
    assert began_at == 10.0 + (number - 3) // 2
    # The running turn is never cut, whatever its size.
    log.add(b"prompt", cut_at=99.0)
    for _ in range(50):
        log.add(b"y" * 100)
    assert log.start == (log.last - 51, 99.0)
    assert len(log.read(log.start[0])) == 51


def test_a_limit_of_many_users_takes_no_longer_and_forgets_them() -> None:
    use, begun = RecentUse(60), time.perf_counter()
    for now in (30, 60, 90):
        for number in range(30_000):  # if each looked at all others, this would take minutes
            assert use.add(f"{now}-{number}", 2, now) == 0
    assert time.perf_counter() - begun < 30
    assert len(use.users) == 60_000
    assert [use.add("ann", 2, now) for now in (91, 92, 111)] == [0, 0, 40]
    assert use.add("ann", 2, 151) == 0
    assert set(use.users) == {"ann"}
    assert use.add("ann", 2, 151.5) == 0.5
