"""One hosted partition: its roles by leader epoch, and what stays over them."""

import gc
import weakref
from types import SimpleNamespace

import pytest

from stratalog.hot.config import LONG_MAX, LogConfig
from stratalog.wire.batch import build_control_batch
from stratalog.wire.compression import Codec
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.fetch import PartitionData
from stratalog.wire.record_rules import RecordError, RecordsRefused
from tests.broker.replicas.leader_rig import EPOCH, Bench

GONE = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def bench(tmp_path):
    """Makes a partition with settings of the test's own."""
    return lambda **options: Bench(str(tmp_path), **options)


@pytest.fixture
def batch(new_batch):
    """A batch with a time that the clock of these tests accepts."""
    return lambda *values, **options: new_batch(*(values or (b"v",)), timestamp_ms=1_700_000_000_000, **options)


def code_of(function, *arguments) -> ErrorCode:
    """The code of the error it raises."""
    with pytest.raises(KafkaError) as caught:
        function(*arguments)
    return caught.value.code


@pytest.mark.parametrize(
    ("asked", "code"), [(-1, None), (EPOCH, None), (3, "FENCED_LEADER_EPOCH"), (5, "UNKNOWN_LEADER_EPOCH")]
)
def test_leader_epochs_of_clients_are_checked(bench, asked, code):
    """Older ones are fenced, newer ones unknown, -1 is not checked."""
    it = bench()
    if code is None:
        it.partition.check_leader_epoch(asked)
    else:
        assert code_of(it.partition.check_leader_epoch, asked) is ErrorCode[code]


def test_a_new_epoch_fails_waiting_appends_and_moves_the_mark_no_further_back(bench, batch):
    """Written or not, flushed or not: the client tries again, and meets the new role."""
    it = bench()
    it.append("committed", batch())
    it.disk.write()
    it.disk.flush()
    it.append("written", batch())
    it.disk.write()
    it.append("queued", batch())
    it.append("queued one", batch(), acks=1)
    it.lead(EPOCH + 1)
    assert it.codes() == {"committed": 0, "written": GONE, "queued": GONE, "queued one": GONE}
    assert (it.partition.high_watermark, it.partition.leader_epoch, it.leader.epoch) == (1, 5, 5)
    assert (it.leader.state.epoch_start_offset, it.leader.state.high_watermark) == (4, 1)
    it.append("new", batch())
    it.disk.write()
    it.disk.flush()
    assert it.codes()["new"] == 4
    assert it.partition.high_watermark == 5
    epochs = it.partition.log.leader_epochs
    assert [epochs.epoch_for(offset) for offset in range(5)] == [4, 4, 4, 4, 5]


def test_a_sync_that_began_in_one_epoch_counts_in_the_next(bench, batch):
    """The directory knows the partition, not the role: its queue and running syncs outlive roles."""
    it = bench()
    it.append("old", batch())
    it.disk.write()
    ticket = it.partition.log.begin_sync()
    it.lead(EPOCH + 1)
    ticket.run()
    it.partition.log.finish_sync(ticket)
    it.partition.on_flushed()
    assert it.codes() == {"old": GONE}
    assert it.partition.high_watermark == 1


def test_a_role_that_has_ended_refuses_whatever_comes_late(bench, batch):
    """A route, a coordinator or a worker may still hold it."""
    it = bench(compression_type="zstd")
    old = it.leader
    it.append("under rework", batch())
    it.lead(EPOCH + 1)
    it.reworks[0][3](bytearray(batch(codec=Codec.ZSTD)))
    late = []
    for deep in (False, True):
        old.append_as_leader(batch(codec=Codec.NONE if deep else Codec.ZSTD), late.append)
    old.append_marker(build_control_batch(0, bytes(6), offset=0, timestamp_ms=0, leader_epoch=-1), 0, late.append)
    old.on_written()
    old.on_flushed()
    assert [one.code for one in late] == [GONE] * 3
    assert (it.codes(), it.released) == ({"under rework": GONE}, ["under rework"])
    assert it.partition.log.log_end_offset == 0


def test_a_batch_whose_records_are_looked_at_is_refused_once(bench, batch, new_batch):
    """The role may end while a worker looks for the records at fault."""
    it = bench(message_timestamp_after_max_ms=1000)
    it.append("late", new_batch(b"v", timestamp_ms=1_700_000_009_000))
    it.lead(EPOCH + 1)
    assert it.codes() == {"late": GONE}
    it.reworks[0][3](RecordsRefused(ErrorCode.INVALID_TIMESTAMP, "why", (RecordError(0, "late"),)))
    assert it.codes() == {"late": GONE}


