"""Partitions that a full disk kept from being opened are tried again: `HostedPartitions.retrying_unopened`."""

import errno
import time

import pytest

from stratalog.broker.replicas import log_opening
from stratalog.broker.runtime.slices import Awaited, to_the_end
from stratalog.client.admin import delete_topics
from stratalog.hot.directory import LogDirectory
from stratalog.wire.errors import ErrorCode, KafkaError

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
