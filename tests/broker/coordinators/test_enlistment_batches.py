"""Tests of broker/coordinators/enlistment_batches.py: plain stories, then any order of events."""

from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.coordinators.enlistment_batches import (
    Answered,
    Asked,
    Deliver,
    EnlistmentBatches,
    EnlistmentLimits,
    Failed,
    Refuse,
    Send,
    Ticked,
)
from stratalog.metadata.coordination import Producer
from stratalog.wire.errors import ErrorCode

LIMITS = EnlistmentLimits(waiting_max=8, batch_max=3, timeout_ms=1000, retry_ms=20, retry_max_ms=100)


class World:
    """Other coordinators, and a driver that checks each action."""

    def __init__(self):
        self.batches = EnlistmentBatches(LIMITS)
        self.now_ms = 5000
        self.open = {}
        self.ended = {}
        """The end of each question: None for the coordinator's answer, else the code of a refusal."""
        self.requests = {}
        self.sent = []

    def ask(self, number, broker_id=2, transactional_id="x", producer_id=7, epoch=0, adds=True, elements=3):
        self.open[number] = Asked(number, broker_id, transactional_id, Producer(producer_id, epoch), adds, elements)
        self.step(self.open[number])

    def step(self, event):
        for action in self.batches.step(event, self.now_ms):
            if isinstance(action, Send):
                assert action.broker_id not in self.requests, "one request in flight a coordinator"
                ids = [self.open[number].transactional_id for number in action.numbers]
                assert 0 < len(ids) == len(set(ids)) <= LIMITS.batch_max
                elements = sum(self.open[number].elements for number in action.numbers)
                assert len(ids) == 1 or elements <= LIMITS.elements_max
                self.requests[action.broker_id] = action.numbers
                self.sent += action.numbers
            elif isinstance(action, Deliver):
                del self.open[action.number]
                self.ended[action.number] = None
            else:
                assert isinstance(action, Refuse)
                del self.open[action.number]
                self.ended[action.number] = action.code
        assert len(self.batches) == len(self.open)

    def answer(self, broker_id=2, concurrent=()):
        numbers = self.requests.pop(broker_id)
        self.step(Answered(broker_id, frozenset(concurrent) & frozenset(numbers)))

    def fail(self, broker_id=2):
        del self.requests[broker_id]
        self.step(Failed(broker_id))

    def tick(self, ms=0):
        self.now_ms += ms
        self.step(Ticked())


def test_questions_of_one_turn_go_in_one_request_and_later_ones_in_the_next():
    """One for each transactional id: the other answer comes a round trip later."""
    world = World()
    world.ask(1, transactional_id="a")
    world.ask(2, transactional_id="b")
    world.ask(3, transactional_id="a")
    world.ask(4, broker_id=3, transactional_id="c")
    assert world.requests == {}
    assert world.batches.wake_at_ms <= world.now_ms
    world.tick()
    assert world.requests == {2: (1, 2), 3: (4,)}
    world.answer()
    assert world.requests == {2: (3,), 3: (4,)}
    world.answer()
    assert world.ended == {1: None, 2: None, 3: None}
    world.answer(3)
    assert not world.batches._queues


def test_a_request_has_a_bound_and_every_id_its_turn():
    """An id with many questions delays no other."""
    world = World()
    for number in range(3):
        world.ask(number, transactional_id="a")
    for number, name in enumerate("bcd", 3):
        world.ask(number, transactional_id=name)
    world.tick()
    assert world.requests == {2: (0, 3, 4)}
    world.answer()
    assert world.requests == {2: (5, 1)}
    world.answer()
    assert world.requests == {2: (2,)}


def test_a_request_has_no_more_elements_than_a_broker_takes():
    """Those that do not fit are first in the next one; a question with too many goes alone."""
    world = World()
    for number, elements in enumerate((500, 500, 400, 2000, 3)):
        world.ask(number, transactional_id=f"id-{number}", elements=elements)
    world.tick()
    sent = []
    while world.requests:
        sent.append(world.requests[2])
        world.answer()
    assert sent == [(0,), (1, 2), (3,), (4,)]


