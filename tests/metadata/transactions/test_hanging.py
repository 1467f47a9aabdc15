"""Tests of metadata/transactions/hanging.py: single verdicts, and every way in which three logs may have gone back."""

from itertools import product
from typing import NamedTuple

import pytest

from stratalog.metadata.transactions.hanging import (
    CLOCKS_DIFFER_MS,
    OpenTransaction,
    Seen,
    Verdict,
    ended_in,
    judge,
    left_open,
)
from stratalog.metadata.transactions.status import TransactionStatus as Status
from stratalog.metadata.transactions.transaction import EPOCH_MAX, Transaction
from stratalog.wire.topic import TopicPartition

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)
AT_MS = 1_700_000_000_000


def found(epoch=5, last_ms=AT_MS):
    return OpenTransaction(P, 7, epoch, 100, last_ms)


def known(status, epoch=5, *, version=2, partitions=(), retired=False, **fields):
    made = Transaction(
        transactional_id="x",
        producer_id=7,
        producer_epoch=epoch,
        timeout_ms=1,
        status=status,
        partitions=set(partitions),
        last_update_ms=AT_MS,
        client_version=version,
        **fields,
    )
    if retired:
        made.retire(AT_MS)
    return made


@pytest.mark.parametrize(
    ("coordinator", "verdict"),
    [
        (None, Verdict.ABORT),
        (known(Status.ONGOING, partitions=[P]), Verdict.WAIT),
        (known(Status.ONGOING, partitions=[Q]), Verdict.ABORT),
        (known(Status.ONGOING, version=1, partitions=[Q]), Verdict.UNDECIDED),
        (known(Status.ONGOING, partitions=[P], retired=True), Verdict.WAIT),
        (known(Status.PREPARE_COMMIT, 6, partitions=[P]), Verdict.WAIT),
        (known(Status.PREPARE_COMMIT, 6, partitions=[Q]), Verdict.WAIT),
        (known(Status.PREPARE_ABORT, 6, partitions=[P]), Verdict.WAIT),
        (known(Status.EMPTY), Verdict.ABORT),
        (known(Status.EMPTY, 9), Verdict.UNDECIDED),
        (known(Status.COMPLETE_COMMIT, 6), Verdict.COMMIT),
        (known(Status.COMPLETE_COMMIT, 6, retired=True), Verdict.COMMIT),
        (known(Status.COMPLETE_COMMIT, 5), Verdict.ABORT),
        (known(Status.COMPLETE_COMMIT, 7), Verdict.UNDECIDED),
        (known(Status.COMPLETE_ABORT, 6), Verdict.ABORT),
        (known(Status.COMPLETE_COMMIT, version=1), Verdict.UNDECIDED),
        (known(Status.COMPLETE_COMMIT, version=1, retired=True), Verdict.UNDECIDED),
        (known(Status.COMPLETE_COMMIT, 6, version=1), Verdict.UNDECIDED),
        (known(Status.COMPLETE_ABORT, version=1), Verdict.UNDECIDED),
    ],
)
def test_the_coordinator_is_believed_as_far_as_it_knows(coordinator, verdict):
    """No other partition has seen an end of the transaction."""
    assert judge(found(), coordinator, ended_elsewhere=False) is verdict


@pytest.mark.parametrize(
    "coordinator",
    [None, known(Status.EMPTY), known(Status.ONGOING, partitions=[Q]), known(Status.COMPLETE_COMMIT, version=1)],
)
def test_an_end_that_another_partition_saw_leaves_it_open(coordinator):
    """It may have been a commit: an abort here would split it."""
    assert judge(found(), coordinator, ended_elsewhere=True) is Verdict.UNDECIDED


@pytest.mark.parametrize("late_ms", [0, CLOCKS_DIFFER_MS])
def test_an_end_under_v1_says_nothing_of_records_that_are_much_younger(late_ms):
    """They belong to the next transaction, which has the same epoch; clocks may differ by some minutes."""
    coordinator = known(Status.COMPLETE_COMMIT, version=1)
    assert judge(found(last_ms=AT_MS + late_ms), coordinator, ended_elsewhere=False) is Verdict.UNDECIDED
    later = found(last_ms=AT_MS + CLOCKS_DIFFER_MS + 1)
    assert judge(later, coordinator, ended_elsewhere=False) is Verdict.ABORT


def test_an_unknown_producer_counts_only_if_the_coordinators_log_ends_before_it():
    """Otherwise its transactional id was forgotten, or has another producer id by now: it has ended, and nothing says how."""
    assert judge(found(), None, ended_elsewhere=False, covered_ms=AT_MS - CLOCKS_DIFFER_MS) is Verdict.UNDECIDED
    assert judge(found(), None, ended_elsewhere=False, covered_ms=AT_MS - CLOCKS_DIFFER_MS - 1) is Verdict.ABORT


def test_a_retired_producer_of_v1_may_have_had_a_transaction_before():
    """The open one may be that, and then it was perhaps committed."""
    coordinator = known(Status.ONGOING, version=1, partitions=[Q], retired=True)
    coordinator.complete(AT_MS)
    assert judge(found(), coordinator, ended_elsewhere=False) is Verdict.UNDECIDED


def test_a_later_epoch_is_an_end_and_an_equal_one_a_doubt_under_v1():
    """Under v2 the transaction before left the equal one."""
    assert ended_in(found(), None, Seen(6, had_marker=False))
    assert ended_in(found(), known(Status.EMPTY), Seen(6, had_marker=True))
    assert ended_in(found(), None, Seen(5, had_marker=True))
    assert not ended_in(found(), None, Seen(5, had_marker=False))
    assert not ended_in(found(), known(Status.EMPTY), Seen(5, had_marker=True))
    assert not ended_in(found(), None, Seen(4, had_marker=True))


