"""A ledger in a target, by two backfills that stop anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stratalog.spark.ledger import ledger_store
from stratalog.spark.ledger.layout import file_name, head_key, run_name, staging_prefix
from stratalog.spark.ledger.ledger import Head, LedgerConflict, OutputFile, Run, Span, SpanId, missing, superseded
from stratalog.spark.ledger.ledger_store import LedgerStore, discard_staged
from stratalog.spark.ledger.target import ObjectTarget
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import NotFound
from stratalog.wire.errors import Corrupt

LAYOUT = (("layout", "1"),)


@dataclass
class Worker:
    """One backfill: what it read, and the run it has staged."""

    ledger: LedgerStore
    run: Run | None = None


class TwoBackfills(RuleBasedStateMachine):
    """An archive that grows, two backfills that read, stage, commit, publish, clean up and die in any order.

    A file holds the offsets of its name, so that what a reader sees can be counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.target = ObjectTarget(MemoryStore())
        self.end = {0: 3, 1: 0}
        self.runs = 0
        self.workers: list[Worker | None] = [None, None]

    @rule(partition=st.integers(0, 1), count=st.integers(1, 5))
    def grow(self, partition: int, count: int) -> None:
        self.end[partition] += count

    @rule(who=st.integers(0, 1))
    def begin(self, who: int) -> None:
        """Also after a death: a new process that reads the ledger and finishes what was committed."""
        ledger = LedgerStore(self.target, "t", "id")
        ledger.publish()
        self.workers[who] = Worker(ledger)

    @rule(who=st.integers(0, 1))
    def look(self, who: int) -> None:
        """As `begin`, but stopped before it finishes what was committed; `publish` goes on, however much later."""
        self.workers[who] = Worker(LedgerStore(self.target, "t", "id"))

    @rule(who=st.integers(0, 1), rewrite=st.booleans(), size=st.integers(1, 4))
    def stage(self, who: int, rewrite: bool, size: int) -> None:
        worker = self.workers[who]
        if worker is None or worker.run is not None:
            return
        self.runs += 1
        seq = worker.ledger.head.seq + 1
        name = run_name(seq, f"{self.runs:032}")
        live = worker.ledger.ledger
        rewritten = tuple(live.spans)[:1] if rewrite else ()
        ids = [*rewritten]
        for partition, end in self.end.items():
            for low, high in missing(worker.ledger.head.coverage, partition, 0, end):
                ids += [SpanId(partition, at, min(at + size, high)) for at in range(low, high, size)]
        spans = tuple(self._staged(name, seq if span in rewritten else 0, span) for span in ids)
        worker.run = Run(name, seq, 0, spans, rewritten, superseded(live, rewritten))

    def _staged(self, name: str, seq: int, span: SpanId) -> Span:
        path = "t/" + file_name("t", span.partition, span.start, span.end - 1, seq)
        self.target.store.put(staging_prefix("t", name) + path, path.encode())
        return Span(span, (), (OutputFile(path, span.end - span.start, 1, 1, span.start, span.end - 1),))

    @rule(who=st.integers(0, 1))
    def commit(self, who: int) -> None:
        worker = self.workers[who]
        if worker is None or worker.run is None or not worker.run.spans:
            return
        run, worker.run = worker.run, None
        try:
            worker.ledger.commit(run, LAYOUT)
        except LedgerConflict:
            self.workers[who] = None  # it ends with the error

    @rule(who=st.integers(0, 1))
    def publish(self, who: int) -> None:
        worker = self.workers[who]
        if worker is not None and worker.run is None:
            worker.ledger.publish()

    @rule(who=st.integers(0, 1), count=st.integers(0, 6))
    def die_while_publishing(self, who: int, count: int) -> None:
        """Some files are in place, some are not."""
        worker = self.workers[who]
        if worker is None or not worker.ledger.head.publishing:
            return
        self.workers[who] = None
        run = worker.ledger._runs[-1]
        self.target.remove(run.removed[:count])
        if count >= len(run.removed):
            for file in [file for span in run.spans for file in span.files][: count - len(run.removed)]:
                try:
                    self.target.publish(staging_prefix("t", run.name) + file.path, file.path)
                except NotFound:
                    return  # the other one has published and gone on

    @rule(who=st.integers(0, 1))
    def die_before_the_clean_up(self, who: int) -> None:
        """The end of publishing is reported, what was staged lies there still."""
        worker = self.workers[who]
        if worker is not None and worker.run is None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(self.target, "remove_folder", lambda prefix: None)
                worker.ledger.publish()
            self.workers[who] = None

    @rule(who=st.integers(0, 1))
    def die(self, who: int) -> None:
        self.workers[who] = None

    @rule(who=st.integers(0, 1))
    def clean(self, who: int) -> None:
        worker = self.workers[who]
        if worker is not None and worker.run is None:
            discard_staged(self.target, "t", worker.ledger.head)

    @precondition(lambda self: self.workers == [None, None])
    @rule()
    def finish(self) -> None:
        """Without other writers, one more backfill converts the rest, and clears away what dead ones have staged.

        There is a record more: a backfill that commits nothing takes no number, and leaves those of its own number alone.
        """
        self.grow(0, 1)
        self.begin(0)
        self.stage(0, False, 3)
        self.commit(0)
        self.begin(0)
        ledger = self.workers[0].ledger  # type: ignore[union-attr]
        assert {partition: missing(ledger.head.coverage, partition, 0, end) for partition, end in self.end.items()} == {
            0: [],
            1: [],
        }
        assert sorted(self._offsets()) == [(one, at) for one, end in sorted(self.end.items()) for at in range(end)]
        discard_staged(self.target, "t", ledger.head)
        assert self.target.folders(staging_prefix("t")) == set()
        self.workers = [None, None]

    def _visible(self) -> list[str]:
        return [info.key for info in self.target.store.list("t/")]

    def _offsets(self) -> list[tuple[int, int]]:
        found = []
        for key in self._visible():
            _, partition, first, last, *_ = key.removesuffix(".parquet").split("+")
            found += [(int(partition), at) for at in range(int(first), int(last) + 1)]
        return found

    @invariant()
    def readers_see_each_row_at_most_once_and_committed_files_only(self) -> None:
        ledger = LedgerStore(self.target, "t", "id")
        listed = {file.path for span in ledger.ledger.spans.values() for file in span.files}
        offsets = self._offsets()
        assert len(offsets) == len(set(offsets))
        if ledger.head.publishing:
            removed = set(ledger._runs[-1].removed)
            assert set(self._visible()) <= listed | removed
        else:
            assert set(self._visible()) == listed


