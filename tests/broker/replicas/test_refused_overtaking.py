"""A later batch of an idempotent producer does not overtake one that was refused, however that one was refused."""

import tempfile
from collections import deque
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.replicas.refused_batches import RefusedBatches
from stratalog.broker.replicas.waiting_append import CallingBack
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import AppendInfo
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, KafkaError, Retriable
from stratalog.wire.topic import TopicPartition
from tests.broker.replicas.leader_rig import EPOCH, Bench

NOW_MS = 1_700_000_000_000
IN_FLIGHT = 5
"""From the oldest batch without an acknowledgement on: a log remembers so many of a producer."""
IN_THE_LOG = {ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT}


def numbered(sequence: int) -> bytearray:
    """The batch of producer 7 with this sequence."""
    return build_batch([Record(0, NOW_MS, None, b"v")], producer_id=7, producer_epoch=0, base_sequence=sequence)


def plain() -> bytearray:
    """A batch of a producer that is not idempotent."""
    return build_batch([Record(0, NOW_MS, None, b"v")])


def test_every_refusal_that_a_producer_repeats_is_remembered():
    """All codes but those of batches that are in the log already; those behind one get such a code, too."""
    remembered = {}
    for code in ErrorCode:
        refused = RefusedBatches(lambda: 0.0)
        refused.note(TopicPartition("t", 0), numbered(0), KafkaError(code, "why"))
        if refused.batches:
            (remembered[code],) = (one.code for one in refused.batches.values())
    repeated = {code: code for code in ErrorCode if KafkaError(code).retriable and code not in IN_THE_LOG}
    assert remembered == repeated | {ErrorCode.CORRUPT_MESSAGE: ErrorCode.NOT_ENOUGH_REPLICAS}


def test_a_plain_batch_between_does_not_forget_the_shortage(tmp_path):
    """A batch without a producer id has no share in what is remembered of a full disk."""
    it = Bench(str(tmp_path))
    it.append("in the log", numbered(0), acks=1)
    it.disk.write()
    it.append("no room", numbered(1), acks=1)
    it.partition.log.discard_unwritten()
    it.partition.on_write_refused(OSError(28, "full"))
    it.append("plain", plain(), acks=1)
    it.append("behind it", numbered(2), acks=1)
    assert it.codes() == dict.fromkeys(("no room", "behind it"), ErrorCode.KAFKA_STORAGE_ERROR) | {"in the log": 0}


def test_a_batch_behind_one_whose_rework_failed_is_refused_likewise(tmp_path):
    """The worker dies under the first batch of an unknown producer, and is back for the second."""
    it = Bench(str(tmp_path), compression_type="zstd")
    it.append("first", numbered(0))
    it.append("second", numbered(1))
    first, second = (one[3] for one in it.reworks)
    first(Retriable("the cpu worker ended with status -9"))
    second(numbered(1))
    assert it.codes() == dict.fromkeys(("first", "second"), ErrorCode.KAFKA_STORAGE_ERROR)
    assert it.released == ["first", "second"]
    it.append("again", numbered(0))
    it.reworks[-1][3](numbered(0))
    it.disk.write()
    it.disk.flush()
    assert it.codes()["again"] == 0


