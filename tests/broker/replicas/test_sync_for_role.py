"""Which syncs the roles of partitions ask for: none for a log that has just been opened, which is synced with others."""

from dataclasses import replace
from types import MappingProxyType

from stratalog.broker.replicas.log_opening import LogOpening
from tests.broker.replicas.following import follow_and_open
from tests.broker.replicas.test_hosted_partitions import stop_uncleanly

COUNT = 100


def test_logs_of_an_unclean_stop_are_synced_together(broker, monkeypatch):
    """They are led at once, too, and each role asked for a sync cycle of its own: 41 of them for 300 logs."""
    broker.create("t", COUNT)
    for number in range(COUNT):
        broker.produce("t", b"v", partition=number)
    stop_uncleanly(broker)
    cycles, started = [], LogOpening.started

    def count(logs, *about):
        cycles.append(sum(one.writer.sync_cycles for one in logs._directories.all))
        return started(logs, *about)

    monkeypatch.setattr(LogOpening, "started", count)
    broker.start()
    assert len(cycles) == 1
    assert cycles[0] <= 3


def test_a_log_that_is_led_again_has_what_is_unsynced_synced(broker, new_batch):
    """It is open for long, and no append may come: without sync on ack its mark would stay below its end."""
    broker.create("t", flush_messages=1 << 40)
    unified, topic = broker.partition("t"), broker.node.image.topics.by_name["t"]
    both = (broker.node.node_id, broker.node.node_id + 1)

    def follow(epoch):
        state = replace(topic.partitions[0], leader_epoch=epoch, replicas=both, in_sync_replicas=both)
        again = replace(topic, partitions=MappingProxyType({0: state}))
        broker.run(lambda: follow_and_open(broker.node.hosted, broker.node.image, again))

    follow(8)
    broker.append("t", new_batch(b"v"), acks=1)
    broker.wait_until(lambda: unified.log.written_offset == 1)
    assert (unified.log.flushed_offset, unified.partition.high_watermark) == (0, 0)
    broker.run(unified.partition.resign)
    cycles = unified.partition.directory.sync_cycles
    follow(9)
    assert unified.partition.directory.sync_cycles == cycles + 1
    broker.wait_until(lambda: unified.log.flushed_offset == 1)
