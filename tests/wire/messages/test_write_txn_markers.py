"""WriteTxnMarkers: what each version of the messages carries."""

from stratalog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from stratalog.wire.schema import encode_bytes


def test_request():
    """The transaction version is sent from version 2 on (KIP-1228)."""
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=1,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[3])],
        coordinator_epoch=9,
        transaction_version=2,
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    before = "02" + "0000000000000007" + "0001" + "01" + "02" + "0274" + "0200000003" + "00" + "00000009"
    assert encode_bytes(request, 1).hex() == before + "0000"
    assert encode_bytes(request, 2).hex() == before + "02" + "0000"


def test_response():
    """One outcome for each partition."""
    partition = WritableTxnMarkerPartitionResult(partition_index=3, error_code=47)
    topic = WritableTxnMarkerTopicResult(name="t", partitions=[partition])
    response = WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=7, topics=[topic])])
    expected = "02" + "0000000000000007" + "02" + "0274" + "02" + "00000003" + "002f" + "00" * 4
    assert encode_bytes(response, 2).hex() == expected
    partition.nothing_open = True
    tagged = "00000003" + "002f" + "01" + "88a401" + "01" + "01" + "00" * 3
    assert encode_bytes(response, 2).hex() == expected[: -len("00000003002f" + "00" * 4)] + tagged