TestTwoBackfills = TwoBackfills.TestCase
TestTwoBackfills.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)


def filled(count: int) -> ObjectTarget:
    """A target to which ``count`` runs of one span were committed."""
    target = ObjectTarget(MemoryStore())
    machine = TwoBackfills()
    machine.target, machine.end = target, {0: 0, 1: 0}
    for _ in range(count):
        machine.grow(0, 2)
        machine.begin(0)
        machine.stage(0, False, 5)
        machine.commit(0)
        machine.publish(0)
    return target


def test_records_are_joined_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader needs the last checkpoint and the few runs behind it, and finds every span."""
    monkeypatch.setattr(ledger_store, "CHECKPOINT_RUNS", 4)
    ledger = LedgerStore(filled(10), "t", "id")
    assert len(ledger.ledger.spans) == 10
    assert ledger.head.checkpoint is not None
    assert ledger.head.checkpoint.startswith("000000000008-")
    assert len(ledger.head.runs) == 2
    assert dict(ledger.head.coverage) == {0: ((0, 20),)}


@pytest.mark.parametrize("stopped", ["before it begins", "between two files"])
def test_a_publisher_that_was_stopped_brings_no_superseded_file_back(stopped: str) -> None:
    """A run is published by another process, which dies before the clean-up, and rewritten; then the first one goes on."""
    machine = TwoBackfills()
    target = machine.target
    machine.begin(0)
    machine.stage(0, False, 5)
    machine.commit(0)
    late = LedgerStore(target, "t", "id")

    def rewritten() -> None:
        machine.look(1)
        machine.die_before_the_clean_up(1)
        machine.begin(1)
        machine.stage(1, True, 5)
        machine.commit(1)
        machine.publish(1)

    if stopped == "before it begins":
        rewritten()
    else:
        publish = target.publish

        def slowly(key: str, final_key: str) -> None:
            publish(key, final_key)
            target.publish = publish  # type: ignore[method-assign]
            data = target.store.get(final_key)[0]
            rewritten()
            target.store.put(final_key, data)  # the copy was under way

        target.publish = slowly  # type: ignore[method-assign]
    late.publish()
    assert machine._visible() == ["t/" + file_name("t", 0, 0, 2, 2)]


def test_an_answer_that_was_lost_is_recognised() -> None:
    """The compare-and-swap was applied, and answered as refused when it was repeated."""
    target = filled(1)
    ledger = LedgerStore(target, "t", "id")
    span = Span(SpanId(0, 2, 3), (), ())
    after = LedgerStore(target, "t", "id")
    after.commit(Run(run_name(2, "a" * 32), 2, 0, (span,)), LAYOUT)
    data, _ = target.store.get(head_key("t"))
    ledger.commit(Run(run_name(2, "a" * 32), 2, 0, (span,)), LAYOUT)
    assert target.store.get(head_key("t"))[0] == data
    ledger._version = "stale"
    with pytest.raises(LedgerConflict, match="has committed in the meantime"):
        ledger._swap(Head("t", "id", 99))


def test_a_damaged_ledger_is_reported_with_its_key() -> None:
    """No run converts on top of it."""
    target = filled(1)
    target.store.put(head_key("t"), b"{}")
    with pytest.raises(Corrupt, match=head_key("t")):
        LedgerStore(target, "t", "id")


def test_a_target_that_is_not_there_has_an_empty_ledger(tmp_path: Path) -> None:
    """And looking makes no directory."""
    from stratalog.spark.ledger.target import open_target

    ledger = LedgerStore(open_target(str(tmp_path / "lake"), {}), "t", "id")
    assert ledger.head.seq == 0
    assert not (tmp_path / "lake").exists()
