"""The codecs of record batches, each bounded: output never exceeds the caller's limit, whatever the input claims.

Framing differs by codec (research of Kafka's clients): gzip is a plain RFC 1952 stream, lz4 an LZ4 frame, zstd a
zstd frame; snappy comes either in the xerial framing of the Java client or, from librdkafka, as one raw block.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import Final

import cramjam
import lz4.frame
import zstandard

from stratalog.wire.errors import Corrupt

__all__ = ["DECOMPRESSED_BYTES_MAX", "Codec", "TooLarge", "compress", "decompress"]

DECOMPRESSED_BYTES_MAX: Final = 1 << 28
"""The largest records of one batch that are read, cleaned or looked at for the archive, uncompressed."""

Buffer = bytes | bytearray | memoryview


class TooLarge(Corrupt):
    """The compressed data is larger than its reader opens. Its bytes may be whole."""


class Codec(IntEnum):
    """Bits 0 to 2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_GZIP_WINDOW: Final = 31  # zlib's way of saying "gzip framing, 32 KiB window"
_STEP_BYTES: Final = 1 << 20
_LZ4_STEP_BYTES_MIN: Final = 64 << 10
_LZ4_RATIO: Final = 8
_ZSTD_COMPRESSORS: Final[list[zstandard.ZstdCompressor]] = []
_ZSTD_DECOMPRESSORS: Final[list[zstandard.ZstdDecompressor]] = []
"""Idle contexts, at most as many as there are threads."""


def compress(codec: Codec, data: Buffer) -> bytes:
    """``data`` in the framing that every Kafka client reads."""
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        deflate = zlib.compressobj(wbits=_GZIP_WINDOW)
        return deflate.compress(data) + deflate.flush()
    if codec is Codec.SNAPPY:
        return _xerial(memoryview(data))
    if codec is Codec.LZ4:
        # Java's reader knows only independent blocks.
        return bytes(
            lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False)
        )
    # A context takes longer to make than a small batch to compress; popping and appending are safe between threads.
    compressor = _ZSTD_COMPRESSORS.pop() if _ZSTD_COMPRESSORS else zstandard.ZstdCompressor()
    try:
        return compressor.compress(data)
    finally:
        _ZSTD_COMPRESSORS.append(compressor)


def decompress(codec: Codec, data: Buffer, limit_bytes: int) -> bytes:
    """The records of a compressed batch.

    Raises `Corrupt` when the stream is damaged and `TooLarge` when it would grow beyond ``limit_bytes``; at most about
    that much memory is ever allocated (a megabyte of zstd can claim 32 GiB).
    """
    try:
        if codec is Codec.NONE:
            out = bytes(data)
        elif codec is Codec.GZIP:
            out = _gunzip(data, limit_bytes)
        elif codec is Codec.SNAPPY:
            out = _unsnappy(memoryview(data), limit_bytes)
        elif codec is Codec.LZ4:
            out = _unlz4(data, limit_bytes)
        else:
            out = _unzstd(data, limit_bytes)
    except (zlib.error, cramjam.DecompressionError, zstandard.ZstdError, RuntimeError, ValueError) as error:
        raise Corrupt(f"a {codec.name.lower()} block of {len(data)} bytes cannot be decompressed: {error}") from error
    if len(out) > limit_bytes:
        raise _too_large(codec, limit_bytes)
    return out


def _too_large(codec: Codec, limit_bytes: int) -> TooLarge:
    return TooLarge(f"a {codec.name.lower()} block grows beyond its limit ({limit_bytes} bytes were left)")


def _gunzip(data: Buffer, limit_bytes: int) -> bytes:
    inflate = zlib.decompressobj(wbits=_GZIP_WINDOW)
    out = inflate.decompress(data, limit_bytes + 1)
    if len(out) > limit_bytes:
        raise _too_large(Codec.GZIP, limit_bytes)
    if not inflate.eof:
        raise Corrupt("a gzip block ends before its stream does")
    return out


def _unzstd(data: Buffer, limit_bytes: int) -> bytes:
    pieces = []
    size_bytes = 0
    context = _ZSTD_DECOMPRESSORS.pop() if _ZSTD_DECOMPRESSORS else zstandard.ZstdDecompressor(max_window_size=1 << 27)
    try:
        with context.stream_reader(data) as reader:
            while piece := reader.read(min(_STEP_BYTES, limit_bytes + 1 - size_bytes)):
                pieces.append(piece)
                size_bytes += len(piece)
                if size_bytes > limit_bytes:
                    raise _too_large(Codec.ZSTD, limit_bytes)
    finally:
        _ZSTD_DECOMPRESSORS.append(context)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _unlz4(data: Buffer, limit_bytes: int) -> bytes:
    frame = lz4.frame.LZ4FrameDecompressor()
    pieces: list[bytes] = []
    room_bytes = limit_bytes + 1
    # The library allocates what it is allowed to return: a limit of 256 MiB costs more than the decompression.
    step_bytes = max(_LZ4_STEP_BYTES_MIN, _LZ4_RATIO * len(data))
    coming = data
    while not frame.eof:
        piece = frame.decompress(coming, max_length=min(step_bytes, room_bytes))
        pieces.append(piece)
        room_bytes -= len(piece)
        if room_bytes <= 0:
            raise _too_large(Codec.LZ4, limit_bytes)
        if not frame.eof and frame.needs_input:
            raise Corrupt("an lz4 block ends before its frame does")
        coming = b""
        step_bytes *= 2
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _unsnappy(view: memoryview, limit_bytes: int) -> bytes:
    if bytes(view[:8]) != _XERIAL_MAGIC:
        return _raw_snappy(view, limit_bytes)
    pieces: list[bytes] = []
    size_bytes = 0
    position = _XERIAL_HEADER_BYTES
    while position < len(view):
        length = int.from_bytes(view[position : position + 4], "big")
        position += 4
        if position + length > len(view):
            raise Corrupt(f"a snappy block of {length} bytes reaches beyond its batch")
        piece = _raw_snappy(view[position : position + length], limit_bytes - size_bytes)
        pieces.append(piece)
        size_bytes += len(piece)
        position += length
    return b"".join(pieces)


def _raw_snappy(view: memoryview, limit_bytes: int) -> bytes:
    if len(view) == 0:
        raise Corrupt("an empty snappy block")
    if cramjam.snappy.decompress_raw_len(view) > limit_bytes:
        raise _too_large(Codec.SNAPPY, limit_bytes)
    return bytes(cramjam.snappy.decompress_raw(view))


def _xerial(view: memoryview) -> bytes:
    pieces = [_XERIAL_MAGIC, (1).to_bytes(4, "big"), (1).to_bytes(4, "big")]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        pieces += [len(block).to_bytes(4, "big"), block]
    return b"".join(pieces)
