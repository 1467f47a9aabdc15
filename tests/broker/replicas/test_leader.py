"""The role of a leader: who is answered when, and in which order."""

import pytest

from stratalog.hot.config import LONG_MAX, LogConfig
from stratalog.hot.log.log import AppendInfo
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.wire.batch import build_control_batch, iter_headers
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from tests.broker.replicas.leader_rig import Bench


@pytest.fixture
def bench(tmp_path):
    """Makes a partition with settings of the test's own."""
    return lambda **options: Bench(str(tmp_path), **options)


@pytest.fixture
def batch(new_batch):
    """A batch with a time that the clock of these tests accepts."""
    return lambda *values, **options: new_batch(*(values or (b"v",)), timestamp_ms=1_700_000_000_000, **options)


def test_acks_one_is_answered_when_written_and_acks_all_when_flushed(bench, batch):
    """With sync on ack the leader counts itself by its flushed offset."""
    it = bench()
    it.append("one", batch(), acks=1)
    it.append("all", batch(), acks=-1)
    assert it.ended == {}
    it.disk.write()
    assert it.codes() == {"one": 0}
    assert it.partition.high_watermark == 0
    it.disk.flush()
    assert it.codes() == {"one": 0, "all": 1}
    assert it.partition.high_watermark == 2


def test_without_sync_on_ack_the_file_is_enough(bench, batch):
    """Kafka's flush.messages default: the page cache counts."""
    it = bench(flush_messages=2**63 - 1)
    it.append("all", batch(), acks=-1)
    it.disk.write()
    assert it.codes() == {"all": 0}
    assert not it.partition.flush_due()


@pytest.mark.parametrize(("flush_messages", "due"), [(1, True), (3, True), (4, False)])
def test_flush_messages_counts_offsets(bench, batch, flush_messages, due):
    """Three offsets written and not synced."""
    it = bench(flush_messages=flush_messages)
    it.append("a", batch(b"x", b"y", b"z"), acks=1)
    it.disk.write()
    assert it.partition.flush_due() is due


def test_flush_ms_asks_for_a_sync_of_old_records(bench, batch):
    """Counted from the last flush, and only while something is unsynced."""
    it = bench(flush_messages=100, flush_ms=500)
    it.partition.tick(1000.0)
    assert it.disk.asked_to_sync == []
    it.append("a", batch(), acks=1)
    it.disk.write()
    it.partition.tick(100.4)
    assert it.disk.asked_to_sync == []
    it.partition.tick(100.5)
    assert it.disk.asked_to_sync == [it.partition]
    it.now = 100.6
    it.disk.flush()
    it.partition.tick(999.0)
    assert len(it.disk.asked_to_sync) == 1


def test_too_few_replicas_refuse_acks_all_only(bench, batch):
    """NOT_ENOUGH_REPLICAS and nothing appended; acks 0 and 1 work. More replicas than there are count for none."""
    it = bench(replicas=(1, 2), min_insync_replicas=3)
    it.append("all", batch())
    assert it.codes() == {"all": ErrorCode.NOT_ENOUGH_REPLICAS}
    it.append("one", batch(), acks=1)
    it.append("zero", batch(), acks=0)
    it.disk.write()
    assert it.codes() == {"all": ErrorCode.NOT_ENOUGH_REPLICAS, "one": 0, "zero": 1}


def test_a_set_that_shrinks_below_the_minimum_leaves_appends_waiting(bench, batch):
    """The mark stands still, though the only member left has all of it: REQUEST_TIMED_OUT, as in Kafka since KIP-966.

    NOT_ENOUGH_REPLICAS_AFTER_APPEND would say that the mark has passed; here that is answered in the same step.
    """
    it = bench(in_sync=(1, 2), min_insync_replicas=2)
    it.append("early", batch(), deadline=150.0)
    it.append("late", batch())
    it.disk.write()
    it.disk.flush()
    it.leader.in_sync_changed((1,), 1)
    it.append("one", batch(), acks=1)
    it.append("all", batch())
    it.disk.write()
    it.disk.flush()
    it.partition.tick(150.0)
    assert it.codes() == {"early": ErrorCode.REQUEST_TIMED_OUT, "one": 2, "all": ErrorCode.NOT_ENOUGH_REPLICAS}
    assert (it.partition.high_watermark, it.partition.log.log_end_offset) == (0, 3)
    it.leader.follower_fetched(2, 3, log_start_offset=0, broker_epoch=7)
    assert it.partition.high_watermark == 0
    it.leader.in_sync_changed((1, 2), 2)
    assert it.codes()["late"] == 1
    assert it.partition.high_watermark == 3