def test_a_role_that_has_ended_is_held_by_no_part(bench, batch):
    """Partition, log and directory hold no reference to it; after its last answers it is collected."""
    it = bench()
    it.append("a", batch(), acks=1)
    it.append("b", batch())
    old = weakref.ref(it.leader)
    it.lead(EPOCH + 1)
    gc.collect()
    assert old() is None


def test_an_acknowledgement_that_appends_again_finds_the_new_role(bench, batch):
    """The new role is in place before the old one answers."""
    it = bench()
    again = []
    it.leader.append_as_leader(batch(), lambda _: it.leader.append_as_leader(batch(), again.append))
    it.lead(EPOCH + 1)
    it.disk.write()
    it.disk.flush()
    assert [one.base_offset for one in again] == [1]


def test_without_a_role_readers_and_writers_are_sent_away(bench, batch):
    """NOT_LEADER_OR_FOLLOWER; the log, the mark and the watchers stay, and a later epoch goes on."""
    it = bench()
    woken = []
    it.partition.watchers.add(lambda: woken.append(it.partition.leader))
    it.append("a", batch())
    it.disk.write()
    it.disk.flush()
    it.append("b", batch())
    woken.clear()
    it.partition.resign()
    assert woken == [None]
    assert it.codes() == {"a": 0, "b": GONE}
    assert code_of(it.partition.led) is GONE
    assert code_of(it.partition.check_leader_epoch, -1) is GONE
    assert code_of(it.partition.check_online) is GONE
    it.disk.write()
    it.disk.flush()
    it.partition.update_config(LogConfig(flush_messages=1))
    it.partition.tick(0)
    it.partition.on_write_refused(OSError(28, "full"))
    assert it.partition.high_watermark == 1
    it.lead(EPOCH + 2)
    assert it.partition.high_watermark == 2
    assert woken == [None, it.leader]
    it.append("c", batch())
    it.disk.write()
    it.disk.flush()
    assert it.codes()["c"] == 2


def test_a_log_is_not_cut_before_damage_while_it_is_led(bench, batch, monkeypatch):
    """A follower that has not heard of the next leader would cut its own log to this one's end, and acknowledged records with it."""
    it = bench()
    for name in "ab":
        it.append(name, batch())
    it.disk.write()
    it.disk.flush()
    log, seen = it.partition.log, []

    def looks():
        seen.append((it.partition.leader is not None, log.log_end_offset))

    it.partition.watchers.add(looks)
    it.partition.end_watchers.add(looks)
    monkeypatch.setattr(type(log), "cut_before_damage", lambda log, _now_ms: log.truncate_to(1))
    it.append("c", batch())
    assert it.partition.cut_before_damage()
    assert (False, 1) in seen
    assert (True, 1) not in seen
    assert it.codes()["c"] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_watchers_are_called_when_a_role_begins_and_find_it(bench):
    """A waiting reader looks again, and goes on waiting unless its epoch is over."""
    it = bench()
    seen = []
    it.partition.watchers.add(lambda: seen.append(it.leader.epoch))
    it.lead(EPOCH + 1)
    assert seen == [EPOCH + 1]


def test_the_mark_stays_where_a_stricter_setting_would_not_have_let_it_go(bench, batch):
    """Records that consumers saw from the page cache stay visible when sync on ack is switched on."""
    it = bench(flush_messages=LONG_MAX)
    it.append("a", batch())
    it.disk.write()
    assert it.partition.high_watermark == 1
    it.partition.update_config(LogConfig(flush_messages=1))
    it.lead(EPOCH + 1)
    assert it.partition.high_watermark == it.leader.state.high_watermark == 1
    it.append("b", batch())
    it.disk.write()
    assert it.partition.high_watermark == 1
    it.disk.flush()
    assert it.partition.high_watermark == 2


def test_the_mark_stays_though_a_role_begins_with_less_on_disk(bench, batch):
    """A sync that covers less than consumers have seen ends under the new role."""
    it = bench(flush_messages=LONG_MAX)
    it.append("a", batch())
    it.disk.write()
    ticket = it.partition.log.begin_sync()
    it.append("b", batch())
    it.disk.write()
    it.partition.resign()
    it.partition.update_config(LogConfig(flush_messages=1))
    it.lead(EPOCH + 1)
    ticket.run()
    it.partition.log.finish_sync(ticket)
    it.partition.on_flushed()
    assert (it.partition.log.flushed_offset, it.partition.high_watermark) == (1, 2)


