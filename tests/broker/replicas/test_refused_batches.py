"""Batches that follow a refused one of their producer."""

from types import SimpleNamespace

import pytest

from stratalog.broker.replicas.refused_batches import REMEMBERED_SECONDS, RefusedBatches
from stratalog.broker.replicas.waiting_append import CallingBack
from stratalog.hot.config import LogConfig
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition
from tests.broker.replicas.leader_rig import EPOCH, Bench

PLACE, TOPIC_ID = TopicPartition("t", 0), b"i" * 16
AWAY = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "t-0 is led elsewhere")


@pytest.fixture
def batch(new_batch):
    """A batch of producer 7."""

    def make(sequence, *, epoch=0, producer_id=7):
        return new_batch(b"v", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)

    return make


class Rig:
    """The memory of a broker, with a clock and a log that knows ``known`` producers."""

    def __init__(self):
        self.now = 0.0
        self.refused = RefusedBatches(lambda: self.now)
        self.known = {}
        self.log = SimpleNamespace(
            topic_partition=PLACE, topic_id=TOPIC_ID, producer_state=SimpleNamespace(entries=self.known)
        )

    def before(self, records):
        """The code of the refusal; None if the batch may come."""
        error = self.refused.before(self.log, records)
        return None if error is None else error.code


@pytest.fixture
def rig():
    """One."""
    return Rig()


