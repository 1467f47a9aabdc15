from __future__ import annotations

import pytest

from stratalog.tier.objects.segment_blobs import epochs_from_bytes
from stratalog.tier.objects.segment_reader import CorruptObject, read_blob, read_chunk, read_chunks, read_object_footer
from stratalog.tier.stores.checked_read import READS_MAX
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.store import NotFound
from stratalog.tier.work.archive_writer import archive_log


@pytest.fixture
def archived(memory_store, log_bytes):
    """One archived object of many chunks: the store, its key and the log bytes."""
    data = log_bytes.segment(0, 40)
    manifest = archive_log(memory_store, log_bytes.partition, [data], now_ms=1, chunk_bytes=1000)
    return memory_store, manifest.entries[0].key, data


def damage(store, key, position):
    """Flip a bit of a stored object."""
    data = bytearray(store.get(key)[0])
    data[position] ^= 1
    store.put(key, bytes(data))


def test_footer_and_chunks_give_the_log_bytes_back(archived):
    """All chunks in order are the range's bytes."""
    store, key, data = archived
    footer = read_object_footer(store, key)
    assert b"".join(read_chunk(store, key, chunk) for chunk in footer.chunks) == data
    assert (
        b"".join(read_chunks(store, key, list(footer.chunks)[2:4]))
        == data[footer.chunks[2].position : footer.chunks[4].position]
    )


def test_a_footer_larger_than_the_suffix_is_fetched_whole(archived, monkeypatch):
    """A first GET that is too short is followed by longer ones."""
    store, key, _ = archived
    whole = read_object_footer(store, key)
    for suffix_bytes in (32, 200, 1500):
        monkeypatch.setattr("stratalog.tier.objects.segment_reader.SUFFIX_BYTES", suffix_bytes)
        assert read_object_footer(store, key) == whole


def test_parts_are_checked_one_by_one(archived):
    """A damaged part is refused, the others are still read."""
    store, key, _ = archived
    footer = read_object_footer(store, key)
    assert epochs_from_bytes(read_blob(store, key, footer, "leader_epochs")) == ((1, 0),)
    assert read_blob(store, key, footer, "producer_snapshot") == b""
    damage(store, key, footer.blobs["leader_epochs"].position)
    with pytest.raises(CorruptObject, match="leader_epochs"):
        read_blob(store, key, footer, "leader_epochs")
    assert read_blob(store, key, footer, "offset_index")
    with pytest.raises(CorruptObject, match="no part"):
        read_blob(store, key, footer, "pictures")


def test_a_damaged_chunk_names_key_position_and_offset(archived):
    """So that a scrub, or a person, finds it."""
    store, key, _ = archived
    chunk = read_object_footer(store, key).chunks[3]
    damage(store, key, chunk.position + 7)
    with pytest.raises(CorruptObject) as caught:
        read_chunk(store, key, chunk)
    assert (caught.value.key, caught.value.position, caught.value.offset) == (key, chunk.position, chunk.first_offset)


def test_a_damaged_tail_is_corrupt_and_a_missing_object_is_missing(archived):
    """The two are not confused: one is an alarm, the other may be retention."""
    store, key, _ = archived
    damage(store, key, -1)
    with pytest.raises(CorruptObject, match="STRT"):
        read_object_footer(store, key)
    with pytest.raises(NotFound):
        read_object_footer(store, key + "x")


@pytest.mark.parametrize("fault", [Fault.CORRUPT, Fault.TRUNCATE])
def test_damage_on_the_way_is_not_taken_for_damage_in_the_store(archived, fault):
    """Another read decides; only what is wrong each time is reported as corrupt."""
    store, key, data = archived
    faulty = FaultyStore(store, [FaultRule(fault, "get_suffix"), FaultRule(fault, "get_range")])
    footer = read_object_footer(faulty, key)
    assert read_chunk(faulty, key, footer.chunks[0]) == data[: footer.chunks[0].length]
    assert read_blob(faulty, key, footer, "leader_epochs")
    faulty.set_rules([FaultRule(fault, "get_range", count=READS_MAX)])
    with pytest.raises(CorruptObject):
        read_chunk(faulty, key, footer.chunks[0])
