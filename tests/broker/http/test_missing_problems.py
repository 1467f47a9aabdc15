"""Sentences and figures about ranges that are missing on local disks."""

from functools import partial
from types import SimpleNamespace

import pytest

from stratalog.broker.http.missing_problems import add_missing_metrics, missing_problems
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.replicas.recovery_report import missing_sentence
from stratalog.broker.runtime.clock import SystemClock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.slices import to_the_end
from stratalog.hot.recovery.missing import MissingRange
from stratalog.wire.topic import TopicPartition

MISSING = MissingRange(100, 200, "/d/t-0/100.log", "/d/t-0/90.log is damaged at position 7")


def led(remote_end, ranges=(MISSING,)):
    return SimpleNamespace(
        topic_partition=TopicPartition("t", 0),
        topic_id=bytes(16),
        log=SimpleNamespace(missing_ranges=lambda: list(ranges)),
        missing_sentence=partial(missing_sentence, TopicPartition("t", 0), remote_end),
        remote=None if remote_end is None else SimpleNamespace(end_offset=remote_end),
    )


@pytest.mark.parametrize(
    ("remote_end", "said", "counts"),
    [
        (500, "They are read from the archive, nothing has to be done", (100, 0)),
        (150, "Those below 150 are read from the archive. No reader gets [150, 200)", (50, 50)),
        (90, "No reader gets [100, 200)", (0, 100)),
        (None, "No reader gets [100, 200)", (0, 100)),
    ],
)
def test_a_sentence_names_the_missing_range_its_holder_and_the_remedy(remote_end, said, counts):
    """With topic, partition, offsets and file; and the figures agree."""
    unified = led(remote_end)
    sentence = unified.missing_sentence(MISSING)
    assert "t-0: offsets [100, 200) are missing on this disk: /d/t-0/90.log is damaged at position 7" in sentence
    assert said in sentence
    assert ("/d/t-0/100.log" in sentence and "DeleteRecords" in sentence) == bool(counts[1])
    table, metrics = PartitionTable(), Metrics()
    table.add(unified)
    table.add_unopened("u", b"u" * 16, 0, "u-0 is closed")
    add_missing_metrics(metrics, table, SystemClock())
    text = metrics.render().decode()
    assert f'stratalog_missing_offsets{{kind="archived"}} {counts[0]}' in text
    assert f'stratalog_missing_offsets{{kind="lost"}} {counts[1]}' in text
    assert "stratalog_closed_partitions 1" in text


def test_a_disk_with_many_holes_does_not_fill_the_answer():
    """The first few are listed, and how many more there are."""
    problems = to_the_end(missing_problems([led(500, [MISSING] * 50)]))
    assert len(problems) == 21
    assert problems[-1] == "and 30 more like the last"