def test_the_buffer_is_released_once_when_it_is_in_the_file(bench, batch):
    """And at once when the batch is refused."""
    it = bench()
    it.append("bad", batch()[:-1])
    assert it.released == ["bad"]
    it.append("good", batch())
    assert it.released == ["bad"]
    it.disk.write()
    it.disk.flush()
    assert it.released == ["bad", "good"]


def test_a_follower_that_does_not_come_lets_the_producer_time_out(bench, batch):
    """REQUEST_TIMED_OUT; the record stays in the log, and later ones wait for their own time."""
    it = bench(in_sync=(1, 2))
    it.append("early", batch(), deadline=150.0)
    it.append("late", batch(), deadline=250.0)
    it.disk.write()
    it.disk.flush()
    it.partition.tick(149.9)
    assert it.ended == {}
    it.partition.tick(150.0)
    assert it.codes() == {"early": ErrorCode.REQUEST_TIMED_OUT}
    assert it.partition.log.log_end_offset == 2


def test_a_retry_is_not_answered_before_its_first_attempt(bench, batch):
    """Both wait for the same flush, and later appends keep their place."""
    it = bench()
    numbered = batch(producer_id=1, producer_epoch=0, base_sequence=0)
    it.append("first", bytearray(numbered))
    it.append("later", batch())
    it.append("retry", bytearray(numbered))
    assert it.ended == {}
    it.disk.write()
    assert it.ended == {}
    it.disk.flush()
    assert it.codes() == {"first": 0, "retry": 0, "later": 1}
    it.append("again", bytearray(numbered))
    assert it.codes()["again"] == 0


def test_a_retry_with_acks_one_waits_for_the_file(bench, batch):
    """A first attempt that is only queued may still be lost to a full disk, and its retry with it."""
    it = bench()
    numbered = batch(producer_id=1, producer_epoch=0, base_sequence=0)
    it.append("first", bytearray(numbered), acks=1)
    it.append("retry", bytearray(numbered), acks=1)
    assert it.ended == {}
    it.disk.write()
    assert it.codes() == {"first": 0, "retry": 0}


def test_a_full_disk_refuses_unwritten_appends(bench, batch):
    """Appends written before keep waiting for their sync."""
    it = bench()
    it.append("written", batch())
    it.disk.write()
    it.append("queued", batch())
    it.append("queued one", batch(), acks=1)
    it.partition.log.discard_unwritten()
    it.partition.on_write_refused(OSError(28, "full"))
    assert it.codes() == dict.fromkeys(("queued", "queued one"), ErrorCode.KAFKA_STORAGE_ERROR)
    it.disk.flush()
    assert it.codes()["written"] == 0
    assert it.partition.high_watermark == 1


def test_a_failed_directory_fails_everything_that_waits(bench, batch):
    """KAFKA_STORAGE_ERROR for appends under way, held or new, and readers are woken to hear of it."""
    it = bench(compression_type="zstd")
    woken = []
    it.partition.watchers.add(lambda: woken.append(1))
    it.append("held", batch())
    it.leader.append_as_leader(batch(codec=Codec.ZSTD), lambda outcome: it.ended.update(own=outcome))
    it.disk.offline = OSError(5, "gone")
    it.partition.on_storage_failed(it.disk.offline)
    assert set(it.codes().values()) == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert woken
    assert it.released == ["held"]
    it.append("new", batch(codec=Codec.ZSTD))
    assert it.codes()["new"] == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError, match="offline"):
        it.partition.check_online()