def test_a_transaction_is_left_open_unless_the_coordinator_lists_its_partition():
    """That is the report, whatever made it so."""
    assert left_open(found(), None)
    assert left_open(found(), known(Status.COMPLETE_COMMIT))
    assert left_open(found(), known(Status.ONGOING, partitions=[Q]))
    assert not left_open(found(), known(Status.ONGOING, partitions=[P]))
    assert not left_open(found(), known(Status.PREPARE_ABORT, partitions=[P]))


# -- three logs that go back, each as far as it likes ---------------------------------------------------------------------


class Event(NamedTuple):
    """A write to the log of the coordinator or of a partition: the number of the transaction, and its kind."""

    where: object
    number: int
    what: str


def history(outcomes, places):
    """Two transactions of one producer in the order in which their records and markers are written."""
    for number, (outcome, partitions) in enumerate(zip(outcomes, places, strict=True)):
        for partition in partitions:
            yield Event("coordinator", number, f"add {partition.partition}")
            yield Event(partition, number, "data")
        yield Event("coordinator", number, "prepare")
        for partition in partitions:
            yield Event(partition, number, outcome)
        yield Event("coordinator", number, "complete")


class Story:
    """The logs as they are after the disk went back: each has the events before a moment of its own."""

    def __init__(self, version, outcomes, events, cuts):
        self.version, self.outcomes = version, outcomes
        self.logs = {
            where: [(at, one) for at, one in enumerate(events[:cut]) if one.where == where]
            for where, cut in zip(("coordinator", P, Q), cuts, strict=True)
        }

    def epoch(self, number, *, ended=False):
        return number + ended if self.version == 2 else 0

    @staticmethod
    def time(at):
        return AT_MS + at * 2 * CLOCKS_DIFFER_MS

    def coordinator(self):
        """The coordinator's transaction, with its producer retired and every marker that it owes written."""
        known = None
        for at, (_, number, what) in self.logs["coordinator"]:
            known = known or Transaction(
                transactional_id="x", producer_id=7, producer_epoch=0, timeout_ms=1, last_update_ms=0
            )
            if what.startswith("add"):
                known.add([TopicPartition("t", int(what[4:]))], self.version, self.time(at))
            elif what == "prepare":
                commit = self.outcomes[number] == "commit"
                known.decide(
                    commit=commit, client_version=self.version, fence=False, fresh_id=None, now_ms=self.time(at)
                )
            else:
                known.complete(self.time(at))
        self.by_coordinator = set()
        if known is not None:
            if not known.status.ending:
                known.retire(self.time(99))
            if known.status.ending:
                for partition in known.partitions:
                    entry = self.entry(partition)
                    stale = entry is not None and known.client_version == 2 and known.producer_epoch <= entry[0]
                    if not stale:
                        self.by_coordinator.add(partition)
                known.complete(self.time(98))
            if not known.is_retired:
                known.retire(self.time(99))
        return known

    def entry(self, partition):
        """Epoch, number of the open transaction or None, and the time of the last batch; None for an unknown producer."""
        entry = None
        for at, (_, number, what) in self.logs[partition]:
            if what == "data":
                entry = self.epoch(number), number, self.time(at)
            else:
                entry = self.epoch(number, ended=True), None, self.time(at)
        return entry

    def verdicts(self):
        """The verdict about each transaction that is open when the coordinator has done its part."""
        coordinator = self.coordinator()
        for partition, other in ((P, Q), (Q, P)):
            entry, beside = self.entry(partition), self.entry(other)
            if entry is None or entry[1] is None or partition in self.by_coordinator:
                continue
            one = OpenTransaction(partition, 7, entry[0], 100, entry[2])
            ended = False
            if other in self.by_coordinator:
                ended = ended_in(one, coordinator, Seen(EPOCH_MAX, had_marker=True))
            elif beside is not None:
                had_marker = any(what != "data" for _, (_, _, what) in self.logs[other])
                ended = ended_in(one, coordinator, Seen(beside[0], had_marker))
            yield partition, entry[1], judge(one, coordinator, ended_elsewhere=ended)

    def shown_as_committed(self, number):
        """Whether any log has the commit of a transaction, or the decision to commit it."""
        decided = Event("coordinator", number, "prepare")
        return self.outcomes[number] == "commit" and any(
            one == decided or (one.number == number and one.what == "commit")
            for log in self.logs.values()
            for _, one in log
        )


PLACES = [(P,), (Q,), (P, Q), (Q, P)]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_no_verdict_contradicts_what_any_log_still_shows(version, every):
    """Two transactions on two partitions, all outcomes, and the three logs cut anywhere: no guess splits a commit."""
    seen = set()
    for outcomes in product(("commit", "abort"), repeat=2):
        for places in product(PLACES, repeat=2):
            events = list(history(outcomes, places))
            for cuts in product(range(0, len(events) + 1, every), repeat=3):
                story = Story(version, outcomes, events, cuts)
                for _, number, verdict in story.verdicts():
                    seen.add(verdict)
                    told = version, outcomes, events, cuts
                    assert verdict is not Verdict.WAIT, told
                    if verdict is Verdict.COMMIT:
                        assert outcomes[number] == "commit", told
                    if verdict is Verdict.ABORT:
                        assert not story.shown_as_committed(number), told
    assert seen >= {Verdict.ABORT, Verdict.UNDECIDED}
    assert (Verdict.COMMIT in seen) == (version == 2)
