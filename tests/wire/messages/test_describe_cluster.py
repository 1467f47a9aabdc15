"""DescribeCluster: what each version of the messages carries."""

from stratalog.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from stratalog.wire.schema import decode, encode_bytes


def test_request_versions():
    """The endpoint type since 1, brokers unless said otherwise; fenced ones since 2."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=True, include_fenced_brokers=True)
    assert [encode_bytes(request, version).hex() for version in range(3)] == ["0100", "010100", "01010100"]
    assert decode(DescribeClusterRequest, 0, b"\0\0").endpoint_type == 1


def test_response_versions():
    """Whether a node is fenced is said from version 2 on."""
    node = DescribeClusterBroker(broker_id=1, host="h", port=9092, is_fenced=True)
    response = DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=[node])
    start, middle = "00000000 0000 00", "0263 00000001 02 00000001 0268 00002384 00"
    assert encode_bytes(response, 0) == bytes.fromhex(start + middle + "00 80000000 00")
    assert encode_bytes(response, 1) == bytes.fromhex(start + "01" + middle + "00 80000000 00")
    assert encode_bytes(response, 2) == bytes.fromhex(start + "01" + middle + "01 00 80000000 00")
