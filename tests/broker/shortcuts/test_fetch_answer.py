from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.api.fetch import API
from stratalog.broker.requests.dispatch_row import Row
from stratalog.broker.shortcuts.fetch_answer import AnswerForm
from stratalog.wire.frame import encode_response
from stratalog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

OFFSETS = st.integers(0, 2**63 - 1)


@pytest.mark.parametrize("version", range(7, API.versions[1] + 1))
@given(
    st.integers(-(2**31), 2**31 - 1),
    st.tuples(OFFSETS, OFFSETS, OFFSETS),
    st.integers(0, 300),
    st.booleans(),
    st.integers(0, 2**31 - 1),
)
def test_a_filled_form_is_the_encoded_answer(version, correlation_id, numbers, size_bytes, committed, session_id):
    """Byte for byte, for every version, whatever the numbers and however long the records."""
    row = Row(API, version, SimpleNamespace())
    topic = FetchTopic(topic="t", topic_id=bytes(range(16)), partitions=[FetchPartition(partition=5, fetch_offset=0, partition_max_bytes=1)])  # fmt: skip
    records = b"r" * size_bytes
    partition = PartitionData(
        partition_index=5,
        high_watermark=numbers[0],
        last_stable_offset=numbers[1],
        log_start_offset=numbers[2],
        aborted_transactions=[] if committed else None,
        records=records,
    )
    response = FetchResponse(
        session_id=session_id,
        responses=[FetchableTopicResponse(topic="t", topic_id=topic.topic_id, partitions=[partition])],
    )
    whole = b"".join(encode_response(correlation_id, row.encode(response), flexible=row.response_flexible))
    form = AnswerForm(
        row, FetchRequest(max_wait_ms=0, min_bytes=1, session_id=session_id, topics=[topic]), committed=committed
    )
    pieces = [records[:10], records[10:]] if size_bytes else []
    assert b"".join(form.fill(correlation_id, numbers, pieces, size_bytes)) == whole
