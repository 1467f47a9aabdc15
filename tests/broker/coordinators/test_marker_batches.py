"""Tests of broker/coordinators/marker_batches.py: plain stories, then any order of faults."""

from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.coordinators.marker_batches import (
    RETRY_MS,
    Answered,
    End,
    Failed,
    MarkerBatches,
    Moved,
    Place,
    Refused,
    Send,
    Ticked,
    Unwanted,
    Wanted,
)
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import TopicPartition

P = [TopicPartition("t", number) for number in range(4)]
MARKERS_MAX = 3
NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class World:
    """Other brokers that append markers or fail, and a driver that checks each action."""

    def __init__(self, leaders, draw=lambda: 0.5, markers_max=MARKERS_MAX):
        self.leaders = dict(leaders)
        self.batches = MarkerBatches(self.leaders.__getitem__, draw, markers_max=markers_max)
        self.now_ms = 1000
        self.open = {}
        """Partition and producer id of each marker that has not ended."""
        self.ended = {}
        self.requests = {}
        """The numbers that are in flight, by broker."""
        self.stands = []
        """Numbers, as brokers appended them."""
        self.refused = []
        self.unwanted = set()

    def want(self, number, partition, producer_id):
        self.open[number] = partition, producer_id
        self.step(Wanted(number, partition, producer_id))

    def step(self, event):
        for action in self.batches.step(event, self.now_ms):
            if isinstance(action, Send):
                self.send(action)
            elif isinstance(action, End):
                del self.open[action.number]
                self.ended[action.number] = action.code
            else:
                assert isinstance(action, Refused)
                self.refused.append(action)
        assert len(self.batches) == len(self.open)

    def send(self, action):
        assert action.broker_id not in self.requests, "one request in flight a broker"
        assert 0 < len(action.numbers) <= self.batches._markers_max
        for number in action.numbers:
            assert self.leaders[self.open[number][0]] == action.broker_id
        dropped = frozenset(action.numbers) & self.unwanted
        self.requests[action.broker_id] = [one for one in action.numbers if one not in dropped]
        in_flight = [self.open[one] for numbers in self.requests.values() for one in numbers]
        assert len(in_flight) == len(set(in_flight)), "one marker of a producer in flight in a partition"
        if dropped:
            for number in dropped:
                del self.open[number]
            if not self.requests[action.broker_id]:
                del self.requests[action.broker_id]
            self.step(Unwanted(action.broker_id, dropped))

    def answer(self, broker_id, refuse=()):
        """The broker's answer: its own partitions take the marker, unless their numbers are to be refused."""
        codes = {}
        for number in self.requests.pop(broker_id):
            partition, producer_id = self.open[number]
            taken = self.leaders[partition] == broker_id and number not in refuse
            codes[producer_id, partition] = 0 if taken else NOT_LEADER
            if taken:
                self.stands.append(number)
        self.step(Answered(broker_id, codes))

    def fail(self, broker_id, appended=False):
        if appended:
            self.stands += self.requests[broker_id]
        del self.requests[broker_id]
        self.step(Failed(broker_id))

    def tick(self, ms=0):
        self.now_ms += ms
        self.step(Ticked())

    def settle(self):
        """No more faults: everybody answers."""
        for _ in range(2000):
            for broker_id in list(self.requests):
                self.answer(broker_id)
            if not self.open:
                return
            assert self.requests or self.batches.wake_at_ms < 1e12, "a timer has to wake it"
            self.tick(1 if self.requests else max(1, int(self.batches.wake_at_ms) - self.now_ms))
        raise AssertionError(f"{self.open} do not end")


def test_markers_of_one_turn_go_in_one_request_and_later_ones_in_the_next():
    """For each broker; none is sent a second request before the answer to the first."""
    world = World({P[0]: 2, P[1]: 2, P[2]: 3}, markers_max=10)
    world.want(1, P[0], 7)
    world.want(2, P[1], 7)
    world.want(3, P[2], 7)
    world.want(4, P[0], 8)
    assert world.requests == {}
    assert world.batches.wake_at_ms <= world.now_ms
    world.tick()
    assert world.requests == {2: [1, 4, 2], 3: [3]}
    world.want(5, P[0], 9)
    world.want(6, P[1], 9)
    world.tick()
    assert world.requests[2] == [1, 4, 2]
    world.answer(2)
    assert world.requests[2] == [5, 6]
    world.settle()
    assert world.ended == dict.fromkeys(range(1, 7), 0)


def test_a_silent_broker_delays_no_other():
    """Its markers wait; those of others go."""
    world = World({P[0]: 2, P[1]: 3})
    world.want(1, P[0], 7)
    world.tick()
    for number in range(10, 15):
        world.want(number, P[1], number)
        world.want(number + 10, P[0], number)
        world.tick()
        world.answer(3)
    assert sorted(world.ended) == [10, 11, 12, 13, 14]
    assert world.requests == {2: [1]}


def test_a_broker_that_fails_is_left_alone_longer_and_longer():
    """Its markers go again all the same, and the first answer forgets the failures."""
    world = World({P[0]: 2})
    world.want(1, P[0], 7)
    world.tick()
    waits = []
    for _ in range(6):
        world.fail(2)
        waits.append(world.batches.wake_at_ms - world.now_ms)
        world.tick(waits[-1] - 1)
        assert world.requests == {}
        world.tick(1)
    assert waits == [100, 200, 400, 800, 1000, 1000]
    world.answer(2)
    assert world.ended == {1: 0}
    world.want(2, P[0], 7)
    world.tick()
    world.fail(2)
    assert world.batches.wake_at_ms - world.now_ms == 100


