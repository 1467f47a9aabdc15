"""Batches of records that a topic takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stratalog.client.batch_pieces import BatchPieces
from stratalog.client.records import NewRecord
from stratalog.wire.batch import Header, Record, build_batch

MAX_MESSAGE_BYTES = 1_048_588
BLOBS = st.none() | st.builds(bytes, st.sampled_from([0, 1, 200, 70_000, 500_000, 900_000]))


def sent(pieces: BatchPieces, refused=lambda _: False) -> list[list[int]]:
    """The batches of partition 0, one after the other; those that are ``refused`` go in halves."""
    batches = []
    while heads := pieces.heads():
        if not (refused(heads[0]) and pieces.halve(0)):
            batches.append(list(heads[0]))
            pieces.taken(0)
    return batches


@given(st.lists(st.builds(NewRecord, BLOBS, st.sampled_from([0, 1 << 50]), BLOBS), max_size=30))
def test_every_record_is_sent_once_in_order_and_no_batch_is_too_large(records) -> None:
    """A record that is large alone goes alone."""
    batches = sent(BatchPieces(records, {0: range(len(records))}))
    assert [index for batch in batches for index in batch] == list(range(len(records)))
    for batch in batches:
        rows = [
            Record(at, records[one].timestamp_ms, records[one].key, records[one].value) for at, one in enumerate(batch)
        ]
        assert len(batch) == 1 or len(build_batch(rows)) <= MAX_MESSAGE_BYTES


def test_very_small_records_and_headers_count() -> None:
    """Lengths and deltas count, and headers with both of their parts."""
    tiny = [NewRecord(b"", 0)] * 130_000
    assert len(sent(BatchPieces(tiny, {0: range(len(tiny))}))) > 1
    headed = [NewRecord(b"", 0, None, (Header("h" * 1000, b"v" * 1000),))] * 1000
    assert len(sent(BatchPieces(headed, {0: range(1000)}))) > 1


def test_a_batch_that_is_refused_goes_in_halves_and_a_record_alone_does_not() -> None:
    """Those behind it wait for their turn."""
    pieces = BatchPieces([NewRecord(b"x", 0)] * 7, {0: range(7)})
    assert sent(pieces, lambda batch: len(batch) > 2) == [[0], [1, 2], [3, 4], [5, 6]]
    pieces = BatchPieces([NewRecord(b"x", 0)], {0: [0]})
    assert not pieces.halve(0)
    assert pieces.heads() == {0: [0]}
