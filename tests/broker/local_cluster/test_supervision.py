"""The decisions over the nodes of one terminal, without processes and clocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.local_cluster.supervision import (
    Ended,
    Finish,
    Kill,
    Print,
    Say,
    StopAsked,
    Supervisor,
    Terminate,
    Tick,
    Wrote,
)

READY = "ready kafka=127.0.0.1:909{} http=127.0.0.1:808{} bucket=file:///b"


def ready(node_id: int) -> Wrote:
    return Wrote(node_id, READY.format(node_id, node_id), on_stdout=True)


@pytest.fixture
def three():
    """Three nodes that serve."""
    supervisor = Supervisor([1, 2, 3], grace_ms=1000)
    for node_id in (1, 2, 3):
        supervisor.step(ready(node_id), 0)
    return supervisor


def said(actions) -> list[str]:
    return [each.text for each in actions if isinstance(each, Say)]


def test_each_node_has_a_ready_line_and_the_last_one_brings_that_of_the_cluster():
    """In any order of readiness; addresses stand by id."""
    supervisor = Supervisor([1, 2, 3])
    assert supervisor.step(ready(3), 0) == [
        Print("ready node=3 kafka=127.0.0.1:9093 http=127.0.0.1:8083 bucket=file:///b")
    ]
    assert supervisor.step(ready(1), 0) == [
        Print("ready node=1 kafka=127.0.0.1:9091 http=127.0.0.1:8081 bucket=file:///b")
    ]
    of_all, words = supervisor.step(ready(2), 0)[1:]
    assert of_all == Print("ready nodes=3 kafka=127.0.0.1:9091,127.0.0.1:9092,127.0.0.1:9093 bucket=file:///b")
    assert [each["http"] for each in words.nodes] == ["127.0.0.1:8081", "127.0.0.1:8082", "127.0.0.1:8083"]


def test_every_other_line_goes_to_stderr_with_its_node(three):
    """Also what looks like a second ready line, and a ready line on stderr."""
    assert three.step(Wrote(2, "INFO x"), 0) == [Say("2 | INFO x")]
    assert three.step(ready(2), 0) == [Say(f"2 | {READY.format(2, 2)}")]
    supervisor = Supervisor([1])
    assert supervisor.step(Wrote(1, "ready x"), 0) == [Say("1 | ready x")]


def test_a_node_that_dies_is_said_with_its_last_lines_and_the_others_go_on(three):
    """At most ten lines; no other node is stopped for it."""
    for number in range(12):
        three.step(Wrote(2, f"line {number}"), 0)
    actions = three.step(Ended(2, -9), 0)
    assert said(actions) == [
        "Node 2 ended with SIGKILL. Nodes 1, 3 go on.",
        "The last lines of node 2:",
        *(f"  line {number}" for number in range(2, 12)),
    ]
    assert len(actions) == len(said(actions))
    assert said(three.step(Ended(3, 1), 0)) == ["Node 3 ended with exit code 1. Node 1 goes on."]
    assert three.step(Ended(1, -64), 0) == [Say("Node 1 ended with SIGRTMAX. No node is left."), Finish(failed=True)]


def test_a_cluster_whose_node_died_before_it_served_has_no_ready_line():
    """The others have theirs."""
    supervisor = Supervisor([1, 2])
    supervisor.step(Ended(1, 2), 0)
    assert len(supervisor.step(ready(2), 0)) == 1


def test_nodes_stop_one_after_the_other(three):
    """The highest id first; each has its grace, and the end is said."""
    assert three.step(StopAsked("SIGINT"), 0) == [Say("SIGINT: stopping node 3, then 2, then 1."), Terminate(3)]
    assert three.wakes_at_ms == 1000
    assert three.step(Ended(3, 0), 400) == [Say("Node 3 has stopped."), Terminate(2)]
    assert three.wakes_at_ms == 1400
    assert three.step(Ended(2, 0), 500) == [Say("Node 2 has stopped."), Terminate(1)]
    assert three.step(Ended(1, 0), 600) == [Say("Node 1 has stopped."), Finish(failed=False)]
    assert three.wakes_at_ms is None


def test_a_node_that_does_not_stop_within_its_grace_is_killed_and_the_next_one_is_asked(three):
    """The end counts as a failure."""
    three.step(StopAsked("SIGTERM"), 0)
    assert three.step(Tick(), 999) == []
    said_and_killed = three.step(Tick(), 1000)
    assert said(said_and_killed)[0].startswith("Node 3 has not stopped within 1 s and is killed")
    assert said_and_killed[-1] == Kill(3)
    assert three.wakes_at_ms is None
    assert three.step(Ended(3, -9), 1001) == [Terminate(2)]
    three.step(Ended(2, 0), 1100)
    assert three.step(Ended(1, 0), 1200)[-1] == Finish(failed=True)


def test_a_second_signal_kills_all_at_once(three):
    """One that comes together with the first counts as the same."""
    three.step(StopAsked("SIGINT"), 100)
    assert three.step(StopAsked("SIGTERM"), 149) == []
    assert three.step(StopAsked("SIGINT"), 150)[1:] == [Kill(1), Kill(2), Kill(3)]
    assert three.step(StopAsked("SIGINT"), 500) == [
        Say("Second SIGINT: stopping at once; logs are recovered at the next start.")
    ]
    assert three.step(Ended(2, -9), 501) == three.step(Ended(1, -9), 501) == []
    assert three.step(Ended(3, -9), 501) == [Finish(failed=True)]


def test_a_node_that_dies_while_another_stops_is_no_reason_to_ask_a_second_one(three):
    """Only one is stopping at a time; the dead one is said, and skipped."""
    three.step(StopAsked("SIGINT"), 0)
    assert said(three.step(Ended(2, 1), 10))[0] == "Node 2 ended with exit code 1. Nodes 1, 3 go on."
    assert three.step(Ended(3, 0), 20) == [Say("Node 3 has stopped."), Terminate(1)]


def test_a_node_that_stops_with_an_exit_code_has_failed(three):
    """It is said with the code."""
    three.step(StopAsked("SIGINT"), 0)
    assert said(three.step(Ended(3, 1), 20)) == ["Node 3 has stopped with exit code 1."]
    three.step(Ended(2, 0), 30)
    assert three.step(Ended(1, 0), 40)[-1] == Finish(failed=True)


EVENTS = st.one_of(
    st.builds(Wrote, st.integers(1, 3), st.sampled_from(["x", READY.format(1, 1)]), st.booleans()),
    st.builds(Ended, st.integers(1, 3), st.sampled_from([0, 1, -9])),
    st.sampled_from([StopAsked("SIGINT"), Tick()]),
)


@given(st.lists(st.tuples(EVENTS, st.integers(0, 400)), max_size=60))
def test_every_order_of_events_ends_when_the_last_node_has_and_stops_each_once(steps):
    """A node that has ended is asked no more; once a stop is asked for, there is always one that stops."""
    supervisor, living, asked, killed, now_ms, stopped = (
        Supervisor([1, 2, 3], grace_ms=300),
        {1, 2, 3},
        set(),
        set(),
        0,
        False,
    )
    for event, passed_ms in steps:
        if isinstance(event, Wrote | Ended) and event.node_id not in living:
            continue
        now_ms += passed_ms
        if isinstance(event, Ended):
            living.discard(event.node_id)
        stopped |= isinstance(event, StopAsked)
        actions = supervisor.step(event, now_ms)
        for action in actions:
            if isinstance(action, Terminate):
                assert action.node_id in living - asked
                asked.add(action.node_id)
            if isinstance(action, Kill):
                assert action.node_id in living - killed
                killed.add(action.node_id)
        assert (Finish(failed=True) in actions or Finish(failed=False) in actions) == (not living)
        if not living:
            return
        assert not stopped or (asked | killed) & living
        assert supervisor.wakes_at_ms is None or asked & living - killed
