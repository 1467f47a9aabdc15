"""Tests of hot/state/log_bounds.py."""

import os
from pathlib import Path

import pytest

from stratalog.hot.state.log_bounds import LogBounds, bounds_from_bytes, bounds_to_bytes, is_newer_than_checkpoint
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition

BOUNDS = {TopicPartition("a-b.c", 3): LogBounds(7, None), TopicPartition("z", 0): LogBounds(0, 99)}


def test_bounds_survive_their_file():
    """Topics may have hyphens."""
    assert bounds_from_bytes(bounds_to_bytes(BOUNDS)) == BOUNDS
    assert bounds_from_bytes(bounds_to_bytes({})) == {}


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
