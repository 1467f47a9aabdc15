"""The leader-epoch history of a log after a stop that left its checkpoint older or newer than the log, or compacted it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.hot.state.epoch_spans import EpochSpans
from stratalog.hot.state.leader_epochs import EpochEntry

CHECKPOINT = (EpochEntry(0, 0), EpochEntry(3, 60), EpochEntry(4, 70))


def history(batches, end_offset, known=CHECKPOINT):
    """The spans found in batches of (epoch, base offset, last offset)."""
    spans = EpochSpans(-1)
    for batch in batches:
        spans.note(*batch)
    return spans.history(known, end_offset).entries


@pytest.mark.parametrize(
    "batches",
    [
        [(0, 0, 59), (3, 60, 69), (4, 70, 99)],
        [(0, 2, 40), (3, 65, 69), (4, 75, 99)],  # the first ones of each epoch are compacted away
        [(0, 5, 5), (4, 90, 99)],  # all of an epoch
        [(4, 99, 99)],
        [],
    ],
)
def test_a_checkpoint_that_no_batch_contradicts_holds(batches):
    """Also for the offsets that compaction has emptied."""
    assert history(batches, 100) == CHECKPOINT


def test_a_checkpoint_ends_with_the_log():
    """An epoch that begins at the log's end or later has written nothing."""
    assert history([(0, 0, 59), (3, 60, 64)], 65) == CHECKPOINT[:2]
    assert history([(0, 0, 59)], 60) == CHECKPOINT[:1]
    assert history([], 0) == ()


def test_an_older_checkpoint_is_continued():
    """Batches of a newer epoch than it knows."""
    assert history([(0, 0, 59), (3, 60, 69), (4, 70, 79), (7, 80, 99)], 100) == (*CHECKPOINT, (7, 80))


def test_from_the_first_contradiction_on_the_batches_count():
    """A checkpoint of another history, as after a truncation whose checkpoint was not written."""
    assert history([(0, 0, 59), (3, 60, 79), (5, 80, 99)], 100) == ((0, 0), (3, 60), (5, 80))
    assert history([(1, 0, 49), (3, 50, 99)], 100) == ((1, 0), (3, 50))
    assert history([(0, 0, 64), (3, 65, 69), (4, 70, 99)], 100) == ((0, 0), (3, 65), (4, 70))


def test_batches_without_an_epoch_change_no_span():
    """Those of the oldest formats."""
    spans = EpochSpans(2)
    spans.note(-1, 0, 9)
    assert spans.latest_epoch == 2
    assert spans.history((), 10).entries == ()
    spans.note(3, 10, 19)
    assert spans.latest_epoch == 3
    assert spans.history((), 20).entries == (EpochEntry(3, 10),)


@given(
    lengths=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), min_size=1, max_size=8),
    kept=st.sets(st.integers(0, 40)),
)
def test_compaction_changes_no_history(lengths, kept):
    """The history built from the batches that compaction left gives every offset the leader epoch it had before."""
    epoch, offset, known, batches = 0, 0, [], []
    for step, count in lengths:
        epoch += step
        known.append(EpochEntry(epoch, offset))
        batches += [(epoch, at, at) for at in range(offset, offset + count)]
        offset += count
    assert history([one for one in batches if one[1] in kept], offset, known) == tuple(known)
