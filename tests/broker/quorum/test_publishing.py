"""From the metadata log to images: failures end the node once, and a log that goes is not read on."""

import asyncio
import errno
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from stratalog.broker.quorum import publishing
from stratalog.broker.quorum.batches import data_batch
from stratalog.broker.quorum.metadata_log import METADATA_LOG_CONFIG
from stratalog.broker.quorum.publishing import Publisher
from stratalog.broker.quorum.replica import MetadataReplica
from stratalog.broker.quorum.wire.metadata_topic import METADATA_PARTITION, METADATA_TOPIC_ID
from stratalog.hot.directory import LogDirectory
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.image.image import Provenance
from stratalog.metadata.image.record_values import record_values
from stratalog.metadata.image.replay import MetadataReplay
from stratalog.wire.errors import Corrupt
from stratalog.wire.records.metadata import TopicRecord


def topic(number):
    return TopicRecord(name=f"t{number}", topic_id=number.to_bytes(16, "big"))


@pytest.fixture
def place(tmp_path):
    """A log with one batch for each of three topics, its publisher, and the errors with which the node has ended."""
    files = RealFilesystem()
    with ThreadPoolExecutor(1) as threads:
        log = LogDirectory(str(tmp_path), files).open_log(
            METADATA_PARTITION, METADATA_TOPIC_ID, METADATA_LOG_CONFIG, now_ms=0, refuse_damage=True
        )
        writer = SimpleNamespace(add=lambda _owner: None, offline=None)
        replica = MetadataReplica(log, directory=writer, files=files, threads=threads)
        for number in range(3):
            values = list(record_values((topic(number),), 30))
            replica.write([data_batch(values, base_offset=number, epoch=1, timestamp_ms=7)], epoch=1, now_ms=7)
        failures = []
        yield SimpleNamespace(
            log=log, publisher=Publisher(replica, files, on_failed=failures.append), failures=failures
        )


async def test_own_batches_and_read_ones_give_the_same_image(place):
    """Records that this node has written itself are not read again."""
    read = MetadataReplay()
    for number in range(3):
        place.publisher.expect((topic(number),), Provenance(number, 1, 7))
        values = list(record_values((topic(number),), 30))
        read.replay(data_batch(values, base_offset=number, epoch=1, timestamp_ms=7))
    place.publisher.committed(3)
    await place.publisher.reached(3)
    assert place.publisher.image == read.image()


async def test_committed_records_wait_for_a_descriptor(place, monkeypatch, caplog):
    """Clients may have taken them all. Any other error ends the node: its image would lag behind."""
    monkeypatch.setattr(publishing, "_AGAIN_SECONDS", 0.001)
    errors, read = [errno.EMFILE, errno.ENFILE] * 20, publishing.chunks_of

    def chunks_of(*where):
        if errors:
            raise OSError(errors.pop(), "refused")
        return read(*where)

    monkeypatch.setattr(publishing, "chunks_of", chunks_of)
    place.publisher.committed(2)
    await asyncio.wait_for(place.publisher.reached(2), 5)
    assert (place.failures, place.publisher.load_errors) == ([], 0)
    assert len(caplog.records) == 2
    errors.append(errno.EIO)
    place.publisher.committed(3)
    with pytest.raises(OSError, match="refused"):
        await asyncio.wait_for(place.publisher.reached(3), 5)


async def test_a_failed_publication_ends_the_node_once_and_no_waiter_hangs(place):
    """Applying again would fail again: nothing is tried after the first failure."""

    async def refuse(_image, _change):
        raise ValueError("a follower is broken")

    place.publisher.follow(refuse)
    waiting = asyncio.ensure_future(place.publisher.reached(3))
    place.publisher.committed(3)
    with pytest.raises(ValueError, match="broken"):
        await asyncio.wait_for(waiting, 5)
    with pytest.raises(ValueError, match="broken"):
        await asyncio.wait_for(place.publisher.reached(2), 5)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(place.failures) == 1
    assert (place.publisher.load_errors, place.publisher.apply_errors) == (0, 1)


async def test_records_that_cannot_be_applied_are_counted(place, monkeypatch):
    """Apart from images that cannot be followed."""

    def broken(*_):
        raise Corrupt("the test says so")

    monkeypatch.setattr(publishing, "chunks_of", broken)
    place.publisher.committed(3)
    with pytest.raises(Corrupt):
        await asyncio.wait_for(place.publisher.reached(3), 5)
    assert (place.publisher.load_errors, place.publisher.apply_errors) == (1, 0)


async def test_after_a_close_no_waiter_hangs(place):
    """Those who wait, and those who come later, are cancelled."""
    waiting = asyncio.ensure_future(place.publisher.reached(3))
    await asyncio.sleep(0)
    place.publisher.close()
    await asyncio.wait({waiting}, timeout=5)
    assert waiting.cancelled()
    later = asyncio.ensure_future(place.publisher.reached(3))
    await asyncio.wait({later}, timeout=5)
    assert later.cancelled()


async def test_the_log_may_go_under_a_publication_after_a_halt(place):
    """A snapshot of the leader takes the log's place while a follower of the image is at work."""
    at_work, go_on = asyncio.Event(), asyncio.Event()

    async def follow(_image, _change):
        at_work.set()
        await go_on.wait()

    place.publisher.follow(follow)
    place.publisher.expect((topic(0),), Provenance(0, 1, 7))
    place.publisher.committed(3)
    await at_work.wait()
    halted = asyncio.ensure_future(place.publisher.halt())
    await asyncio.sleep(0)
    assert not halted.done()
    go_on.set()
    await halted
    assert place.publisher.published_offset == 1
    newer = MetadataReplay()
    newer.replay(
        data_batch(list(record_values([topic(n) for n in range(9)], 30)), base_offset=0, epoch=1, timestamp_ms=7)
    )
    place.log.truncate_fully_and_start_at(9, [], None)
    await place.publisher.replace(newer.image(), newer.quorum)
    assert place.publisher.published_offset == 9
    assert not place.failures