def test_batches_behind_a_refused_one_get_its_answer_until_that_one_comes_again(rig, batch):
    """An unknown producer may begin with any sequence."""
    rig.refused.note(PLACE, batch(0), AWAY)
    assert rig.before(batch(1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert rig.before(batch(2)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    for taken in range(3):
        assert rig.before(batch(taken)) is None
        rig.known[7] = SimpleNamespace(producer_epoch=0, last_sequence=taken)
        assert rig.before(batch(taken)) is None  # a retry
        if taken == 0:
            assert rig.before(batch(2)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert rig.before(batch(3)) is None
    assert not rig.refused.batches


HIGHEST = 2**31 - 1


@pytest.mark.parametrize("first", [HIGHEST - 1, HIGHEST, 0])
def test_sequences_wrap(rig, batch, first):
    """A batch behind was out of order: librdkafka then begins a new epoch, and may double a record."""
    before, second, third = (first - 1) % 2**31, (first + 1) % 2**31, (first + 2) % 2**31
    rig.known[7] = SimpleNamespace(producer_epoch=0, last_sequence=before)
    rig.refused.note(PLACE, batch(first), AWAY)
    assert rig.before(batch(second)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    rig.refused.note(PLACE, batch(second), AWAY)
    assert rig.before(batch(third)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert rig.before(batch(before)) is None  # a retry
    for taken in (first, second, third):
        assert rig.before(batch(taken)) is None
        rig.known[7] = SimpleNamespace(producer_epoch=0, last_sequence=taken)
    assert rig.before(batch((first + 9) % 2**31)) is None
    assert not rig.refused.batches


def test_a_producer_that_a_log_knows_by_its_markers_only_holds_nothing_up(rig, batch):
    """It has no last sequence."""
    rig.known[7] = SimpleNamespace(producer_epoch=0, last_sequence=-1)
    rig.refused.note(PLACE, batch(HIGHEST), AWAY)
    assert rig.before(batch(0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert rig.before(batch(-1)) is None  # the log refuses it
    assert rig.before(batch(HIGHEST)) is None


def test_a_batch_that_was_taken_before_the_refused_one_may_come_again(rig, batch):
    """Its answer was lost."""
    rig.refused.note(PLACE, batch(5), AWAY)
    assert rig.before(batch(4)) is None
    assert rig.before(batch(6)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("code", "remembered"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, True),
        (ErrorCode.KAFKA_STORAGE_ERROR, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, False),
        (ErrorCode.REQUEST_TIMED_OUT, False),
        (ErrorCode.MESSAGE_TOO_LARGE, False),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False),
    ],
)
def test_only_reasons_that_pass_are_remembered(rig, batch, code, remembered):
    """A batch that is in the log, or never will be, holds up no other."""
    rig.refused.note(PLACE, batch(0), KafkaError(code, "why"))
    assert rig.before(batch(1)) is (code if remembered else None)


def test_other_partitions_producers_and_epochs_are_not_held_up(rig, batch):
    """A new epoch begins its sequences anew."""
    rig.refused.note(TopicPartition("t", 1), batch(0), AWAY)
    rig.refused.note(PLACE, batch(0, producer_id=8), AWAY)
    rig.refused.note(PLACE, batch(-1, producer_id=-1), AWAY)
    rig.refused.note(PLACE, b"short", AWAY)
    assert rig.before(batch(1)) is None
    rig.refused.note(PLACE, batch(0), AWAY)
    assert rig.before(batch(3, epoch=1)) is None
    assert rig.before(batch(1)) is None  # the old epoch is over
    assert rig.before(b"short") is None


def test_a_batch_that_another_leader_has_taken_holds_up_no_other(rig, batch):
    """The log came from there; a log that has only what was before it has not."""
    rig.refused.note(PLACE, batch(3), AWAY)
    rig.known[7] = SimpleNamespace(producer_epoch=0, last_sequence=2)
    assert rig.before(batch(4)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    rig.known[7] = SimpleNamespace(producer_epoch=0, last_sequence=4)
    assert rig.before(batch(6)) is None


def test_a_batch_that_came_before_its_topic_was_known_holds_up_those_behind_it(rig, batch):
    """It named the topic by its id; those behind it came when the name was known, and before the log was open."""
    rig.refused.note(PartitionKey(TOPIC_ID, 0), batch(0), KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "not here yet"))
    rig.refused.note(PLACE, batch(1), AWAY)
    assert rig.before(batch(1)) is ErrorCode.UNKNOWN_TOPIC_ID
    assert rig.before(batch(2)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    for taken in range(3):
        assert rig.before(batch(taken)) is None
        rig.known[7] = SimpleNamespace(producer_epoch=0, last_sequence=taken)


def test_an_earlier_refusal_does_not_hide_a_later_one(rig, batch):
    """Leaders move there and back: another one has taken the first batch, and the later one was refused here."""
    rig.refused.note(PLACE, batch(3), AWAY)
    rig.refused.note(PLACE, batch(9), AWAY)
    rig.known[7] = SimpleNamespace(producer_epoch=0, last_sequence=8)
    assert rig.before(batch(10)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert rig.before(batch(9)) is None


def test_a_refused_batch_that_does_not_come_again_is_forgotten(rig, batch):
    """Each refusal counts anew."""
    rig.refused.note(PLACE, batch(0), AWAY)
    rig.now = REMEMBERED_SECONDS - 1
    rig.refused.note(PLACE, batch(0), AWAY)
    rig.now = 2 * REMEMBERED_SECONDS - 1.5
    assert rig.before(batch(1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    rig.now = 2 * REMEMBERED_SECONDS
    assert rig.before(batch(1)) is None
    assert not rig.refused.batches


def test_no_append_is_looked_at_for_producers_that_have_gone(rig, batch):
    """They do not come back to have their refusals forgotten."""
    for producer_id in range(100, 110):
        rig.refused.note(PLACE, batch(0, producer_id=producer_id), AWAY)
    rig.now = REMEMBERED_SECONDS
    assert rig.before(batch(5)) is None
    assert not rig.refused.batches


def test_batches_behind_those_that_found_no_room_are_not_out_of_order_for_good(rig, batch):
    """They come again behind them; any other refusal stays."""
    gap, other = (
        KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a gap"),
        KafkaError(ErrorCode.INVALID_RECORD, "bad"),
    )
    assert rig.refused.instead(PLACE, batch(3), gap) is gap
    rig.refused.note_shortage(PLACE)
    assert rig.refused.instead(PLACE, batch(3), gap).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert rig.refused.instead(PLACE, batch(3), other) is other
    assert rig.refused.instead(TopicPartition("t", 1), batch(3), gap) is gap
    rig.now = REMEMBERED_SECONDS
    assert rig.refused.instead(PLACE, batch(3), gap) is gap
    assert not rig.refused.batches


def test_the_memory_is_bounded(rig, batch):
    """A stranger may have any number of producer ids."""
    for number in range(10_050):
        rig.refused.note(TopicPartition("t", number), batch(0), AWAY)
    assert len(rig.refused.batches) == 10_000
    assert TopicPartition("t", 10_049) in {place for place, _ in rig.refused.batches}


def test_a_batch_behind_one_that_too_few_replicas_refused_is_refused_likewise(tmp_path, new_batch):
    """The set has grown in between. From an unknown producer any sequence would be taken, and its first batch be lost."""
    it = Bench(str(tmp_path), replicas=(1, 2), min_insync_replicas=2)
    made = [
        new_batch(b"v", timestamp_ms=1_700_000_000_000, producer_id=7, producer_epoch=0, base_sequence=number)
        for number in range(3)
    ]
    it.append("first", bytearray(made[0]), acks=-1)
    it.partition.log.update_config(LogConfig(min_insync_replicas=1))
    it.partition.update_config(LogConfig(min_insync_replicas=1))
    it.append("second", bytearray(made[1]), acks=-1)
    assert it.codes() == dict.fromkeys(("first", "second"), ErrorCode.NOT_ENOUGH_REPLICAS)
    for number, name in enumerate(("again", "behind it", "and that")):
        it.append(name, bytearray(made[number]), acks=-1)
    it.disk.write()
    it.disk.flush()
    assert [it.ended[name].base_offset for name in ("again", "behind it", "and that")] == [0, 1, 2]


def test_a_batch_behind_those_that_found_no_room_comes_again(tmp_path, new_batch):
    """OUT_OF_ORDER_SEQUENCE_NUMBER would have librdkafka send again what is in the log, in another epoch."""
    it = Bench(str(tmp_path))
    made = [
        new_batch(b"v", timestamp_ms=1_700_000_000_000, producer_id=7, producer_epoch=0, base_sequence=number)
        for number in range(3)
    ]
    it.append("in the log", bytearray(made[0]), acks=1)
    it.disk.write()
    it.append("no room", bytearray(made[1]), acks=1)
    it.partition.log.discard_unwritten()
    it.partition.on_write_refused(OSError(28, "full"))
    it.append("behind it", bytearray(made[2]), acks=1)
    assert it.ended["no room"].code is ErrorCode.KAFKA_STORAGE_ERROR
    assert it.ended["behind it"].code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_batch_that_the_log_refuses_is_noted_before_its_buffer_may_be_used_again(tmp_path, new_batch):
    """A buffer that is given back wakes a connection that waits for memory: it copies its frame into it at once."""
    it = Bench(str(tmp_path / "t-0"))
    buffer = bytearray(new_batch(b"v" * 20_000, producer_id=7, producer_epoch=0, base_sequence=0))
    buffer[-1] ^= 1  # the CRC does not match
    records, ended = memoryview(buffer), []

    def release():
        buffer[:] = bytes(len(buffer))

    it.leader.append(records, -1, release, CallingBack(ended.append))
    assert ended[0].code is ErrorCode.CORRUPT_MESSAGE
    it.append("behind", new_batch(b"w", producer_id=7, producer_epoch=0, base_sequence=1))
    assert it.codes() == {"behind": ErrorCode.NOT_ENOUGH_REPLICAS}


class Move:
    """A leader whose log has the first batches of a producer from the leader of before: ``known`` of them."""

    def __init__(self, folder, new_batch, *, known=5, epoch=EPOCH + 1):
        self.it = Bench(folder)
        self.new_batch = new_batch
        self.count = 0
        for sequence in range(known):
            assert self.code(sequence) is None
        self.it.lead(epoch)

    def code(self, sequence, *, epoch=0):
        """The code of the answer to a batch; None once it is in the log."""
        self.count += 1
        name = str(self.count)
        made = self.new_batch(
            b"v", timestamp_ms=1_700_000_000_000, producer_id=7, producer_epoch=epoch, base_sequence=sequence
        )
        self.it.append(name, bytearray(made))
        self.it.disk.write()
        self.it.disk.flush()
        return getattr(self.it.ended[name], "code", None)


@pytest.fixture
def move(tmp_path, new_batch):
    """One."""
    return Move(str(tmp_path / "t-0"), new_batch)


@pytest.mark.parametrize("held_back", range(5))
def test_a_batch_that_its_client_holds_back_while_the_leader_moves_leaves_no_gap_for_good(move, held_back):
    """The leader of before has refused all five that were under way, and the client sends one of them last."""
    for sequence in range(5, 5 + held_back):
        assert move.code(sequence) is None
    for sequence in range(6 + held_back, 12):
        assert move.code(sequence) is ErrorCode.NOT_ENOUGH_REPLICAS
    for sequence in range(5 + held_back, 12):
        assert move.code(sequence) is None


def test_a_gap_behind_a_move_is_out_of_order_once_its_time_is_over(move):
    """The batch was lost. Another gap has a time of its own."""
    move.it.now = 100.0
    assert move.code(6) is ErrorCode.NOT_ENOUGH_REPLICAS
    move.it.now += REMEMBERED_SECONDS - 0.1
    assert move.code(6) is ErrorCode.NOT_ENOUGH_REPLICAS
    move.it.now += 0.1
    for _ in range(2):
        assert move.code(6) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        move.it.now += REMEMBERED_SECONDS
    assert move.code(5) is None
    assert move.code(7) is ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_gap_in_a_new_epoch_of_the_producer_may_close(move):
    """It begins at 0."""
    assert move.code(1, epoch=1) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert move.code(0, epoch=1) is None
    assert move.code(1, epoch=1) is None


def test_other_gaps_are_out_of_order_at_once(move):
    """That of a producer whose batches under way have all come to this leader, and a copy that is too old."""
    for sequence in range(5, 10):
        assert move.code(sequence) is None
    assert move.code(11) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    move.it.lead(EPOCH + 2)
    assert move.code(2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert move.code(11) is ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize("taken", range(1, 5))
def test_a_gap_of_a_producer_that_began_before_the_move_may_close(tmp_path, new_batch, taken):
    """All that the log has of it came to this leader: there were fewer than five."""
    move = Move(str(tmp_path / "t-0"), new_batch, known=0)
    for sequence in range(taken):
        assert move.code(sequence) is None
    assert move.code(taken + 1) is ErrorCode.NOT_ENOUGH_REPLICAS
    move.it.now += 60
    assert move.code(taken + 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert move.code(taken) is None
    assert move.code(taken + 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_first_leader_of_a_partition_awaits_no_batch_of_a_leader_before(tmp_path, new_batch):
    """There was none."""
    move = Move(str(tmp_path / "t-0"), new_batch, known=0, epoch=0)
    assert move.code(0) is None
    assert move.code(2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_memory_of_gaps_is_bounded(rig, batch):
    """A stranger may have any number of producer ids."""
    gap, state = KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a gap"), SimpleNamespace(epoch_start_offset=4)
    for number in range(10_001):
        rig.known[number] = SimpleNamespace(
            producer_epoch=0, last_sequence=4, batches=[SimpleNamespace(first_offset=3)]
        )
        assert rig.refused.over_gap(rig.log, batch(6, producer_id=number), gap, state, 0.0) is not gap
    rig.now = REMEMBERED_SECONDS
    assert rig.refused.over_gap(rig.log, batch(6, producer_id=0), gap, state, 0.0) is not gap
    assert rig.refused.over_gap(rig.log, batch(6, producer_id=10_000), gap, state, 0.0) is gap
