"""Partitions that a full disk kept from being opened are tried again: `HostedPartitions.retrying_unopened`."""

import errno
import time

import pytest

from stratalog.broker.replicas import log_opening
from stratalog.broker.runtime.slices import Awaited, to_the_end
from stratalog.client.admin import delete_topics
from stratalog.hot.directory import LogDirectory
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

COUNT = 60


@pytest.fixture
def full(broker, monkeypatch):
    """How to patch the opening of logs, under which those of a topic were refused; no tick tries them again."""
    monkeypatch.setattr(broker.node.housekeeping, "_retry_unopened", lambda: None)
    tried = []

    def no_room(_self, name, *_args, **_options):
        tried.append(name)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(LogDirectory, "open_log", no_room)
        broker.create("t", COUNT)
        assert len(broker.node.hosted.logs._unopened) == COUNT
        tried.clear()
        yield patch, tried


def test_a_disk_that_is_still_full_has_a_few_tried_and_others_the_next_time(broker, full):
    """All of thousands held the loop four times a second. Those that were refused last wait longest."""
    _, tried = full
    hosted = broker.node.hosted
    for _ in range(3):
        broker.run(lambda: list(hosted.retrying_unopened()))
    assert len(set(tried)) == len(tried) == 3 * log_opening._REFUSED_MAX
    assert len(hosted.logs._unopened) == COUNT
    assert not hosted.table.due
    with pytest.raises(KafkaError) as caught:
        broker.run(hosted.table.by_name, "t", COUNT - 1)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_logs_are_opened_one_a_step_when_there_is_room_again(broker, full):
    """Thousands in one turn would hold the loop for seconds; other partitions are served between two of them."""
    patch, _ = full
    patch.undo()
    hosted = broker.node.hosted
    steps, seen = hosted.retrying_unopened(), []

    def step():
        began = time.perf_counter()
        open_before = len(hosted.table)
        alive = next(steps, steps) is None
        seen.append((len(hosted.table) - open_before, time.perf_counter() - began))
        return alive

    while broker.run(step):
        pass
    assert max(opened for opened, _ in seen) == 1
    assert sum(opened for opened, _ in seen) == COUNT
    assert sorted(seconds for _, seconds in seen)[COUNT // 2] < 0.05
    assert broker.produce("t", b"v", partition=COUNT - 1) == [0]


def test_steps_that_end_early_forget_no_partition(broker, full):
    """A broker that stops, or too many logs that wait for their first sync."""
    patch, _ = full
    patch.undo()
    hosted = broker.node.hosted

    def some():
        steps = hosted.retrying_unopened()
        for _ in range(3):
            next(steps)
        steps.close()

    broker.run(some)
    open_count = len(hosted.table.of_topic("t"))
    assert 0 < open_count < COUNT
    assert len(hosted.logs._unopened) == COUNT - open_count
    patch.setattr(type(hosted.logs), "is_behind", True)
    broker.run(lambda: list(hosted.retrying_unopened()))
    assert len(hosted.logs._unopened) == COUNT - open_count


def test_partitions_of_a_deleted_topic_are_tried_no_more(broker, full):
    """Their topic is in no image."""
    _, tried = full
    hosted = broker.node.hosted
    delete_topics(broker.client(), ["t"])
    broker.wait_until(lambda: "t" not in broker.node.image.topics.by_name)
    broker.run(lambda: list(hosted.retrying_unopened()))
    assert (tried, hosted.logs._unopened) == ([], {})


def test_a_tick_tries_them_again_one_run_at_a_time(broker, monkeypatch):
    """Beside its own work, which does not wait for thousands of logs. The next ticks wait for the end of a run."""
    begun = []

    def retrying():
        begun.append(1)
        yield Awaited(lambda error: error)  # which never comes

    monkeypatch.setattr(broker.node.hosted, "retrying_unopened", retrying)
    broker.wait_until(lambda: begun)
    for _ in range(2):
        broker.run(lambda: to_the_end(broker.node.housekeeping._tick()))
    assert begun == [1]


def test_two_openings_open_a_log_once(broker, monkeypatch):
    """A topic that was deleted and made again while the disk was full; its image changes while a tick tries it again."""
    monkeypatch.setattr(broker.node.housekeeping, "_retry_unopened", lambda: None)
    broker.create("t")
    broker.produce("t", b"old")
    hosted = broker.node.hosted

    def no_room(*_args, **_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("stratalog.hot.storage.checkpoint.write_durably", no_room)
        patch.setattr("stratalog.hot.storage.checkpoint.write_offsets", no_room)
        patch.setattr(LogDirectory, "open_log", no_room)
        delete_topics(broker.client(), ["t"])
        broker.wait_until(lambda: "t" not in broker.node.image.topics.by_name)
        broker.create("t")
        broker.wait_until(lambda: hosted.logs._unopened)
        files = broker.node.directories.all[0].files
        assert TopicPartition("t", 0) in files.stale
    opened = []
    real = LogDirectory.open_log

    def counted(self, name, *args, **options):
        opened.append(name)
        return real(self, name, *args, **options)

    monkeypatch.setattr(LogDirectory, "open_log", counted)
    topic_id = broker.node.image.topics.by_name["t"].topic_id

    def both():
        list(hosted.following({topic_id: (0,)}))  # a change of its leader epoch, say
        first, second = hosted.opening(), hosted.retrying_unopened()
        steps = [first, second]
        while steps:
            for one in list(steps):
                if next(one, steps) is steps:
                    steps.remove(one)

    broker.run(both)
    assert opened == [TopicPartition("t", 0)]


def test_a_retry_opens_no_more_than_may_wait_for_their_sync(broker, monkeypatch):
    """Beside many that are due, which others open, with pauses while so many wait."""
    monkeypatch.setattr(broker.node.housekeeping, "_retry_unopened", lambda: None)
    hosted = broker.node.hosted
    with monkeypatch.context() as patch:

        def no_room(*_args, **_options):
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(LogDirectory, "open_log", no_room)
        broker.create("t", 1)
        broker.create("u", 40)

    def retry():
        monkeypatch.setattr(hosted.logs, "_unsynced_max", 3)
        topic_id = broker.node.image.topics.by_name["u"].topic_id
        for one in [one for one in hosted.logs._unopened if one.topic_id == topic_id]:
            del hosted.logs._unopened[one]  # these are due for another reason: an image has just brought them
            hosted.table.due.add("u", topic_id, one.number)
        before = len(hosted.table)
        for _ in hosted.retrying_unopened():
            if hosted.logs.is_behind:
                unhurried = sum(one.writer.unhurried_count for one in broker.node.directories.all)
                assert unhurried <= 4, f"{unhurried} new logs wait for their first sync"
        return len(hosted.table) - before

    broker.run(retry)