def test_the_own_vote_of_a_leader_goes_on_in_its_next_epoch(bench, batch):
    """Without sync on ack: a follower need not wait for the next write to be counted."""
    it = bench(flush_messages=LONG_MAX, in_sync=(1, 2))
    it.append("a", batch())
    it.disk.write()
    it.lead(EPOCH + 1)
    assert (it.partition.high_watermark, it.leader.state.leader_end_offset) == (0, 1)
    assert it.leader.state.follower_fetched(2, 1, leader_log_end_offset=1, now_ms=0)


@pytest.mark.parametrize("was", ["leader", "follower"])
def test_records_that_await_no_sync_count_after_a_time_without_a_leader(bench, batch, was):
    """Else the mark stood below the log end until the next append, and a coordinator appends nothing before it has loaded."""
    it = bench(flush_messages=LONG_MAX, in_sync=(1, 2))
    if was == "leader":
        it.append("a", batch())
    else:
        records = PartitionData(partition_index=0, high_watermark=0, records=memoryview(batch(leader_epoch=EPOCH + 1)))
        it.partition.follow(2, EPOCH + 1).take(records, SimpleNamespace(taken=lambda *_: None))
    it.disk.write()
    it.partition.resign()
    it.disk.asked_to_sync.clear()
    it.lead(EPOCH + 2)
    it.partition.sync_for_role()
    it.leader.follower_fetched(2, 1, log_start_offset=0, broker_epoch=7)
    assert (it.partition.high_watermark, it.disk.asked_to_sync) == (0, [it.partition])
    it.disk.flush()
    assert it.partition.high_watermark == 1
    it.disk.asked_to_sync.clear()
    it.lead(EPOCH + 3)
    it.partition.sync_for_role()
    assert it.disk.asked_to_sync == []


def test_a_log_begun_anew_begins_its_role_anew(bench, batch):
    """In the same epoch: what waits is not in the log, and the mark is its end, also below the one before."""
    it = bench()
    it.append("a", batch())
    it.disk.write()
    it.disk.flush()
    it.append("b", batch())
    old = it.leader
    it.partition.log.quarantine_and_restart_at(0, [], None, now_ms=0, reason="a test", log_start_offset=0)
    it.partition.restarted()
    assert it.codes() == {"a": 0, "b": GONE}
    assert (it.partition.high_watermark, it.leader.epoch, it.leader is old) == (0, EPOCH, False)
    it.append("c", batch())
    it.disk.write()
    it.disk.flush()
    assert (it.codes()["c"], it.partition.high_watermark) == (0, 1)


def test_a_log_begun_anew_without_a_role_wakes_its_readers(bench):
    """The mark is its end, too."""
    it = bench()
    woken = []
    it.partition.resign()
    it.partition.watchers.add(lambda: woken.append(1))
    it.partition.restarted()
    assert (woken, it.partition.leader) == ([1], None)


@pytest.mark.parametrize("kind", [0, 1])
def test_the_last_stable_offset_stops_at_the_oldest_open_transaction(bench, batch, kind):
    """Or at the high watermark when there is none."""
    it = bench()
    producer = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    it.append("plain", batch())
    it.append("data", batch(base_sequence=0, **producer))
    it.disk.write()
    assert it.partition.last_stable_offset == 0
    it.disk.flush()
    assert (it.partition.last_stable_offset, it.partition.high_watermark) == (1, 2)
    marker = build_control_batch(kind, bytes(6), offset=0, timestamp_ms=0, leader_epoch=-1, **producer)
    it.leader.append_marker(marker, 0, lambda _: None)
    it.disk.write()
    it.disk.flush()
    assert it.partition.last_stable_offset == it.partition.high_watermark == 3


def test_a_partition_that_moves_is_written_in_the_other_directory_and_acknowledges_what_was_copied(bench, batch):
    """An append that waited for its sync is durable in the copy."""
    one = bench()
    one.append("waits", batch())
    one.partition.log.write_queued()
    one.partition.on_written()
    before, other = one.disk, type(one.disk)()
    assert one.codes() == {}
    one.partition.log.moving.relocate(one.partition.log.directory)
    one.partition.move_to(other)
    assert (one.partition.directory, before.owner, other.owner) == (other, None, one.partition)
    assert one.codes() == {"waits": 0}
    one.append("next", batch())
    other.write()
    other.flush()
    assert one.codes() == {"waits": 0, "next": 1}
