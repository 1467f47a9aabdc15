"""A broker with an archive that is killed twice within the interval of its checkpoints: nothing went back in time."""

import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from stratalog.hot.storage.checkpoint import SECOND_TIMELINES, read_offsets
from stratalog.hot.storage.filesystem import RealFilesystem

NEVER = "600000"


def kill(tiered, number):
    """Go on with the data directory as SIGKILL would leave it now."""
    data = Path(tiered.node.directory, "data")
    image = Path(tiered.node.directory, f"image{number}")
    tiered.node.run(lambda: shutil.copytree(data, image))  # on the loop: nothing is written meanwhile
    tiered.node.stop()
    shutil.rmtree(data)
    image.rename(data)
    tiered.node.start()
    tiered._client = None
    tiered.client.refresh(["t"])


def doubts(tiered):
    return read_offsets(RealFilesystem(), f"{tiered.node.directory}/data", SECOND_TIMELINES)


@pytest.mark.story
@pytest.mark.parametrize("quick", [True, False])
def test_two_kills_between_checkpoints_fence_no_producer(start_tiered, caplog, monkeypatch, quick):
    """The archive is longer than the checkpoint knows, which is a reason to compare, and no more; the doubt goes soon."""
    if quick:  # the second kill comes before the doubt is off the disk
        monkeypatch.setattr("stratalog.broker.archive.comparisons._CLEAR_SECONDS", 1000.0)
    tiered = start_tiered(
        log_flush_offset_checkpoint_interval_ms=NEVER,
        log_flush_start_offset_checkpoint_interval_ms=NEVER,
        replica_high_watermark_checkpoint_interval_ms=NEVER,
    )
    tiered.topic("t", local_retention_bytes=-1, local_retention_ms=-1)
    producer = Producer({"bootstrap.servers": tiered.node.address, "transactional.id": "x"})
    producer.init_transactions(20)
    del producer
    tiered.node.run(tiered.node.node.tiering.checkpoint)  # the periodic one, a moment ago
    tiered.write("t", 20)
    tiered.archived("t", evicted=False)
    kill(tiered, 1)
    tiered.write("t", 10)
    tiered.archived("t", evicted=False)
    if quick:
        assert set(doubts(tiered).values()) == {1}
    else:
        tiered.node.wait_until(lambda: doubts(tiered) == {})
    kill(tiered, 2)
    tiered.write("t", 10)
    tiered.archived("t", evicted=False)
    time.sleep(1)
    assert [one for one in caplog.messages if "transactional producer" in one] == []
    tiered.check_reads("t")
