"""The role of a leader: batches that are refused for some of their records."""

import pytest

from stratalog.wire.errors import ErrorCode, Retriable
from stratalog.wire.record_rules import RecordError, RecordRules, RecordsRefused
from tests.broker.replicas.leader_rig import Bench

NOW_MS = 1_700_000_000_000


@pytest.fixture
def bench(tmp_path):
    """Makes a partition with settings of the test's own."""
    return lambda **options: Bench(str(tmp_path), **options)


@pytest.fixture
def batch(new_batch):
    """A batch with the time of the clock of these tests."""
    return lambda: new_batch(b"v", timestamp_ms=NOW_MS)


@pytest.mark.parametrize("looked_at", [True, False])
def test_a_batch_of_a_wrong_time_is_refused_when_its_records_are_known(bench, new_batch, batch, looked_at):
    """Others go on meanwhile; without a look at the records it is refused by its header."""
    it = bench(message_timestamp_after_max_ms=1000)
    it.append("late", new_batch(b"v", timestamp_ms=NOW_MS + 5000))
    it.append("good", batch())
    it.disk.write()
    it.disk.flush()
    assert it.codes() == {"good": 0}
    ((_, codec, rules, done, *_),) = it.reworks
    assert (codec, rules.topic_partition, rules.latest_ms) == (None, "t-0", NOW_MS + 1000)
    refused = RecordsRefused(ErrorCode.INVALID_TIMESTAMP, "why", (RecordError(0, "late"),))
    done(refused if looked_at else Retriable("no room"))
    assert it.codes() == {"late": ErrorCode.INVALID_TIMESTAMP, "good": 0}
    assert (it.ended["late"] is refused) == looked_at
    assert sorted(it.released) == ["good", "late"]


def test_times_do_not_matter_where_the_broker_stamps(bench, batch):
    """Times in the header and in records that are opened for their keys are not checked."""
    it = bench(cleanup_policy=frozenset({"compact"}), message_timestamp_type="LogAppendTime")
    it.append("a", batch())
    assert it.reworks[0][2] == RecordRules("t-0", keys_required=True)
