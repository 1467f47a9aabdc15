"""The batches in which decisions are written."""

import pytest

from stratalog.broker.quorum.batches import data_batch
from stratalog.metadata.image.decision import Decision
from stratalog.metadata.image.decision_batches import batches
from stratalog.metadata.image.record_values import record_values
from stratalog.metadata.quorum.batch_bounds import BATCH_BYTES_MAX
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import (
    BeginTransactionRecord,
    BrokerEndpoint,
    ConfigRecord,
    EndTransactionRecord,
    NoOpRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)


@pytest.mark.parametrize(
    ("level", "count", "is_atomic", "sizes"),
    [
        (30, 0, True, []),
        (30, 1_000, True, [1_000]),
        (30, 1_001, True, [1_000, 3]),
        (30, 1_001, False, [1_000, 1]),
        (30, 2_500, False, [1_000, 1_000, 500]),
        (12, 2_500, False, [1_000, 1_000, 500]),
        (12, 10_000, True, [10_000]),
        (12, 10_001, True, [10_000, 3]),
    ],
)
def test_a_large_decision_is_written_in_batches(level, count, is_atomic, sizes):
    """A batch is encoded in one step. A decision that has to hold as a whole becomes a metadata transaction (KIP-868)."""
    decision = Decision((NoOpRecord(),) * count, None, is_atomic=is_atomic)
    parts = list(batches(decision, level))
    assert [len(part) for part in parts] == sizes
    is_transaction = is_atomic and count > (10_000 if level < 13 else 1_000)
    kinds = [type(parts[0][0]), type(parts[-1][-1])] if parts else []
    expected = [BeginTransactionRecord, EndTransactionRecord] if is_transaction else [NoOpRecord, NoOpRecord]
    assert kinds == (expected if parts else [])


def setting(value):
    return ConfigRecord(resource_type=2, resource_name="t", name="n", value=value)


def registration(listener):
    endpoint = BrokerEndpoint(name=listener, host="h", port=1, security_protocol=0)
    return RegisterBrokerRecord(
        broker_id=1, incarnation_id=bytes(16), broker_epoch=1, end_points=[endpoint], features=[], rack=None
    )


@pytest.mark.parametrize("is_atomic", [True, False])
def test_a_batch_has_8_mib_at_most(is_atomic):
    """No follower would get a larger one in time, and the next leader would be asked for the same."""
    decision = Decision((setting("v" * 32_767),) * 600, None, is_atomic=is_atomic)
    parts = batches(decision, 30)
    assert [record for part in parts for record in part if isinstance(record, ConfigRecord)] == list(decision.records)
    sizes = [
        len(data_batch(list(record_values(part, 30)), base_offset=1 << 40, epoch=9, timestamp_ms=1)) for part in parts
    ]
    assert len(parts) == 3
    assert max(sizes) <= BATCH_BYTES_MAX
    assert isinstance(parts[0][0], BeginTransactionRecord) is is_atomic


@pytest.mark.parametrize("text", ["v" * 32_768, "ä" * 16_384])
def test_a_text_that_no_node_can_read_again_is_refused(text):
    """A length of 16 bits is the most that Kafka's nodes take."""
    assert batches(Decision((setting(text[:16_000]),), None), 30)
    with pytest.raises(KafkaError, match="value of a ConfigRecord has more than 32767 bytes") as refused:
        batches(Decision((NoOpRecord(), setting(text)), None), 30)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError, match="name of a RegisterBrokerRecord"):
        batches(Decision((registration(text),), None), 30)


def test_a_record_that_fits_no_batch_is_refused():
    """Before anything of its command is written."""
    replicas = [1] * (BATCH_BYTES_MAX // 4)
    large = PartitionRecord(
        partition_id=0, topic_id=bytes(16), replicas=replicas, isr=[], leader=1, leader_epoch=0, partition_epoch=0
    )
    with pytest.raises(
        KafkaError, match=r"a PartitionRecord would have 8388\d+ bytes, .* has 8388608 at most"
    ) as refused:
        batches(Decision((NoOpRecord(), large), None), 30)
    assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
