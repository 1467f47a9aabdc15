"""Offsets in Kafka's JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.spark.source.stream_offsets import (
    BEGINNING,
    behind,
    first_end,
    first_start,
    offset_document,
    parse_offsets,
)
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

OFFSETS = st.dictionaries(
    st.builds(TopicPartition, st.text(min_size=1, max_size=8).filter(lambda name: "@" not in name), st.integers(0, 30)),
    st.integers(0, 2**63 - 1),
)


@given(OFFSETS, st.randoms(use_true_random=False))
def test_offsets_survive_the_checkpoint_and_have_one_text(offsets, random):
    """Offsets in any order give the same text, because Spark takes other text for other offsets."""
    shuffled = list(offsets.items())
    random.shuffle(shuffled)
    text = json.dumps(offset_document(dict(shuffled)))
    assert parse_offsets(json.loads(text)) == offsets
    assert text == json.dumps(offset_document(offsets)) == json.dumps(offset_document(parse_offsets(json.loads(text))))


@given(OFFSETS, OFFSETS)
def test_the_end_of_a_first_batch_keeps_its_start(start, end):
    """Through the checkpoint's text, an empty one too; it is an end like any other besides, and no beginning."""
    document = json.loads(json.dumps(first_end(end, start)))
    assert parse_offsets(document) == end
    assert first_start(document) == start
    assert document != BEGINNING
    assert first_start(offset_document(end)) is None
    with pytest.raises(Invalid, match="checkpoint"):
        first_start({"@start": {"orders": 7}})


def test_the_text_is_that_of_sparks_kafka_source():
    """So that people and tools know it; partitions are ordered by number."""
    offsets = {TopicPartition("b", 0): 1, TopicPartition("a", 10): 2, TopicPartition("a", 9): 3}
    assert json.dumps(offset_document(offsets)) == '{"a": {"9": 3, "10": 2}, "b": {"0": 1}}'
    assert parse_offsets(json.loads('{"orders":{"0":123,"1":0}}')) == {
        TopicPartition("orders", 0): 123,
        TopicPartition("orders", 1): 0,
    }
    assert parse_offsets({}) == {}


@pytest.mark.parametrize("document", [None, 5, [], {"orders": 7}, {"orders": {"x": 1}}, {"orders": {"0": "1"}}])
def test_a_checkpoint_of_another_source_is_refused(document):
    """The message says what to look at."""
    with pytest.raises(Invalid, match=r"offsets .* not like .*checkpointLocation"):
        parse_offsets(document)


@pytest.mark.parametrize("offset", [-1, -2, True, 1.5, None])
def test_only_real_offsets_are_taken(offset):
    """Minus one and minus two stand for ends in options, never in a checkpoint."""
    with pytest.raises(Invalid, match="checkpoint"):
        parse_offsets({"orders": {"0": offset}})


def test_lag_of_a_stream():
    """Only partitions that both know, and that have something to come."""
    here = {TopicPartition("a", 0): 5, TopicPartition("a", 1): 7, TopicPartition("a", 2): 9}
    ends = {TopicPartition("a", 0): 8, TopicPartition("a", 1): 7, TopicPartition("b", 0): 3}
    assert behind(here, ends) == {TopicPartition("a", 0): 3}
