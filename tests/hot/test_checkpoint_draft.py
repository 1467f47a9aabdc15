"""The text of a checkpoint, made in steps."""

import pytest

from stratalog.hot import checkpoint_draft
from stratalog.hot.checkpoint_draft import CheckpointChanges, CheckpointDraft, number_rows
from stratalog.wire.topic import TopicPartition

ROWS = [(TopicPartition(topic, number), number * 10) for topic in ("b", "a.x", "a") for number in (10, 9)]


@pytest.fixture
def draft(monkeypatch):
    monkeypatch.setattr(checkpoint_draft, "_ROWS_PER_PAUSE", 2)
    return CheckpointDraft(number_rows)


def test_topics_and_partitions_are_sorted(draft):
    """As they are where all of them are sorted together; a row that comes again counts once."""
    assert len(list(draft.putting([*ROWS, ROWS[0]]))) == 3
    assert draft.count == 6
    assert len(list(draft.writing())) == 3
    sorted_rows = "".join(f"{name.topic} {name.partition} {row}\n" for name, row in sorted(ROWS))
    assert "".join(draft.pieces()) == sorted_rows


@pytest.mark.parametrize("written_first", [False, True])
def test_rows_may_go_before_and_after_the_text_is_made(draft, written_first):
    """A topic without rows has no text; names that have no row do nothing."""
    list(draft.putting(ROWS))
    gone = [TopicPartition("b", 9), TopicPartition("a", 9), TopicPartition("a", 10), TopicPartition("c", 1)]
    if written_first:
        list(draft.writing())
    draft.drop(gone)
    if not written_first:
        list(draft.writing())
    assert "".join(draft.pieces()) == "a.x 9 90\na.x 10 100\nb 10 100\n"
    assert draft.count == 3
    assert [draft.holds(name) for name in (TopicPartition("b", 9), TopicPartition("b", 10))] == [False, True]


def test_each_draft_hears_of_the_partitions_that_go_while_it_is_made():
    """And of no others."""
    changes = CheckpointChanges()
    first, second = TopicPartition("a", 0), TopicPartition("b", 0)
    changes.forget(first)
    with changes.drafting() as outer:
        changes.forget(first)
        with changes.drafting() as inner:
            changes.forget(second)
        changes.forget(TopicPartition("c", 0))
    changes.forget(TopicPartition("d", 0))
    assert (outer, inner) == ({first, second, TopicPartition("c", 0)}, {second})
