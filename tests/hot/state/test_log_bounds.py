"""Tests of hot/state/log_bounds.py."""

import json
import os
from pathlib import Path

import pytest
from crc32c import crc32c

from stratalog.hot.state.log_bounds import LogBounds, bounds_from_bytes, bounds_to_bytes, is_newer_than_checkpoint
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition

BOUNDS = {
    TopicPartition("a-b.c", 3): LogBounds(7, None, None),
    TopicPartition("z", 0): LogBounds(0, 99, 99),
    TopicPartition("z", 1): LogBounds(5, 99, 42),
    TopicPartition("z", 2): LogBounds(0, 99, 0),
    TopicPartition("z", 3): LogBounds(0, 99, 99, 5),
    TopicPartition("z", 4): LogBounds(0, 99, 42, 0),
}


def test_bounds_survive_their_file():
    """Topics may have hyphens."""
    assert bounds_from_bytes(bounds_to_bytes(BOUNDS)) == BOUNDS
    assert bounds_from_bytes(bounds_to_bytes({})) == {}


def test_an_earlier_version_reads_the_file_and_is_read():
    """It knows two numbers, and of two rows of one log the last one counts for it."""
    body = bounds_to_bytes(BOUNDS).partition(b"\n")[2]
    rows = {"a-b.c-3": [7, None], "z-0": [0, 99], "z-1": [5, 99], "z-2": [0, 99], "z-3": [0, 99], "z-4": [0, 99]}
    assert json.loads(body) == rows
    first = json.loads(body, object_pairs_hook=lambda pairs: dict(reversed(pairs)))  # as the one after it does
    assert first == {**rows, "z-1": [5, 99, 42], "z-2": [0, 99, 0], "z-3": [0, 99, 99], "z-4": [0, 99, 42]}
    earlier = json.dumps(rows).encode()
    data = b"1 %08x %d\n%b" % (crc32c(earlier), len(earlier), earlier)
    assert bounds_from_bytes(data) == {name: LogBounds(one[0], one[1], one[1]) for name, one in BOUNDS.items()}


@pytest.mark.parametrize(
    "body", [b"[]", b'{"t-0":[]}', b'{"t-0":[1]}', b'{"t-0":[1,2,3,4,5]}', b'{"t-0":7}', b'{"t":[1,2]}']
)
def test_rows_of_another_kind_are_corrupt(body):
    """They have a sound checksum: another program wrote them."""
    with pytest.raises(Corrupt, match="log-bounds"):
        bounds_from_bytes(b"1 %08x %d\n%b" % (crc32c(body), len(body), body))


def test_a_flipped_bit_is_corrupt():
    """That is what it is for."""
    good = bounds_to_bytes(BOUNDS)
    for bit in range(len(good) * 8):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        try:
            assert bounds_from_bytes(bytes(data)) == BOUNDS, bit  # a letter of the CRC, written large
        except Corrupt:
            continue


@pytest.mark.parametrize("data", [b"", b"1", b"1 0 0\n", b"1 00000000 2\n{}", b"\xff" * 30])
def test_other_content_is_corrupt(data):
    """Kafka's checkpoints are read then."""
    with pytest.raises(Corrupt, match="log-bounds"):
        bounds_from_bytes(data)


def test_bounds_count_where_they_are_newer_than_the_checkpoint(files, tmp_path):
    """Kafka writes its checkpoint and knows nothing of this file."""
    bounds, starts = tmp_path / "log-bounds", tmp_path / "log-start-offset-checkpoint"
    bounds.write_bytes(b"")
    assert is_newer_than_checkpoint(files, str(tmp_path))
    starts.write_bytes(b"")
    for mine, theirs, expected in ((5, 5, True), (6, 5, True), (5, 6, False)):
        os.utime(bounds, ns=(0, mine))
        os.utime(starts, ns=(0, theirs))
        assert is_newer_than_checkpoint(files, str(tmp_path)) is expected
    assert Path(bounds).exists()
