"""The verdict on a run of random kills: each fault that it looks for is found."""

from __future__ import annotations

from bench.chaos.outcomes import Ledger, TopicTold
from bench.chaos.verdict import SeenTopic, log_faults, topic_faults
from bench.watched_node import turn_ms_of
from stratalog.wire.batch import Record, build_batch

HERE = SeenTopic(b"i" * 16, ((0, 1, 0, (1,)),), "5")


def told(name="t", *, topic_id=b"i" * 16, exists=(True,), counts=(1,), retentions=("5",)):
    return TopicTold(name, topic_id, set(exists), set(counts), set(retentions))


def faults(*topics, seen):
    ledger = Ledger()
    for topic in topics:
        ledger.note(topic)
    return list(topic_faults(ledger, seen))


def test_topics_that_are_as_answered_are_no_fault():
    """Where no answer came, either is right."""
    assert faults(told(), seen={"t": HERE, "load": HERE}) == []
    assert faults(told(exists=(False,)), seen={}) == []
    for seen in ({}, {"t": HERE}):
        assert faults(told(topic_id=None, exists=(True, False), counts=(1, 2), retentions=("5", "6")), seen=seen) == []


def test_each_difference_is_a_fault():
    """One that is lost, one that came back, another id, count or setting, one that was never asked for."""
    assert "not there" in faults(told(), seen={})[0]
    assert "is there" in faults(told(exists=(False,)), seen={"t": HERE})[0]
    assert "another id" in faults(told(topic_id=b"j" * 16), seen={"t": HERE})[0]
    assert "1 partitions" in faults(told(counts=(2,)), seen={"t": HERE})[0]
    assert "retention.ms 5" in faults(told(retentions=("6",)), seen={"t": HERE})[0]
    assert faults(seen={"t": HERE}) == ["t was never asked for"]
    assert "one id" in faults(told(), told("u"), seen={"t": HERE, "u": HERE})[0]


def test_a_topic_is_certain_until_an_answer_is_missing():
    """From then on it is left alone."""
    assert told().is_certain
    assert not told(exists=(True, False)).is_certain
    assert not told(counts=(1, 2)).is_certain
    assert not told(retentions=("5", "6")).is_certain


def written(folder, node_id, *values):
    """A metadata log of one record a batch; a value of None leaves its offset out."""
    directory = folder / str(node_id) / "__cluster_metadata-0"
    directory.mkdir(parents=True)
    data = bytearray()
    for offset, value in enumerate(values):
        if value is not None:
            batch = build_batch([Record(0, 0, None, value, ())])
            batch[:8] = offset.to_bytes(8, "big")
            data += batch
    (directory / "00000000000000000000.log").write_bytes(data)
    return directory.parent


def test_metadata_logs_are_compared_below_the_high_watermark(tmp_path):
    """Behind it they may differ; a log that begins later has nothing to compare there."""
    logs = {1: written(tmp_path, 1, b"a", b"b", b"c"), 2: written(tmp_path, 2, None, b"b", b"d")}
    assert list(log_faults(logs, 2)) == []
    assert list(log_faults(logs, 3)) == ["nodes 1 and 2 differ at offset 2"]
    gap = {1: written(tmp_path, 3, b"a", None, b"c")}
    assert "offset 2 follows 1" in next(iter(log_faults(gap, 3)))
    assert "up to 3, and 5 are committed" in next(iter(log_faults({1: tmp_path / "1"}, 5)))


def test_a_line_tells_the_length_of_a_turn_or_none():
    """Other lines of a node are its log."""
    assert turn_ms_of("turn 31.4 ms") == 31.4
    assert turn_ms_of("INFO a turn 31.4 ms") is None
