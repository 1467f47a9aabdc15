from __future__ import annotations

import json
import os
import struct

import pytest
from crc32c import crc32c

from stratalog.tier.objects.footer import (
    BLOBS,
    SUFFIX_BYTES,
    TRAILER_BYTES,
    encode_footer,
    encode_trailer,
    read_footer,
    read_trailer,
)
from stratalog.tier.objects.segment_object import SegmentRequest, build_segment
from stratalog.tier.stores.source import as_bytes
from stratalog.wire.errors import Corrupt


@pytest.fixture
def built(log_bytes):
    """A built object of 20 batches and its bytes."""
    request = SegmentRequest(
        log_bytes.partition, os.urandom(16), 0, 200, 5, (log_bytes.segment(0, 20),), chunk_bytes=900
    )
    segment = build_segment(request)
    return segment, as_bytes(segment.source)


def reseal(data, change):
    """The object with its footer JSON changed and sealed again."""
    position, length, _, data_length, *_ = struct.unpack(">QIIQHH4s", data[-32:])
    fields = json.loads(data[position : position + length])
    change(fields)
    footer = json.dumps(fields).encode()
    return data[:position] + footer + encode_trailer(position, footer, data_length)


def test_the_trailer_has_32_bytes_and_a_fixed_layout(built):
    """Footer position and length, its CRC, data length, version, flags, magic: big-endian, at the very end."""
    _, data = built
    position, length, crc, data_length, version, flags, magic = struct.unpack(">QIIQHH4s", data[-32:])
    assert (version, flags, magic) == (1, 0, b"STRT")
    assert position + length + 32 == len(data)
    assert crc == crc32c(data[position : position + length])
    assert read_trailer(data, len(data)).data_length == data_length


def test_one_suffix_gives_footer_and_chunk_table(built):
    """The chunk table stands right before the footer; the entry is the manifest's, the size is the store's."""
    segment, data = built
    tail = data[segment.entry.chunks_position :]
    footer = read_footer(tail, len(data))
    assert footer.chunks == segment.chunks
    assert footer.entry.size_bytes == len(data) == segment.entry.size_bytes
    assert footer.entry.data_crc32c == segment.entry.data_crc32c == crc32c(data[: segment.entry.data_bytes])
    assert footer.partition == segment.footer.partition
    assert footer.blobs == segment.footer.blobs


def test_a_suffix_without_the_chunk_table_still_gives_the_footer(built):
    """The table is then fetched by its place in the footer."""
    segment, data = built
    chunks = segment.footer.blobs["chunks"]
    footer = read_footer(data[chunks.position + chunks.length :], len(data))
    assert footer.chunks is None
    assert footer.entry.uuid == segment.entry.uuid


def test_two_gibibytes_of_chunks_and_the_footer_fit_the_suffix(built):
    """512 chunks of 32 bytes and a footer with room for a long name stay far below 64 KiB."""
    segment, _ = built
    assert 512 * 32 + len(encode_footer(segment.footer)) + 300 + TRAILER_BYTES < SUFFIX_BYTES


def test_the_parts_follow_each_other(built):
    """Behind the data every part begins where the one before it ends, the chunk table last."""
    segment, data = built
    position = segment.entry.data_bytes
    for name in BLOBS:
        blob = segment.footer.blobs[name]
        assert blob.position == position
        blob.check(name, data[position : position + blob.length])
        position += blob.length
    assert read_trailer(data, len(data)).footer_position == position


def test_fields_of_a_newer_writer_are_kept(built):
    """Unknown fields, also inside the entry, come back when the footer is written again."""
    _, data = built
    newer = reseal(data, lambda f: (f.update(colour="red"), f["entry"].update(shape={"a": [1]})))
    footer = read_footer(newer, len(newer))
    fields = json.loads(encode_footer(footer))
    assert fields["colour"] == "red"
    assert fields["entry"]["shape"] == {"a": [1]}


@pytest.mark.parametrize("byte", [-1, -5, -9, -16, -20, -28, -40, -200])
def test_one_flipped_byte_in_footer_or_trailer_is_found(built, byte):
    """Each field of the trailer and every byte of the footer is checked; unknown flags are refused too."""
    _, data = built
    damaged = bytearray(data)
    damaged[byte] ^= 0x10
    with pytest.raises(Corrupt):
        read_footer(bytes(damaged), len(data))


def test_a_flipped_byte_in_the_chunk_table_is_found(built):
    """The table is checked by its own CRC-32C."""
    segment, data = built
    damaged = bytearray(data)
    damaged[segment.entry.chunks_position + 3] ^= 1
    with pytest.raises(Corrupt, match="chunks"):
        read_footer(bytes(damaged), len(data))


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.update(format="other"),
        lambda f: f.update(version=2),
        lambda f: f.pop("entry"),
        lambda f: f.update(blobs=[]),
        lambda f: f["blobs"]["chunks"].update(len=10**9),
        lambda f: f["entry"].update(base=300),
        lambda f: f["entry"].update(data_len=1),
        lambda f: f["entry"].update(uuid="short"),
    ],
)
def test_a_footer_that_makes_no_sense_is_corrupt(built, change):
    """A right CRC does not make a wrong footer right."""
    _, data = built
    changed = reseal(data, change)
    with pytest.raises(Corrupt):
        read_footer(changed, len(changed))


def test_short_suffixes_are_refused(built):
    """Neither an empty object nor a suffix that cuts the footer is guessed at."""
    _, data = built
    with pytest.raises(Corrupt, match="no segment object"):
        read_footer(b"", 0)
    with pytest.raises(Corrupt, match="ask for more"):
        read_footer(data[-100:], len(data))
