"""DescribeLogDirs: what each version of the messages carries."""

from stratalog.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """Null asks for everything."""
    request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="t", partitions=[1])])
    assert encode_bytes(request, 1) == bytes.fromhex("00000001 0001 74 00000001 00000001")
    assert encode_bytes(request, 5) == bytes.fromhex("02 0274 02 00000001 00 00")
    assert encode_bytes(DescribeLogDirsRequest(topics=None), 1) == bytes.fromhex("ffffffff")
    assert encode_bytes(DescribeLogDirsRequest(topics=None), 2) == bytes.fromhex("00 00")


def test_response_versions():
    """A code for the whole since 3, the volume's bytes since 4, cordoned directories since 5."""
    part = DescribeLogDirsPartition(partition_index=1, partition_size=5, offset_lag=0, is_future_key=False)
    result = DescribeLogDirsResult(
        log_dir="/d", topics=[DescribeLogDirsTopic(name="t", partitions=[part])], total_bytes=9, usable_bytes=8
    )
    response = DescribeLogDirsResponse(results=[result])
    partition = "00000001 0000000000000005 0000000000000000 00"
    old = "00000000 00000001 0000 0002 2f64 00000001 0001 74 00000001" + partition
    assert encode_bytes(response, 1) == bytes.fromhex(old)
    body = "02 0000 032f64 02 0274 02" + partition + "00 00"
    assert encode_bytes(response, 2) == bytes.fromhex("00000000" + body + "00 00")
    assert encode_bytes(response, 3) == bytes.fromhex("00000000 0000" + body + "00 00")
    volume = "0000000000000009 0000000000000008"
    assert encode_bytes(response, 4) == bytes.fromhex("00000000 0000" + body + volume + "00 00")
    assert encode_bytes(response, 5) == bytes.fromhex("00000000 0000" + body + volume + "00 00 00")
