"""The codecs of record batches, and their bounds."""

import gzip
import tracemalloc

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from stratalog.wire.compression import Codec, compress, decompress
from stratalog.wire.errors import Corrupt

MIB = 1 << 20


@given(st.sampled_from(Codec), st.binary(max_size=2000), st.integers(1, 60))
def test_round_trip(codec, data, times):
    """Compressed and decompressed, any bytes are the same."""
    data = data * times
    assert decompress(codec, compress(codec, data), MIB) == data


def test_framing_is_what_other_libraries_read():
    """gzip, LZ4 frame, zstd frame: each library's own reader understands ours, and we theirs."""
    data = b"stratalog " * 5000
    assert gzip.decompress(compress(Codec.GZIP, data)) == data
    assert lz4.frame.decompress(compress(Codec.LZ4, data)) == data
    assert zstandard.ZstdDecompressor().decompress(compress(Codec.ZSTD, data)) == data
    assert decompress(Codec.GZIP, gzip.compress(data), MIB) == data
    assert decompress(Codec.LZ4, lz4.frame.compress(data), MIB) == data
    assert decompress(Codec.ZSTD, zstandard.compress(data), MIB) == data


def test_snappy_comes_in_two_framings():
    """Java writes xerial blocks, librdkafka one raw block; both are read."""
    data = b"stratalog " * 9000
    assert compress(Codec.SNAPPY, data)[:8] == b"\x82SNAPPY\0"
    assert decompress(Codec.SNAPPY, snappy.compress(data), MIB) == data


def test_lz4_blocks_are_independent():
    """Java's reader refuses linked blocks: bit 5 of the frame's flags must be set."""
    assert compress(Codec.LZ4, bytes(200_000))[4] & 0x20


@pytest.mark.parametrize("size_bytes", [0, 65_536, 5 * MIB])
def test_lz4_grows_step_by_step_up_to_the_limit(size_bytes):
    """Data that shrinks a hundredfold comes whole, also where the limit
    is exactly its size, and a lost end is an error.
    """
    data = bytes(size_bytes)
    block = compress(Codec.LZ4, data)
    assert decompress(Codec.LZ4, block, size_bytes) == data
    with pytest.raises(Corrupt):
        decompress(Codec.LZ4, block[:-2], 2 * size_bytes + 1)
    if size_bytes:
        with pytest.raises(Corrupt, match="grows beyond its limit"):
            decompress(Codec.LZ4, block, size_bytes - 1)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_stopped_at_the_limit(codec):
    """64 MiB of zeros against a limit of 1 MiB: Corrupt, and never much more memory than the limit."""
    bomb = compress(codec, bytes(64 * MIB))
    tracemalloc.start()
    with pytest.raises(Corrupt, match="grows beyond"):
        decompress(codec, bomb, MIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * MIB


@given(st.sampled_from([Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]), st.binary(max_size=300), st.data())
def test_damage_raises_corrupt_and_nothing_else(codec, data, draw):
    """Truncated or overwritten streams end in data or in Corrupt."""
    stream = bytearray(compress(codec, data))
    cut = draw.draw(st.integers(0, len(stream)))
    del stream[cut:]
    if stream:
        stream[draw.draw(st.integers(0, len(stream) - 1))] = draw.draw(st.integers(0, 255))
    try:
        decompress(codec, stream, MIB)
    except Corrupt as error:
        assert "block" in str(error)
