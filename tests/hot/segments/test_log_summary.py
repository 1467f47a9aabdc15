"""Tests of hot/segments/log_summary.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.hot.segments.log_summary import ActiveSummary, LogSummary, summaries_from_bytes, summaries_to_bytes
from stratalog.hot.segments.segment_indexes import IndexTail
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.hot.storage.filesystem import FileStatus
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition

NUMBERS = st.integers(-1, 2**63 - 1)
CRCS = st.integers(0, 2**32 - 1)
STATUSES = st.builds(FileStatus, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
TAILS = st.builds(IndexTail, NUMBERS, CRCS, NUMBERS, NUMBERS, CRCS, NUMBERS, NUMBERS)
ACTIVES = st.builds(
    ActiveSummary, NUMBERS, NUMBERS, NUMBERS, st.binary(max_size=61).map(bytes.hex), TAILS, NUMBERS, CRCS
)
EPOCHS = st.lists(st.builds(EpochEntry, NUMBERS, NUMBERS), max_size=3).map(tuple)
FILES = st.dictionaries(st.text("0123456789.logsnapshot-", min_size=1), STATUSES, max_size=4)
SUMMARIES = st.builds(
    LogSummary, st.binary(min_size=16, max_size=16), NUMBERS, NUMBERS, STATUSES, FILES, EPOCHS, ACTIVES
)
PARTITIONS = st.builds(TopicPartition, st.text("abc.-_9", min_size=1, max_size=9), st.integers(0, 2**31 - 1))
ALL = st.dictionaries(PARTITIONS, SUMMARIES, max_size=4)

ONE = {
    TopicPartition("flights", 3): LogSummary(
        bytes(range(16)), 34, 0, FileStatus(1, 2, 3, 4), {"partition.metadata": FileStatus(5, 6, 7, 8)},
        (EpochEntry(1, 0),), ActiveSummary(30, 9, 10, "00ff", IndexTail(1, 2, 3, 4, 5, 6, 7), 0, 0),
    )
}  # fmt: skip


@given(summaries=ALL)
def test_summaries_survive_their_file(summaries):
    """Names, numbers and the order of files."""
    found = summaries_from_bytes(summaries_to_bytes(summaries))
    assert found == summaries
    assert [list(one.files) for one in found.values()] == [list(one.files) for one in summaries.values()]


@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_changed_byte_is_noticed(at, byte):
    """No part of a damaged file is believed."""
    data = bytearray(summaries_to_bytes(ONE))
    at %= len(data)
    before, data[at] = data[at], byte
    try:
        found = summaries_from_bytes(bytes(data))
    except Corrupt:
        assert byte != before
    else:  # the digits of the head may be written otherwise
        assert found == ONE


@pytest.mark.parametrize("length", range(0, 60, 3))
def test_a_file_that_was_cut_is_noticed(length):
    """Also an empty one."""
    with pytest.raises(Corrupt, match="log-summaries"):
        summaries_from_bytes(summaries_to_bytes(ONE)[:length])


@pytest.mark.parametrize(
    "body", [b"[]", b"7", b'{"flights-0":[]}', b'{"flights":7}', b'{"flights-0":[1,2,3,4,5,6,7]}', b"{"]
)
def test_other_content_is_no_summary(body):
    """Even with the right check sum."""
    from crc32c import crc32c

    with pytest.raises(Corrupt, match="log-summaries"):
        summaries_from_bytes(b"1 %08x %d\n%b" % (crc32c(body), len(body), body))


def test_another_version_is_corrupt():
    """It costs a slower start."""
    with pytest.raises(Corrupt, match="version 2"):
        summaries_from_bytes(b"2" + summaries_to_bytes(ONE)[1:])
