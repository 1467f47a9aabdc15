"""The work of the cpu worker."""

import pytest

from stratalog.broker.workers.cpu_worker import Rework, cpu_worker
from stratalog.hot.segments.batch_search import BatchSearch
from stratalog.wire.batch import iter_records, read_header
from stratalog.wire.compression import Codec
from stratalog.wire.errors import ErrorCode, Invalid, KafkaError
from stratalog.wire.record_rules import RecordRules

KEYED = RecordRules("t-0", keys_required=True)


def test_a_batch_is_brought_to_another_codec(new_batch):
    """Offsets, times and values stay; the codec bits change."""
    batch = bytes(new_batch(b"a" * 100, b"b" * 100, key=b"k"))
    out = cpu_worker().execute(Rework(batch, Codec.ZSTD, KEYED, 1 << 20))
    assert read_header(out).codec is Codec.ZSTD
    assert [record.value for record in iter_records(out)] == [b"a" * 100, b"b" * 100]


def test_a_record_is_found_by_its_time(new_batch):
    """In the batch that comes with the command."""
    batch = bytes(new_batch(b"a", b"b", b"c", timestamp_ms=1000, codec=Codec.LZ4))
    assert cpu_worker().execute(BatchSearch(batch, 1001, 0, 60)) == (1001, 1, -1)
    assert cpu_worker().execute(BatchSearch(batch, 1003, 0, 60)) is None


def test_a_bad_batch_raises_its_error(new_batch):
    """A record without a key where keys are needed."""
    with pytest.raises(KafkaError) as refused:
        cpu_worker().execute(Rework(bytes(new_batch(b"a")), None, KEYED, 1 << 20))
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_an_unknown_command_is_refused():
    """It says which."""
    with pytest.raises(Invalid, match="str"):
        cpu_worker().execute("dance")