def test_a_lost_request_is_the_clients_to_repeat():
    """NETWORK_EXCEPTION for what was in flight; what waited is asked."""
    world = World()
    world.ask(1)
    world.tick()
    world.ask(2)
    world.fail()
    assert world.ended == {1: ErrorCode.NETWORK_EXCEPTION}
    assert world.requests == {2: (2,)}


def test_a_question_that_waits_behind_a_silent_coordinator_is_refused_in_time():
    """In flight, the link's own bound holds; others wait no longer than that."""
    world = World()
    world.ask(1)
    world.tick()
    world.tick(600)
    world.ask(2)
    world.ask(3, broker_id=3)
    world.tick()
    world.answer(3)
    world.tick(999)
    assert world.ended == {3: None}
    assert world.batches.wake_at_ms == world.now_ms + 1
    world.tick(1)
    assert world.ended == {3: None, 2: ErrorCode.NETWORK_EXCEPTION}
    world.fail()
    assert world.ended[1] == ErrorCode.NETWORK_EXCEPTION
    assert not world.batches._deadlines


def test_too_many_questions_to_one_coordinator_are_refused():
    """Those to others are not."""
    world = World()
    for number in range(LIMITS.waiting_max + 1):
        world.ask(number, transactional_id=f"x{number}")
    assert world.ended == {LIMITS.waiting_max: ErrorCode.NETWORK_EXCEPTION}
    world.ask(100, broker_id=3)
    world.tick()
    assert world.requests[3] == (100,)


def test_a_later_epoch_fences_the_earlier_ones_that_wait():
    """Kafka's rule; another producer id is the coordinator's to judge."""
    world = World()
    world.ask(0)
    world.tick()
    world.ask(1, epoch=1)
    world.ask(2, epoch=2)
    world.ask(3, epoch=1)
    world.ask(4, producer_id=8, epoch=0)
    world.ask(5, epoch=2)
    assert world.ended == {1: ErrorCode.INVALID_PRODUCER_EPOCH, 3: ErrorCode.INVALID_PRODUCER_EPOCH}
    for _ in range(4):
        world.answer()
    assert world.sent == [0, 2, 4, 5]


def test_a_transaction_that_is_being_ended_is_asked_again_for_a_moment():
    """For a batch that adds its partition; one that verifies hears of it at once."""
    world = World()
    world.ask(1, transactional_id="a")
    world.ask(2, transactional_id="b", adds=False)
    world.tick()
    world.answer(concurrent={1, 2})
    assert world.ended == {2: None}
    tries = 1
    while not world.ended.keys() >= {1}:
        assert world.batches.wake_at_ms == world.now_ms + LIMITS.retry_ms
        world.tick(LIMITS.retry_ms - 1)
        assert not world.requests
        world.tick(1)
        tries += 1
        world.answer(concurrent={1})
    assert tries == 5
    world.ask(3)
    world.tick()
    world.answer(concurrent={3})
    world.tick(LIMITS.retry_ms)
    world.answer()
    assert world.ended == {1: None, 2: None, 3: None}


BROKERS = st.sampled_from([2, 3])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), BROKERS, st.sampled_from("abc"), st.integers(7, 8), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("answer"), BROKERS, st.frozensets(st.integers(0, 30), max_size=6)),
        st.tuples(st.just("fail"), BROKERS),
        st.tuples(st.just("tick"), st.sampled_from([0, 1, 20, 100, 1000])),
    ),
    max_size=60,
)


@given(STEPS)
def test_every_question_is_answered_once_whatever_happens(steps):
    """By its coordinator or with a refusal; nothing is left behind."""
    world = World()
    asked = 0
    for what, *arguments in steps:
        if what == "ask":
            world.ask(asked, *arguments)
            asked += 1
        elif what == "tick":
            world.tick(*arguments)
        elif arguments[0] in world.requests:
            getattr(world, what)(*arguments)
    for _ in range(200):
        for broker_id in list(world.requests):
            world.answer(broker_id)
        world.tick(LIMITS.retry_ms)
        if not world.open:
            break
    assert world.ended.keys() == set(range(asked))
    held = world.batches
    assert not any([held._queues, held._pausing, held._deadlines, held._counts])
