"""Ranges of the archive brought into the cache, against a running broker."""

from __future__ import annotations

import pytest

from stratalog.broker.archive.hydration import hydrate
from stratalog.wire.errors import Invalid

TIERED = {
    "remote_storage_enable": "true",
    "internal_segment_bytes": 20_000,
    "retention_ms": -1,
    "local_retention_bytes": 0,
}


@pytest.fixture
def broker(start_node):
    return start_node(log_flush_offset_checkpoint_interval_ms="100", log_retention_check_interval_ms="100")


def archived(broker):
    """A topic of some ten objects, all of them in the bucket only but the last segment."""
    broker.create("t", **TIERED)
    for _ in range(50):
        broker.produce("t", *[b"v" * 1000] * 5)
    unified = broker.partition("t")
    broker.wait_until(
        lambda: unified.remote.end_offset == unified.log.first_base_offset == unified.log.active_base_offset > 0
    )
    return unified


def run(broker, unified, start, end, **options):
    async def work():
        chunks = broker.node.tiering.chunks
        return await hydrate(unified, chunks, start, end, until_ms=chunks.now_ms() + 3_600_000, **options)

    return broker.run(work)


@pytest.mark.story
def test_a_range_is_held_and_read_without_the_bucket(broker):
    """All chunks of it are there and stay, even if others read."""
    unified = archived(broker)
    end = unified.remote.end_offset
    found = run(broker, unified, 0, end)
    assert (found.start, found.next_offset, found.done) == (0, end, True)
    assert found.size_bytes == sum(
        unified.remote.entries.segment(index).data_bytes for index in range(len(unified.remote.entries))
    )
    books = broker.node.tiering.chunks.books
    assert all(not books.lacks(chunk_id) for chunk_id in found.chunks)
    gets = broker.node.tiering._requests["get_range"]
    assert len(broker.values("t")) == 250
    again = run(broker, unified, 0, end)
    assert again.chunks == found.chunks
    assert broker.node.tiering._requests["get_range"] == gets


@pytest.mark.story
def test_it_is_cut_to_the_archived_range(broker):
    """A local range needs no fetch; a range outside is done at once."""
    unified = archived(broker)
    end = unified.remote.end_offset
    found = run(broker, unified, end - 1, end + 1000)
    assert (found.next_offset, found.done, len(found.chunks)) == (end, True, 1)
    found = run(broker, unified, end, end + 1000)
    assert (found.done, found.chunks) == (True, {})


@pytest.mark.story
def test_a_call_ends_after_its_time(broker):
    """And says where to go on."""
    unified = archived(broker)
    first = run(broker, unified, 0, unified.remote.end_offset, call_s=0)
    assert not first.done
    second = run(broker, unified, first.next_offset, unified.remote.end_offset)
    assert second.done


@pytest.mark.story
def test_more_than_the_cache_may_hold_is_refused(broker, monkeypatch):
    """With what to do."""
    unified = archived(broker)
    monkeypatch.setattr(broker.node.tiering.chunks.books, "hold", lambda *_: False)
    with pytest.raises(Invalid, match=r"raise stratalog.cache.bytes.max"):
        run(broker, unified, 0, 100)


def test_a_topic_without_an_archive_has_nothing_to_bring(broker):
    """It says why."""
    broker.create("plain")
    with pytest.raises(Invalid, match="plain-0 has no archive on this broker"):
        run(broker, broker.partition("plain"), 0, 1)
