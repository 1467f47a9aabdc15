"""Fetch sessions: dirty sets give the same answers as a look at every partition, and every partition gets a turn."""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stratalog.metadata.fetch_sessions.fetch_session import FetchSession, next_epoch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.fetch import EpochEndOffset, FetchPartition, FetchTopic, ForgottenTopic, PartitionData

RECORD_BYTES = 10
NAMES = [(topic, number) for topic in ("t", "u") for number in range(3)]


@dataclass
class Log:
    """A partition as far as its readers see it: one record of ten bytes for each offset."""

    high_watermark: int = 0
    last_stable_offset: int = 0
    log_start_offset: int = 0
    error: ErrorCode | None = None
    watchers: set = field(default_factory=set)
    looks: int = 0

    def changed(self):
        """Call the watchers."""
        for watcher in tuple(self.watchers):
            watcher()


class World:
    """Partitions by name, and how a session looks at them."""

    def __init__(self):
        self.logs = {name: Log() for name in NAMES}

    def look(self, partition, answer, left_bytes, first):
        """Fill the answer as a broker would."""
        log = self.logs[partition.topic, partition.wanted.partition]
        log.looks += 1
        if partition.watchers is not log.watchers:
            partition.unwatch()
            partition.watchers = log.watchers
        return self.read(log, partition.wanted, answer, left_bytes, first, partition.session.isolation_level)

    @staticmethod
    def read(log, wanted, answer, left_bytes, first, isolation_level):
        """The partition's part of an answer."""
        if log.error is not None:
            raise KafkaError(log.error)
        answer.high_watermark = log.high_watermark
        answer.last_stable_offset = log.last_stable_offset
        answer.log_start_offset = log.log_start_offset
        if wanted.last_fetched_epoch == 99:
            answer.diverging_epoch = EpochEndOffset(epoch=1, end_offset=0)
            return 0
        limit = log.last_stable_offset if isolation_level else log.high_watermark
        count = min(max(limit - wanted.fetch_offset, 0), max(left_bytes // RECORD_BYTES, int(first)))
        answer.records = b"r" * RECORD_BYTES * count
        return RECORD_BYTES * count


def session(isolation_level=0):
    """A new session by names."""
    return FetchSession(7, 0, by_id=False, privileged=False, isolation_level=isolation_level)


def wanted(number, offset=0, epoch=-1):
    """Where a reader wants to go on."""
    return FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20, last_fetched_epoch=epoch)


def gather(one, world, *, max_bytes=1 << 30, min_bytes=1, final=True, marks=False):
    """One attempt, which leaves for the reader if it is one: name to number of records, or None."""
    telling = one.gather(
        world.look, max_bytes=max_bytes, enough=lambda found: found >= min_bytes, final=final, marks=marks
    )
    if telling is None:
        return None
    one.tell(telling)
    return {(part.topic, part.wanted.partition): len(answer.records) // RECORD_BYTES for part, answer in telling}


class Reader:
    """A request that waits."""

    woken = 0

    def wake(self):
        """Count."""
        self.woken += 1


class Sessions(RuleBasedStateMachine):
    """A session beside a model that looks at all partitions of the session each time."""

    def __init__(self):
        super().__init__()
        self.world = World()
        self.session = session()
        self.offsets = {}
        self.told = {}
        self.waiting = False

    # The model's knowledge: the last watermarks answered of each partition, None after an error or before the first
    # time.

    def expected(self):
        """The answer of a look at everything."""
        found = {}
        for (topic, number), offset in self.offsets.items():
            log = self.world.logs[topic, number]
            answer = PartitionData(partition_index=number, high_watermark=-1, records=b"")
            try:
                self.world.read(log, wanted(number, offset), answer, 1 << 30, True, self.session.isolation_level)
            except KafkaError:
                found[topic, number] = (None, 0)
                continue
            state = (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset)
            if answer.records or state != self.told[topic, number]:
                found[topic, number] = (state, len(answer.records) // RECORD_BYTES)
        return found

    names = st.sampled_from(NAMES)

    @initialize()
    def start(self):
        """Two partitions from the beginning."""
        for name in NAMES[:2]:
            self.want(name)

    def update(self, topics=(), forgotten=()):
        """A request goes on with the session: no request waits any more."""
        self.session.reader = None
        self.waiting = False
        self.session.update(topics, forgotten, self.session.isolation_level)

    @rule(name=names)
    def want(self, name):
        """The reader takes a partition in, or goes on behind what it has got."""
        self.told.setdefault(name, None)
        self.offsets.setdefault(name, 0)
        self.update([FetchTopic(topic=name[0], partitions=[wanted(name[1], self.offsets[name])])])

    @rule(name=names)
    def forget(self, name):
        """The reader takes a partition out."""
        self.offsets.pop(name, None)
        self.told.pop(name, None)
        self.update((), [ForgottenTopic(topic=name[0], partitions=[name[1]])])

    @rule(level=st.sampled_from([0, 1]))
    def isolate(self, level):
        """The reader asks at another isolation level."""
        self.session.reader = None
        self.waiting = False
        self.session.update((), (), level)

    @rule(name=names, count=st.integers(1, 3), stable=st.booleans())
    def append(self, name, count, stable):
        """Records are committed; some belong to an open transaction."""
        log = self.world.logs[name]
        log.high_watermark += count
        if stable:
            log.last_stable_offset = log.high_watermark
        log.changed()

    @rule(name=names)
    def end_transaction(self, name):
        """The last stable offset moves alone."""
        log = self.world.logs[name]
        if log.last_stable_offset != log.high_watermark:
            log.last_stable_offset = log.high_watermark
            log.changed()

    @rule(name=names)
    def delete_records(self, name):
        """The log start moves."""
        log = self.world.logs[name]
        if log.log_start_offset < log.last_stable_offset:
            log.log_start_offset += 1
            log.changed()

    @rule(name=names, error=st.sampled_from([ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.KAFKA_STORAGE_ERROR]))
    def fail(self, name, error):
        """The partition cannot be read."""
        self.world.logs[name].error = error
        self.world.logs[name].changed()

    @rule(name=names)
    def recreate(self, name):
        """A topic is deleted and made again, empty: watchers of the old one are called."""
        old = self.world.logs[name]
        self.world.logs[name] = Log()
        old.changed()
        if name in self.offsets:
            self.offsets[name] = 0
            self.want(name)

    @rule()
    def poll(self):
        """An answer that does not wait says what the model says."""
        self.waiting, self.session.reader = False, None
        expected = self.expected()
        assert gather(self.session, self.world) == {name: count for name, (_, count) in expected.items()}
        for name, (state, count) in expected.items():
            self.told[name] = state
            if count:
                self.offsets[name] += count
                topic, number = name
                self.session.want(topic, wanted(number, self.offsets[name]))

    @rule()
    def wait(self):
        """A request waits as long as there is neither a record nor a new error, and is woken when there is."""
        expected = self.expected()
        if any(count or state is None for state, count in expected.values()):
            return
        assert gather(self.session, self.world, final=False) is None
        self.session.reader = Reader()
        self.waiting = True

    @precondition(lambda self: self.waiting)
    @invariant()
    def woken(self):
        """A waiting request has been called for every record and error that came meanwhile."""
        if any(count or state is None for state, count in self.expected().values()):
            assert self.session.reader.woken

    @invariant()
    def the_clean_are_watched(self):
        """A partition that is not dirty will be when it changes."""
        for name, part in self.session.partitions.items():
            if part not in self.session.dirty:
                assert part in self.world.logs[name].watchers


TestSessions = Sessions.TestCase
TestSessions.settings = settings(stateful_step_count=40)


def test_one_hot_partition_of_many_is_looked_at_alone():
    """A partition without news is not looked at again before it changes."""
    world, one = World(), session()
    world.logs = {("t", number): Log() for number in range(1000)}
    one.update([FetchTopic(topic="t", partitions=[wanted(number) for number in range(1000)])], (), 0)
    assert len(gather(one, world)) == 1000
    for log in world.logs.values():
        log.looks = 0
    for offset in range(5):
        world.logs["t", 3].high_watermark = offset + 1
        world.logs["t", 3].changed()
        assert gather(one, world) == {("t", 3): 1}
        one.want("t", wanted(3, offset + 1))
    assert sum(log.looks for log in world.logs.values()) == 5


def test_partitions_take_turns_when_an_answer_is_too_small_for_all():
    """With room for one record, ten partitions with records get theirs in ten answers."""
    world, one = World(), session()
    world.logs = {("t", number): Log(100, 100) for number in range(10)}
    one.update([FetchTopic(topic="t", partitions=[wanted(number) for number in range(10)])], (), 0)
    offsets = dict.fromkeys(range(10), 0)
    for _ in range(30):
        told = gather(one, world, max_bytes=RECORD_BYTES)
        for (topic, number), count in told.items():
            offsets[number] += count
            if count:
                one.want(topic, wanted(number, offsets[number]))
    assert set(offsets.values()) == {3}


def test_records_not_taken_are_answered_again():
    """A reader that does not move on gets the same records until it does."""
    world, one = World(), session()
    world.logs["t", 0] = Log(2, 2)
    one.want("t", wanted(0))
    assert [gather(one, world) for _ in range(3)] == [{("t", 0): 2}] * 3
    one.want("t", wanted(0, 2))
    assert gather(one, world) == {}


def test_an_unknown_topic_does_not_keep_an_answer_from_waiting_twice():
    """Its error is answered at once, then with every answer; the watermarks are answered again when it has passed."""
    world, one = World(), session()
    one.update([FetchTopic(topic="t", partitions=[wanted(0), wanted(1)])], (), 0)
    gather(one, world)
    world.logs["t", 0].error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.logs["t", 0].changed()
    assert gather(one, world, final=False) == {("t", 0): 0}
    assert gather(one, world, final=False) is None
    assert gather(one, world) == {("t", 0): 0}
    world.logs["t", 0].error = None
    assert gather(one, world) == {("t", 0): 0}
    assert gather(one, world) == {}


def test_a_passing_error_is_answered_at_once_each_time():
    """The reader must act on it: nothing is gained by waiting."""
    world, one = World(), session()
    one.want("t", wanted(0))
    world.logs["t", 0].error = ErrorCode.OFFSET_OUT_OF_RANGE
    assert [gather(one, world, final=False) for _ in range(3)] == [{("t", 0): 0}] * 3


def test_a_parted_history_is_answered_at_once():
    """Also where the watermarks are known, until the reader comes back with another position."""
    world, one = World(), session()
    one.want("t", wanted(0))
    gather(one, world)
    one.want("t", wanted(0, 0, 99))
    assert [gather(one, world, final=False) for _ in range(2)] == [{("t", 0): 0}] * 2
    one.want("t", wanted(0))
    assert gather(one, world, final=False) is None


def test_marks_beside_a_parted_history_are_answered_again():
    """A follower that cuts its log does not take them: what is left may still part from its leader's."""
    world, one = World(), session()
    world.logs["t", 0].high_watermark = 5
    one.want("t", wanted(0, 5, 99))
    gather(one, world)
    one.want("t", wanted(0, 5))
    assert gather(one, world) == {("t", 0): 0}
    assert gather(one, world) == {}


def test_marks_are_answered_again_in_another_leader_epoch():
    """The reader may have begun anew with its log as well."""
    world, one = World(), session()
    world.logs["t", 0].high_watermark = 5
    one.want("t", FetchPartition(partition=0, fetch_offset=5, partition_max_bytes=1, current_leader_epoch=3))
    gather(one, world)
    one.want("t", FetchPartition(partition=0, fetch_offset=5, partition_max_bytes=1, current_leader_epoch=3))
    assert gather(one, world) == {}
    one.want("t", FetchPartition(partition=0, fetch_offset=5, partition_max_bytes=1, current_leader_epoch=4))
    assert gather(one, world) == {("t", 0): 0}


def test_min_bytes_holds_an_answer_back():
    """Watermarks alone do not fill an answer; they leave with it."""
    world, one = World(), session()
    one.update([FetchTopic(topic="t", partitions=[wanted(0), wanted(1)])], (), 0)
    gather(one, world)
    for number in (0, 1):
        world.logs["t", number].high_watermark = 1
        world.logs["t", number].changed()
    assert gather(one, world, min_bytes=30, final=False) is None
    world.logs["t", 0].high_watermark = 2
    assert gather(one, world, min_bytes=30, final=False) == {("t", 0): 2, ("t", 1): 1}


def test_a_mark_alone_is_enough_for_a_reader_that_others_read_from():
    """It gets it once, and the next answer waits for news."""
    world, one = World(), session()
    one.want("t", wanted(0, 5))
    assert gather(one, world, final=False, marks=True) == {("t", 0): 0}
    assert gather(one, world, final=False, marks=True) is None
    world.logs["t", 0].high_watermark = 3
    world.logs["t", 0].changed()
    assert gather(one, world, final=False) is None
    assert gather(one, world, final=False, marks=True) == {("t", 0): 0}
    assert gather(one, world, final=False, marks=True) is None


def test_another_replica_to_read_from_is_answered_at_once():
    """Again and again, for as long as the reader asks here."""
    one = session()
    one.want("t", wanted(0))

    def look(_partition, answer, _left_bytes, _first):
        answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = 0
        answer.preferred_read_replica = 2
        return 0

    for _ in range(2):
        telling = one.gather(look, max_bytes=100, enough=bool, final=False)
        assert [answer.preferred_read_replica for _, answer in telling] == [2]
        one.tell(telling)


def test_a_session_that_ends_is_called_no_more():
    """It is in no list of watchers any more."""
    world, one = World(), session()
    one.update([FetchTopic(topic="t", partitions=[wanted(0), wanted(1)])], (), 0)
    gather(one, world)
    assert all(world.logs["t", number].watchers for number in (0, 1))
    one.end()
    assert not any(log.watchers for log in world.logs.values())


def test_the_answer_of_a_full_fetch_is_known():
    """A session begins with what its first answer told: the next one leaves that out."""
    world, one = World(), session()
    answer = PartitionData(partition_index=0, high_watermark=0, records=b"", last_stable_offset=0, log_start_offset=0)
    one.tell([(one.want("t", wanted(0)), answer)])
    assert gather(one, world) == {}


@pytest.mark.parametrize(("epoch", "following"), [(0, 1), (1, 2), (2**31 - 1, 1), (-1, -1)])
def test_epochs_go_round_without_zero(epoch, following):
    """0 and -1 mean something else."""
    assert next_epoch(epoch) == following
