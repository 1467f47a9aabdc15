"""The pure rules of a ledger."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.spark.ledger.ledger import (
    Head,
    Ledger,
    LedgerConflict,
    OutputFile,
    Run,
    Span,
    SpanId,
    committed,
    covered,
    missing,
    published,
    superseded,
    visible,
)
from stratalog.wire.errors import Invalid

INTERVALS = st.lists(st.integers(0, 60), unique=True, max_size=12).map(
    lambda points: [(low, high) for low, high in zip(sorted(points)[::2], sorted(points)[1::2], strict=False)]
)


def span(start: int, end: int, partition: int = 0, path: str = "") -> Span:
    file = OutputFile(path or f"f{partition}-{start}", end - start, 10, 1, start, end - 1)
    return Span(SpanId(partition, start, end), (), (file,), source_bytes=100)


def run(seq: int, *spans: Span, rewritten: tuple[SpanId, ...] = ()) -> Run:
    return Run(f"{seq:012}-x", seq, 0, spans, rewritten)


@given(INTERVALS, st.integers(0, 60), st.integers(0, 60))
def test_missing_and_covered_are_each_other_s_rest(intervals: list[tuple[int, int]], one: int, other: int) -> None:
    """The missing parts of a range, added, cover it; each offset is in exactly one of the two."""
    start, end = min(one, other), max(one, other)
    done = covered((), intervals)
    rest = missing({3: done}, 3, start, end)
    offsets = {offset for low, high in rest for offset in range(low, high)}
    inside = {offset for low, high in intervals for offset in range(low, high)}
    assert offsets == set(range(start, end)) - inside
    assert missing({3: covered(done, rest)}, 3, start, end) == []
    assert missing({}, 3, 5, 9) == [(5, 9)]


def test_offsets_are_converted_once() -> None:
    """A run that brings what is covered, in part or twice by itself, is refused."""
    head = published(committed(Head("t", "id"), run(1, span(0, 10), span(20, 30), span(5, 9, 1))))
    assert dict(head.coverage) == {0: ((0, 10), (20, 30)), 1: ((5, 9),)}
    assert (head.rows, head.source_bytes, head.file_bytes, head.seq) == (24, 300, 30, 1)
    for again in (span(9, 11), span(0, 10), span(19, 31)):
        with pytest.raises(LedgerConflict, match="would be converted twice"):
            committed(head, run(2, again))
    with pytest.raises(LedgerConflict, match="would be converted twice"):
        committed(head, run(2, span(40, 50), span(49, 60)))
    assert committed(head, run(2, span(10, 20))).coverage[0] == ((0, 30),)


def test_a_run_follows_the_head_it_was_made_for() -> None:
    """Neither an older nor a newer one, and none before the last one was published."""
    head = committed(Head("t", "id"), run(1, span(0, 10)))
    with pytest.raises(LedgerConflict, match=r"to follow number 1 of the ledger, which stands at 1"):
        committed(head, run(2, span(10, 20)))
    for seq in (1, 3):
        with pytest.raises(LedgerConflict, match="another backfill"):
            committed(published(head), run(seq, span(10, 20)))


def test_rewritten_spans_are_replaced() -> None:
    """Their offsets stay covered, their files are superseded; a run that does not bring them again is refused."""
    first = run(1, span(0, 10, path="a"), span(10, 20, path="b"))
    head = published(committed(Head("t", "id"), first))
    again = run(2, span(0, 10, path="c"), rewritten=(SpanId(0, 0, 10),))
    assert superseded(Ledger(head, visible([first])), again.rewritten) == ("a",)
    after = committed(head, again)
    assert dict(after.coverage) == {0: ((0, 20),)}
    assert [file.path for each in visible([first, again]).values() for file in each.files] == ["c", "b"]
    with pytest.raises(Invalid, match="does not bring it again"):
        committed(head, run(2, span(20, 30), rewritten=(SpanId(0, 0, 10),)))


def test_abandoned_spans_are_covered_no_more() -> None:
    """As far as the run does not bring their offsets again; only then may a rewrite bring less than it takes away."""
    head = published(committed(Head("t", "id"), run(1, span(0, 10), span(10, 30), span(0, 5, 1))))
    gone = (SpanId(0, 10, 30), SpanId(1, 0, 5))
    with pytest.raises(Invalid, match="does not bring it again"):
        committed(head, run(2, span(10, 15), rewritten=gone))
    after = committed(head, replace(run(2, span(10, 15), rewritten=gone), abandoned=gone))
    assert dict(after.coverage) == {0: ((0, 15),), 1: ()}
    assert missing(after.coverage, 0, 0, 40) == [(15, 40)]


def test_a_checkpoint_stands_for_all_runs_before_it() -> None:
    """The head then names no other."""
    head = committed(Head("t", "id"), run(1, span(0, 10)))
    assert head.publishing
    assert published(head).runs == ("000000000001-x",)
    joined = published(head, "000000000001-x")
    assert (joined.checkpoint, joined.runs, joined.publishing) == ("000000000001-x", (), False)