def test_a_partition_that_is_let_go_tells_its_producers(bench, batch):
    """NOT_LEADER_OR_FOLLOWER, which clients retry elsewhere."""
    it = bench()
    it.append("a", batch())
    it.partition.close()
    assert it.codes() == {"a": ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_batch_under_rework_holds_back_the_later_ones(bench, batch):
    """The log keeps the order in which batches came, whatever takes longer."""
    it = bench(compression_type="zstd")
    plain, ready = batch(b"deep"), batch(b"ready", codec=Codec.ZSTD)
    it.append("deep", plain)
    it.append("ready", ready)
    assert (it.partition.log.log_end_offset, it.released) == (0, [])
    ((data, codec, rules, done, *_),) = it.reworks
    assert (data, codec, rules.keys_required) == (bytes(plain), Codec.ZSTD, False)
    done(bytearray(batch(b"deep", codec=Codec.ZSTD)))
    it.disk.write()
    it.disk.flush()
    assert it.codes() == {"deep": 0, "ready": 1}
    assert sorted(it.released) == ["deep", "ready"]
    read = it.partition.log.read(0, max_bytes=9999, max_offset=2)
    stored = b"".join(part.file.pread(part.length, part.position) for part in read.parts)
    assert [header.codec for _, header in iter_headers(stored)] == [Codec.ZSTD, Codec.ZSTD]


PRODUCER = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
TRANSACTIONAL = {**PRODUCER, "base_sequence": 0}


def transaction_end(kind):
    """A marker of producer 7 in epoch 0."""
    return build_control_batch(kind, bytes(6), offset=0, timestamp_ms=0, leader_epoch=-1, **PRODUCER)


def test_the_end_of_a_transaction_goes_behind_batches_under_rework(bench, batch):
    """One of them would begin it anew behind its end."""
    it = bench(compression_type="zstd")
    it.append("data", batch(**TRANSACTIONAL))
    outcomes = []
    it.leader.append_marker(transaction_end(0), 0, outcomes.append)
    it.reworks[0][3](bytearray(batch(codec=Codec.ZSTD, **TRANSACTIONAL)))
    assert not it.partition.log.producer_state.has_open_transaction(7, 0)
    it.disk.write()
    it.disk.flush()
    assert (it.codes(), outcomes[0].base_offset) == ({"data": 0}, 1)
    assert it.partition.last_stable_offset == 2


def test_markers_stay_final_when_a_full_disk_has_the_state_read_anew(bench, batch, monkeypatch):
    """Readers of committed records go on with the next tick, without further writes."""
    monkeypatch.setattr(ProducerStateManager, "take_back", lambda *_: False)
    it = bench()
    woken = []
    it.append("data", batch(**TRANSACTIONAL))
    it.leader.append_marker(transaction_end(0), 0, lambda _: None)
    it.disk.write()
    it.disk.flush()
    assert it.partition.last_stable_offset == 2
    it.append("queued", batch())
    it.partition.log.discard_unwritten()
    it.partition.on_write_refused(OSError(28, "full"))
    it.partition.watchers.add(lambda: woken.append(it.partition.last_stable_offset))
    it.partition.tick(0)
    it.partition.tick(0)
    assert [it.partition.last_stable_offset] == woken == [2]


def test_a_batch_behind_the_waiting_end_of_its_transaction_is_refused(bench, batch):
    """INVALID_TXN_STATE: the log would begin a transaction with it that has no end."""
    it = bench(compression_type="zstd")
    it.append("data", batch(**TRANSACTIONAL))
    it.leader.append_marker(transaction_end(0), 0, lambda _: None)
    it.append("late", batch(base_sequence=1, **PRODUCER))
    assert (it.codes(), it.released) == ({"late": ErrorCode.INVALID_TXN_STATE}, ["late"])
    it.reworks[0][3](bytearray(batch(codec=Codec.ZSTD, **TRANSACTIONAL)))
    assert not it.partition.log.producer_state.has_open_transaction(7, 0)


@pytest.mark.parametrize(("version", "taken"), [(0, True), (2, False)])
def test_a_marker_is_measured_by_its_transaction_version(bench, batch, version, taken):
    """Under version 2 its epoch is above that of the batches (KIP-890, KIP-1228)."""
    it = bench()
    it.append("data", batch(**TRANSACTIONAL))
    outcomes = []
    it.leader.append_marker(transaction_end(1), version, outcomes.append)
    it.disk.write()
    it.disk.flush()
    assert isinstance(outcomes[0], AppendInfo) is taken


def test_a_rework_that_ends_after_its_partition_changes_nothing(bench, batch):
    """The buffer was given back and the producer told when the partition closed; the late answer does neither again."""
    it = bench(compression_type="zstd")
    it.append("late", batch())
    it.partition.close()
    it.reworks[0][3](bytearray(batch()))
    assert it.codes() == {"late": ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert it.released == ["late"]


def test_appends_that_wait_for_a_sync_are_answered_when_none_is_demanded_any_more(bench, batch):
    """A topic that turns to Kafka's page-cache behaviour answers acks=all for what is written."""
    it = bench()
    it.append("all", batch())
    it.disk.write()
    assert it.ended == {}
    it.partition.update_config(LogConfig(flush_messages=LONG_MAX))
    assert it.codes() == {"all": 0}


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (KafkaError(ErrorCode.INVALID_RECORD, "no key"), ErrorCode.INVALID_RECORD),
        (Corrupt("rubbish"), ErrorCode.CORRUPT_MESSAGE),
        (RuntimeError("the worker died"), ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_a_failed_rework_refuses_its_batch_only(bench, batch, outcome, code):
    """Those behind it go on."""
    it = bench(compression_type="zstd")
    it.append("bad", batch())
    it.append("good", batch(codec=Codec.ZSTD))
    it.reworks[0][3](outcome)
    it.disk.write()
    it.disk.flush()
    assert it.codes() == {"bad": code, "good": 0}
    assert sorted(it.released) == ["bad", "good"]


def test_new_settings_decide_about_the_next_batch(bench, batch):
    """A topic that turns to a codec, or to keys, has its batches reworked from then on."""
    it = bench()
    it.append("a", batch())
    assert it.reworks == []
    it.partition.update_config(LogConfig(compression_type="uncompressed", flush_messages=1))
    it.append("b", batch())
    assert it.reworks == []
    it.append("c", batch(codec=Codec.GZIP))
    assert (it.reworks[0][1], it.reworks[0][2].keys_required) == (Codec.NONE, False)
    it.partition.update_config(LogConfig(cleanup_policy=frozenset({"compact"}), flush_messages=1))
    it.append("d", batch())
    assert (it.reworks[1][1], it.reworks[1][2].keys_required) == (None, True)


def test_watchers_hear_of_every_move_of_the_high_watermark(bench, batch):
    """Once for a group of appends that were flushed together."""
    it = bench()
    seen = []
    it.partition.watchers.add(lambda: seen.append(it.partition.high_watermark))
    for name in "abc":
        it.append(name, batch())
    it.disk.write()
    it.disk.flush()
    it.disk.flush()
    assert seen == [3]


# -- followers that join ---------------------------------------------------------------------------------------


def fetched(leader, broker_id, broker_epoch, offset=0):
    leader.follower_fetched(broker_id, offset, log_start_offset=0, broker_epoch=broker_epoch)


def test_a_follower_that_was_fenced_at_its_last_fetch_joins_without_another_one(bench):
    """An idle partition stays in the session of its follower, and no further fetch is counted."""
    it = bench(replicas=(1, 2), in_sync=(1,))
    fetched(it.leader, 2, broker_epoch=7)
    assert it.asking.asked == []
    it.asking.allowed.add((2, 7))
    it.leader.look_for_joiners()
    assert it.asking.asked == [(1, 2)]


def test_a_follower_that_found_another_change_under_way_joins_when_that_has_ended(bench):
    """One change is asked for at a time."""
    it = bench(replicas=(1, 2, 3), in_sync=(1,))
    it.asking.allowed |= {(2, 7), (3, 8)}
    fetched(it.leader, 2, broker_epoch=7)
    fetched(it.leader, 3, broker_epoch=8)
    assert it.asking.asked == [(1, 2)]
    it.leader.in_sync_changed((1, 2), 1)
    assert it.asking.asked == [(1, 2), (1, 2, 3)]


def test_a_follower_that_lacks_records_does_not_join_before_it_has_fetched_them(bench, batch):
    """The leader knows its last fetch and no more."""
    it = bench(replicas=(1, 2), in_sync=(1,))
    fetched(it.leader, 2, broker_epoch=7)
    it.append("a", batch())
    it.disk.write()
    it.disk.flush()
    it.asking.allowed.add((2, 7))
    it.leader.check_lag(30_000)
    assert it.asking.asked == []
    fetched(it.leader, 2, broker_epoch=7, offset=1)
    assert it.asking.asked == [(1, 2)]


def test_a_follower_whose_broker_is_registered_anew_does_not_join_by_what_was_fetched_before(bench):
    """Its disk may be another one."""
    it = bench(replicas=(1, 2), in_sync=(1,))
    fetched(it.leader, 2, broker_epoch=7)
    it.asking.allowed.add((2, 9))
    it.leader.check_lag(30_000)
    assert it.asking.asked == []


def test_a_copy_joins_when_it_knows_what_is_deleted(tmp_path, batch):
    """DeleteRecords was answered while it was away: it would lead with records that are deleted."""
    it = Bench(str(tmp_path / "t-0"), in_sync=(1,), replicas=(1, 2))
    it.asking.allowed.add((2, 7))
    for number in range(5):
        it.append(str(number), batch())
    it.disk.write()
    it.disk.flush()
    it.partition.log.advance_log_start(3)
    it.leader.follower_fetched(2, 5, log_start_offset=0, broker_epoch=7)  # it is back with its log as it was
    assert it.asking.asked == []
    it.leader.follower_fetched(2, 5, log_start_offset=3, broker_epoch=7)
    assert it.asking.asked == [(1, 2)]