def test_a_partition_that_refuses_rests_while_others_go_on():
    """On the same broker, too; what has come meanwhile goes behind it."""
    world = World({P[0]: 2, P[1]: 2})
    world.want(1, P[0], 7)
    world.want(2, P[1], 7)
    world.tick()
    world.answer(2, refuse={1})
    assert (world.ended, world.refused) == ({2: 0}, [Refused(2, P[0], NOT_LEADER, 1)])
    world.want(3, P[0], 8)
    world.want(4, P[1], 8)
    world.tick()
    assert world.requests == {2: [4]}
    world.answer(2)
    world.tick(RETRY_MS)
    assert world.requests == {2: [1, 3]}
    world.answer(2, refuse={3})
    assert world.refused[1:] == [Refused(2, P[0], NOT_LEADER, 2)]
    world.settle()
    assert world.ended == dict.fromkeys(range(1, 5), 0)


def test_an_answer_that_leaves_a_marker_out_is_no_answer_about_it():
    """It is sent again."""
    world = World({P[0]: 2})
    world.want(1, P[0], 7)
    world.tick()
    world.requests.clear()
    world.step(Answered(2, {}))
    assert world.refused == [Refused(2, P[0], ErrorCode.UNKNOWN_SERVER_ERROR, 1)]
    world.settle()
    assert world.ended == {1: 0}


def test_outcomes_that_stay_end_the_marker():
    """A newer epoch of the producer, or of the coordinator."""
    for code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        world = World({P[0]: 2})
        world.want(1, P[0], 7)
        world.tick()
        world.requests.clear()
        world.step(Answered(2, {(7, P[0]): int(code)}))
        assert world.ended == {1: code}


def test_the_leader_is_looked_up_before_each_try():
    """Nowhere: again after a rest. Here, or deleted: the marker ends."""
    world = World({P[0]: Place.NOWHERE, P[1]: Place.NOWHERE, P[2]: Place.NOWHERE})
    for number, partition in enumerate(P[:3]):
        world.want(number, partition, 7)
    world.tick()
    assert (world.requests, world.ended) == ({}, {})
    world.leaders.update({P[0]: 3, P[1]: Place.HERE, P[2]: Place.GONE})
    world.tick(RETRY_MS)
    assert world.ended == {1: NOT_LEADER, 2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    world.fail(3)
    world.leaders[P[0]] = 4
    world.tick(RETRY_MS)
    assert world.batches.wake_at_ms <= world.now_ms
    world.tick()
    assert world.requests == {4: [0]}
    world.settle()
    assert world.ended[0] == 0


def test_markers_behind_a_silent_broker_move_with_its_partition():
    """Those in flight do not: the old leader may append it yet."""
    world = World({P[0]: 2, P[1]: 2})
    world.want(1, P[0], 7)
    world.tick()
    world.want(2, P[0], 7)
    world.want(3, P[0], 8)
    world.want(4, P[1], 7)
    world.leaders[P[0]] = 3
    world.step(Moved())
    world.tick()
    assert world.requests == {2: [1], 3: [3]}
    world.answer(3)
    world.fail(2, appended=True)
    world.tick()
    assert world.requests == {3: [1]}
    world.answer(3)
    assert world.requests == {3: [2]}
    world.settle()
    assert sorted(world.ended) == [1, 2, 3, 4]


def test_unwanted_markers_are_not_sent():
    """Some of a request, or all of it: then the next one goes at once."""
    world = World({P[0]: 2}, markers_max=2)
    for number in range(5):
        world.want(number, P[0], number)
    world.unwanted = {0, 1, 2}
    world.tick()
    assert world.requests == {2: [3]}
    world.answer(2)
    assert world.requests == {2: [4]}
    world.settle()
    assert world.ended == {3: 0, 4: 0}


PLACES = st.sampled_from([2, 3, Place.HERE, Place.GONE, Place.NOWHERE])
BROKERS = st.sampled_from([2, 3])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("want"), st.sampled_from(P), st.integers(7, 9)),
        st.tuples(st.just("move"), st.sampled_from(P), PLACES),
        st.tuples(st.just("answer"), BROKERS, st.frozensets(st.integers(0, 30), max_size=6)),
        st.tuples(st.just("fail"), BROKERS, st.booleans()),
        st.tuples(st.just("drop"), st.integers(0, 30)),
        st.tuples(st.just("tick"), st.sampled_from([0, 1, 50, RETRY_MS, 1000])),
    ),
    max_size=60,
)


@given(STEPS, st.floats(0, 1, exclude_max=True))
def test_no_marker_is_lost_whatever_happens(steps, jitter):
    """Each ends once: it stands at a broker, or its partition is here or gone, or it is unwanted."""
    world = World(dict.fromkeys(P, 2), lambda: jitter)
    asked = 0
    for what, *arguments in steps:
        if what == "want":
            world.want(asked, *arguments)
            asked += 1
        elif what == "move":
            world.leaders[arguments[0]] = arguments[1]
            world.step(Moved())
        elif what == "drop":
            world.unwanted |= set(arguments) & world.open.keys()
        elif what == "tick":
            world.tick(*arguments)
        elif arguments[0] in world.requests:
            getattr(world, what)(*arguments)
    world.leaders.update(dict.fromkeys(P, 3))
    world.step(Moved())
    world.settle()
    assert world.ended.keys() | world.unwanted == set(range(asked))
    for number, code in world.ended.items():
        assert (code == 0) <= (number in world.stands)
    assert not world.batches._lanes
    assert len(world.batches._queues) <= 2
    assert not world.batches._resting
