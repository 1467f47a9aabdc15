"""The chunks that a reader of the archive asks for where it stands, and ahead of it."""

import pytest

from stratalog.broker.cold.stream import RemoteStream
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.view import ManifestView
from stratalog.tier.objects.segment_reader import read_object_footer
from stratalog.tier.reading.remote_log import RemoteLog
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch

PARTITION = PartitionId("t", bytes(16), 0)


@pytest.fixture
def remote():
    """Two objects of seven chunks, each of one batch with one record."""
    store = MemoryStore()
    segments = [
        b"".join(bytes(build_batch([Record(7 * n + b, 0, None, b"v")], leader_epoch=1)) for b in range(7))
        for n in range(2)
    ]
    manifest = archive_log(store, PARTITION, segments, now_ms=0, chunk_bytes=1)
    log = RemoteLog(PARTITION)
    log.merge(ManifestView.of(manifest, "1"))
    log.store, log.manifest = store, manifest
    add_table(log, 0)
    return log


def add_table(log, index):
    entry = log.manifest.entries[index]
    log.add_table(entry.uuid, read_object_footer(log.store, entry.key).chunks.to_bytes())


def chunk_bytes(log):
    return log.plan_fetch(0, 1).chunks[0].chunk.length


def stand(stream, log, offset):
    """The reader has just been answered from the chunk of ``offset``, to its end."""
    stream.held = list(log.plan_fetch(offset, 1).chunks)
    stream.next_offset = offset + 1


def numbers(refs):
    return [ref.chunk.first_offset for ref in refs]


def test_a_first_read_asks_for_one_chunk_and_nothing_ahead(remote):
    """It is not known yet whether it reads on."""
    stream = RemoteStream(3, 0)
    first = remote.plan_fetch(3, 1).chunks[0]
    assert numbers(stream.missing(remote, 3, first)) == [3]
    stand(stream, remote, 3)
    assert stream.ahead(remote, 4, 0) is None


def test_read_ahead_is_asked_for_once_and_by_whole_gets(remote):
    """Each plan begins where the last one ended, and ends where a GET does."""
    add_table(remote, 1)
    size = chunk_bytes(remote)
    stream = RemoteStream(0, 0)
    stand(stream, remote, 0)
    plan = stream.ahead(remote, 1, size)
    assert numbers(plan.chunks) == [1, 2]
    stream.asked(plan, size)
    assert stream.ahead(remote, 1, size) is None
    plan = stream.ahead(remote, 1, 4 * size)
    assert numbers(plan.chunks) == [3, 4, 5]
    stream.asked(plan, 4 * size)
    stand(stream, remote, 2)
    assert stream.ahead(remote, 3, 4 * size) is None
    stand(stream, remote, 3)
    plan = stream.ahead(remote, 4, 4 * size)
    assert numbers(plan.chunks) == [6, 7, 8, 9]


def test_records_not_taken_are_asked_for_again(remote):
    """There was no room, or the table of the next object was not there."""
    size = chunk_bytes(remote)
    stream = RemoteStream(0, 0)
    stand(stream, remote, 0)
    assert numbers(stream.ahead(remote, 1, 9 * size).chunks) == [1, 2, 3, 4, 5, 6]
    plan = stream.ahead(remote, 1, 9 * size)
    assert numbers(plan.chunks) == [1, 2, 3, 4, 5, 6]
    stream.asked(plan, 9 * size)
    again = stream.ahead(remote, 1, 9 * size)
    assert again.chunks == ()
    assert again.missing_table == plan.missing_table is not None
    add_table(remote, 1)
    assert numbers(stream.ahead(remote, 1, 9 * size).chunks) == [7, 8, 9]


def test_after_a_jump_everything_is_asked_for_anew(remote):
    """Also what lies before the place it jumped from."""
    size = chunk_bytes(remote)
    stream = RemoteStream(3, 0)
    stand(stream, remote, 3)
    stream.asked(stream.ahead(remote, 4, size), size)
    stand(stream, remote, 0)
    assert stream.ahead(remote, 1, 0) is None
    assert numbers(stream.ahead(remote, 1, size).chunks) == [1, 2]


def test_a_reader_that_reads_on_and_finds_nothing_asks_for_a_whole_get(remote):
    """Evicted meanwhile, or checked too long ago; elsewhere it asks for one chunk as a first read does."""
    size = chunk_bytes(remote)
    stream = RemoteStream(0, 0)
    stand(stream, remote, 0)
    stream.asked(stream.ahead(remote, 1, size), size)
    stand(stream, remote, 2)
    assert numbers(stream.missing(remote, 3, remote.plan_fetch(3, 1).chunks[0])) == [3, 4, 5]
    assert numbers(stream.missing(remote, 4, remote.plan_fetch(4, 1).chunks[0])) == [4]


def test_the_end_of_the_archive_is_the_end(remote):
    """The plan ends there."""
    add_table(remote, 1)
    stream = RemoteStream(13, 0)
    stand(stream, remote, 13)
    assert stream.ahead(remote, 14, 100) is None
