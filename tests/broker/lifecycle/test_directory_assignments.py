"""Reports of replicas' directories, step by step."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.lifecycle.directory_assignments import (
    BATCH_MAX,
    LINGER_MS,
    DirectoryAssignments,
    Failed,
    Gone,
    LeaderChanged,
    Placed,
    Replica,
    Reported,
    Ticked,
)

A, B = b"a" * 16, b"b" * 16
TOPIC = b"t" * 16


def replica(number):
    return Replica(TOPIC, number)


@pytest.fixture
def machine():
    return DirectoryAssignments(lambda: 0.5)


def test_replicas_of_one_change_are_reported_together(machine):
    """After a short wait; the next ones wait for the answer, and need no second wait."""
    for number in range(3):
        assert machine.step(Placed(replica(number), A), 0) == []
    assert machine.wake_at_ms == LINGER_MS
    assert machine.step(Ticked(), LINGER_MS - 1) == []
    (report,) = machine.step(Ticked(), LINGER_MS)
    assert report.directories == {replica(number): A for number in range(3)}
    machine.step(Placed(replica(3), B), 20)
    assert machine.wake_at_ms == inf
    (second,) = machine.step(Reported(report.number, frozenset()), 30)
    assert second.directories == {replica(3): B}
    assert machine.step(Reported(report.number, frozenset()), 31) == []
    assert machine.step(Reported(second.number, frozenset()), 32) == []
    assert (len(machine), machine.wake_at_ms) == (0, inf)


def test_a_request_is_bounded_and_refused_replicas_go_behind_the_others(machine):
    """Those that are refused for ever hold up no other."""
    for number in range(BATCH_MAX + 5):
        machine.step(Placed(replica(number), A), 0)
    (report,) = machine.step(Ticked(), LINGER_MS)
    assert len(report.directories) == BATCH_MAX
    assert machine.step(Reported(report.number, frozenset({replica(0)})), 100) == []
    assert machine.wake_at_ms == 200
    (second,) = machine.step(Ticked(), 200)
    assert list(second.directories) == [*map(replica, range(BATCH_MAX, BATCH_MAX + 5)), replica(0)]


def test_a_report_is_awaited_until_it_is_taken(machine):
    """One of before, that is still in flight, does not count."""
    machine.step(Placed(replica(1), A), 0)
    (sent,) = machine.step(Ticked(), 1000)
    machine.step(Placed(replica(1), B), 1000)
    (second,) = machine.step(Reported(sent.number, frozenset()), 1000)
    assert (second.directories, machine.awaits(replica(1))) == ({replica(1): B}, True)
    machine.step(Reported(second.number, frozenset()), 1000)
    assert not machine.awaits(replica(1))


def test_a_failed_request_is_repeated_with_what_is_still_so(machine):
    """After growing waits, or at once by the next controller."""
    machine.step(Placed(replica(1), A), 0)
    machine.step(Placed(replica(2), A), 0)
    (report,) = machine.step(Ticked(), 10)
    machine.step(Placed(replica(1), B), 11)
    machine.step(Gone(replica(2)), 11)
    machine.step(Failed(report.number), 20)
    assert machine.wake_at_ms == 120
    (again,) = machine.step(LeaderChanged(), 30)
    assert again.directories == {replica(1): B}
    machine.step(Failed(again.number), 40)
    assert machine.wake_at_ms == 140
    machine.step(Failed(machine.step(Ticked(), 140)[0].number), 150)
    assert machine.wake_at_ms == 350


STEPS = st.lists(
    st.one_of(
        st.builds(Placed, st.builds(replica, st.integers(0, 4)), st.sampled_from([A, B])),
        st.builds(Gone, st.builds(replica, st.integers(0, 4))),
        st.tuples(st.sampled_from(["taken", "lost", "failed", "tick"]), st.sets(st.integers(0, 4))),
    ),
    max_size=60,
)


class Told:
    """A machine, where its replicas lie, and what the controller knows of that."""

    def __init__(self):
        self.machine = DirectoryAssignments(lambda: 0.5)
        self.truth, self.known = {}, {}
        self.sent = None
        self.now_ms = 0

    def do(self, event):
        if isinstance(event, Placed):
            self.truth[event.replica] = event.directory
        elif isinstance(event, Gone):
            self.truth.pop(event.replica, None)
        for report in self.machine.step(event, self.now_ms):
            assert self.sent is None
            self.sent = report

    def answer(self, how, refused):
        if how == "tick" or self.sent is None:
            self.do(Ticked())
            return
        report, self.sent = self.sent, None
        refused = {replica(number) for number in refused} & report.directories.keys()
        if how != "failed":
            self.known.update({one: where for one, where in report.directories.items() if one not in refused})
        self.do(Reported(report.number, frozenset(refused)) if how == "taken" else Failed(report.number))


@given(steps=STEPS)
def test_the_controller_knows_each_directory_in_the_end(steps):
    """Though reports were refused or lost, and replicas moved meanwhile: all that stay are known where they lie."""
    told = Told()
    for event in steps:
        told.now_ms += 50
        if isinstance(event, Placed | Gone):
            told.do(event)
        else:
            told.answer(*event)
    for _ in range(10):
        told.now_ms += 20_000
        told.answer("taken", ())
    assert {one: told.known.get(one) for one in told.truth} == told.truth
    assert (len(told.machine), told.machine.wake_at_ms) == (0, inf)