def test_a_batch_behind_a_held_one_that_an_epoch_ended_is_refused_likewise(tmp_path):
    """The same broker leads in the next epoch: a reassignment has ended."""
    it = Bench(str(tmp_path), compression_type="zstd")
    it.append("first", numbered(0))
    it.lead(EPOCH + 1)
    it.append("second", numbered(1))
    assert it.codes() == dict.fromkeys(("first", "second"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    it.append("again", numbered(0))
    it.reworks[-1][3](numbered(0))
    it.disk.write()
    it.disk.flush()
    assert it.codes()["again"] == 0


def test_a_batch_behind_one_that_was_damaged_on_its_way_is_to_come_again(tmp_path):
    """A network has changed a bit of the first one: its producer repeats that, and would find the second one in the log."""
    it = Bench(str(tmp_path))
    damaged = numbered(0)
    damaged[-1] ^= 1
    it.append("first", damaged)
    it.append("second", numbered(1))
    assert it.codes() == {"first": ErrorCode.CORRUPT_MESSAGE, "second": ErrorCode.NOT_ENOUGH_REPLICAS}


class Story:
    """A pipelining producer, the connection that keeps its order, and a broker to which things happen."""

    def __init__(self, folder: str) -> None:
        self.it = Bench(folder)
        self.epoch = EPOCH
        self.next = 0
        self.again: list[int] = []
        self.way: deque[int] = deque()
        self.asked: list[int] = []
        self.taken: dict[int, int] = {}

    # -- events ---------------------------------------------------------------------------------------------

    def send(self) -> None:
        """The producer sends its next batch: one that was refused comes before new ones."""
        if self.again:
            self.way.append(self.again.pop(0))
        elif self.next - min([*self.way, *self.asked], default=self.next) < IN_FLIGHT:
            self.way.append(self.next)
            self.next += 1

    def arrive(self, damaged: bool) -> None:
        """The broker reads a request."""
        if not self.way:
            return
        sequence = self.way.popleft()
        self.asked.append(sequence)
        batch = numbered(sequence)
        if damaged:
            batch[-1] ^= 1
        self.it.leader.append(batch, -1, None, CallingBack(partial(self.answered, sequence), self.it.now + 5))

    def answered(self, sequence: int, outcome: AppendInfo | KafkaError) -> None:
        """Judge an answer: no batch is refused for good, and none is taken out of order."""
        self.asked.remove(sequence)
        if isinstance(outcome, AppendInfo):
            assert sequence not in self.taken, "acknowledged twice"
            self.taken[sequence] = outcome.base_offset
        else:
            assert outcome.retriable, f"batch {sequence}: {outcome}"
            self.again = sorted([*self.again, sequence])

    def plain(self) -> None:
        """Another producer, which is not idempotent."""
        self.it.leader.append(plain(), -1, None, CallingBack(lambda _outcome: None, self.it.now + 5))

    def write(self) -> None:
        """The end of a turn of the loop."""
        self.it.disk.write()

    def sync(self) -> None:
        """The disk writes and syncs."""
        self.it.disk.write()
        self.it.disk.flush()

    def refuse(self) -> None:
        """The disk is full."""
        self.it.partition.log.discard_unwritten()
        self.it.partition.on_write_refused(OSError(28, "full"))

    def rework(self, number: int, good: bool) -> None:
        """A worker answers, in any order, or dies."""
        if self.it.reworks:
            batch, _, _, done, *_ = self.it.reworks.pop(number % len(self.it.reworks))
            done(bytearray(batch) if good else Retriable("the cpu worker ended with status -9"))

    def configure(self, codec: str, needed: int) -> None:
        """The topic has new settings: another codec, more replicas than are in sync."""
        config = LogConfig(flush_messages=1, compression_type=codec, min_insync_replicas=needed)
        self.it.partition.log.update_config(config)
        self.it.partition.update_config(config)

    def lead(self) -> None:
        """A new leader epoch of the same broker."""
        self.epoch += 1
        self.it.lead(self.epoch)

    # -- rules ----------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Once all is well each batch is taken, in the order of the sequences."""
        self.configure("producer", 1)
        rounds = 0
        while self.again or self.way or self.asked:
            rounds += 1
            assert rounds < 50, f"batches {self.again} never come in"
            if self.again:
                self.send()
            self.arrive(damaged=False)
            while self.it.reworks:
                self.rework(0, good=True)
            self.sync()
        assert sorted(self.taken) == list(range(self.next))
        offsets = [self.taken[sequence] for sequence in range(self.next)]
        assert offsets == sorted(set(offsets)), "out of order, or one place for two"


EVENTS = st.one_of(
    st.just(("send",)),
    st.tuples(st.just("arrive"), st.sampled_from([False, False, False, True])),
    st.sampled_from([("send",), ("write",), ("sync",), ("plain",), ("refuse",), ("lead",)]),
    st.tuples(st.just("rework"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("configure"), st.sampled_from(["producer", "zstd"]), st.sampled_from([1, 1, 2])),
)


@given(events=st.lists(EVENTS, min_size=15, max_size=40))
def test_no_order_of_refusals_puts_a_batch_out_of_order(events):
    """Full disks, dead workers, damage, too few replicas, new epochs: what is refused comes in behind what was before it."""
    with tempfile.TemporaryDirectory() as folder:
        story = Story(folder)
        for name, *arguments in events:
            getattr(story, name)(*arguments)
        story.end()
