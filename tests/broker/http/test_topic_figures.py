"""Sums over partitions for ``/metrics``."""

from types import SimpleNamespace

import pytest

from stratalog.broker.http.tier_rows import Trash
from stratalog.broker.http.topic_figures import TopicFigures, trash_of
from stratalog.broker.runtime.metrics import Metrics
from stratalog.hot.segments.segment import SegmentInfo
from stratalog.wire.topic import TopicPartition

KAFKA = "kafka_server_brokertopicmetrics_"


class World:
    """Two tiered partitions of ``t``, one of ``u`` whose copying is switched off, one mounted of ``m``."""

    def __init__(self):
        self.metrics = Metrics()
        self.archives = [self.archive("t", 0), self.archive("t", 1), self.archive("u", 0, copy_disable=True)]
        remote = SimpleNamespace(size_bytes=9, object_count=1)
        self.mounted = [SimpleNamespace(unified=self.unified("m", 0), remote=remote)]
        self.figures = TopicFigures(self.metrics, lambda: self.archives, lambda: self.mounted)

    def unified(self, topic, partition, *, copy_disable=False):
        """Ten archived records of 1000 bytes, ten frozen of 500, and an active segment."""
        segments = [
            SegmentInfo(0, 10, 1000, "0.log", 77, 5, active=False),
            SegmentInfo(10, 20, 500, "10.log", 88, 5, active=False),
            SegmentInfo(20, 25, 300, "20.log", 99, 5, active=True),
        ]
        log = SimpleNamespace(
            first_base_offset=0,
            active_base_offset=20,
            log_end_offset=25,
            segments=lambda: segments,
            config=SimpleNamespace(remote_storage_enable=True, remote_copy_disable=copy_disable),
        )
        key = TopicPartition(topic, partition)
        return SimpleNamespace(log=log, topic_partition=key, metrics=self.metrics.topic(topic))

    def archive(self, topic, partition, **options):
        """Its archive: one object, three items in the trash, two of them held by leases."""
        facts = SimpleNamespace(trash_count=3, trash_bytes=70, job_count=1)
        return SimpleNamespace(
            unified=self.unified(topic, partition, **options),
            remote=SimpleNamespace(size_bytes=600, object_count=1, end_offset=10, facts=facts),
            removal=SimpleNamespace(leased_count=2),
            due_end=99,
        )

    def shown(self, name):
        """The samples of a figure by topic."""
        lines = [line for line in self.metrics.render().decode().splitlines() if line.startswith(name + "{")]
        return {line.split('"')[1]: float(line.split()[-1]) for line in lines}


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (KAFKA + "remotelogsizebytes", {"t": 1200, "u": 600, "m": 9}),
        (KAFKA + "remotelogmetadatacount", {"t": 2, "u": 1, "m": 1}),
        (KAFKA + "remotecopylagbytes", {"t": 1000, "u": 0, "m": 0}),
        (KAFKA + "remotecopylagsegments", {"t": 2, "u": 0, "m": 0}),
        (KAFKA + "remotedeletelagbytes", {"t": 140, "u": 70, "m": 0}),
        (KAFKA + "remotedeletelagsegments", {"t": 6, "u": 3, "m": 0}),
        ("stratalog_tier_leased_trash_items", {"t": 4, "u": 2}),
        ("stratalog_tier_jobs", {"t": 2, "u": 1}),
    ],
)
def test_partitions_are_added_up_by_topic(world, name, expected):
    """As they are at each scrape, and never twice."""
    assert world.shown(name) == expected
    assert world.shown(name) == expected


def test_topics_that_are_gone_count_no_more(world):
    """A partition that is led elsewhere, a trash that was emptied."""
    world.shown("stratalog_tier_jobs")
    world.archives[0].remote.facts = SimpleNamespace(trash_count=0, trash_bytes=0, job_count=0)
    del world.archives[1:]
    assert world.shown(KAFKA + "remotelogsizebytes") == {"t": 600, "u": 0, "m": 9}
    assert world.shown(KAFKA + "remotedeletelagbytes") == {"t": 0, "u": 0, "m": 0}
    assert world.shown("stratalog_tier_leased_trash_items") == {"t": 0}


def test_an_archive_that_has_not_answered_counts_no_trash(world):
    """And what leases held at the last look is never more than there is."""
    archive = world.archives[0]
    assert trash_of(archive) == Trash(3, 70, 2, 1)
    archive.remote.facts.trash_count = 1
    assert trash_of(archive).leased_items == 1
    archive.remote.facts = None
    assert trash_of(archive) == Trash()
