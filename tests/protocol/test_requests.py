"""Requests and their replies: whose a reply is, and what is late, double or unknown."""

from hypothesis import given, strategies as st

from claude_agent_py._protocol.requests import REMEMBERED, IncomingRequests, OutgoingRequests, PendingRequest


def opened(requests: OutgoingRequests, *, now: float = 0.0, timeout: float | None = None) -> str:
    return requests.open("interrupt", now=now, timeout=timeout).request_id


# Ours


def test_a_reply_finds_its_request_in_any_order() -> None:
    requests = OutgoingRequests()
    first = requests.open("interrupt", now=0.0, timeout=None)
    second = requests.open("set_model", now=0.0, timeout=2.0)
    assert first.request_id != second.request_id
    assert requests.resolve(second.request_id) is second
    assert requests.resolve(first.request_id) is first
    assert len(requests) == 0


def test_a_second_reply_is_a_duplicate() -> None:
    requests = OutgoingRequests()
    request_id = opened(requests)
    requests.resolve(request_id)
    assert requests.resolve(request_id) == "duplicate"


def test_a_reply_that_nobody_waits_for_any_more_is_late() -> None:
    requests = OutgoingRequests()
    request_id = opened(requests)
    requests.forget(request_id)
    assert requests.resolve(request_id) == "late"


def test_a_reply_to_no_request_of_ours_is_unknown() -> None:
    assert OutgoingRequests().resolve("req_1") == "unknown"


def test_forgetting_what_was_answered_changes_nothing() -> None:
    requests = OutgoingRequests()
    request_id = opened(requests)
    requests.resolve(request_id)
    requests.forget(request_id)
    assert requests.resolve(request_id) == "duplicate"


def test_a_request_expires_at_its_deadline_and_its_reply_is_late() -> None:
    requests = OutgoingRequests()
    hasty = requests.open("interrupt", now=10.0, timeout=2.0)
    patient = opened(requests, now=10.0, timeout=5.0)
    forever = opened(requests, now=10.0)
    assert requests.next_deadline() == 12.0
    assert requests.expire(11.9) == []
    assert requests.expire(12.0) == [hasty]
    assert requests.resolve(hasty.request_id) == "late"
    assert requests.next_deadline() == 15.0
    assert [r.request_id for r in requests.expire(1000.0)] == [patient]
    assert requests.next_deadline() is None
    assert isinstance(requests.resolve(forever), PendingRequest)


def test_the_memory_for_settled_requests_is_bounded() -> None:
    requests = OutgoingRequests()
    ids = [opened(requests) for _ in range(REMEMBERED + 1)]
    for request_id in ids:
        requests.resolve(request_id)
    assert requests.resolve(ids[0]) == "unknown"
    assert requests.resolve(ids[1]) == "duplicate"


# The CLI's


def test_a_request_of_the_cli_is_accepted_once() -> None:
    requests = IncomingRequests()
    assert requests.accept("r")
    assert not requests.accept("r")
    assert len(requests) == 1


def test_a_request_that_was_answered_is_not_accepted_again() -> None:
    requests = IncomingRequests()
    requests.accept("r")
    assert requests.settle("r")
    assert len(requests) == 0
    assert not requests.accept("r")


def test_a_request_is_settled_once() -> None:
    requests = IncomingRequests()
    requests.accept("r")
    assert requests.settle("r")
    assert not requests.settle("r")
    assert not requests.settle("never asked")


@given(st.lists(st.tuples(st.sampled_from(["accept", "settle"]), st.integers(0, 3))))
def test_each_request_is_accepted_and_settled_at_most_once(steps: list[tuple[str, int]]) -> None:
    requests = IncomingRequests()
    done: list[tuple[str, int]] = []
    for action, number in steps:
        if (requests.accept if action == "accept" else requests.settle)(str(number)):
            done.append((action, number))
    assert len(done) == len(set(done))
    assert all(done.index(("accept", n)) < done.index(("settle", n)) for action, n in done if action == "settle")
