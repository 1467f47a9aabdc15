"""Work in slices: budgets of turns, order, waiting, clients that go, and that nothing is forgotten in any interleaving."""

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.runtime.slices import FIRST_SECONDS, SLICE_SECONDS, UNDER_WAY_MAX, Awaited, Slices, to_the_end
from stratalog.wire.errors import ErrorCode, KafkaError

STEP_SECONDS = 0.004


class Client:
    """A connection: whether it is held, and whether it has gone."""

    def __init__(self):
        self.held = 0
        self.has_gone = False
        self.seconds = 0.0
        self.quota = SimpleNamespace(spend=self.spend)

    def hold(self):
        self.held += 1

    def release(self):
        self.held -= 1

    def gone(self):
        return self.has_gone

    def spend(self, client, seconds):
        assert client is self
        self.seconds += seconds


class Bench:
    """A loop whose turns are made by hand, with time that only work uses up."""

    def __init__(self):
        self.now = 100.0
        self.due = []
        self.slices = Slices(self.due.append, lambda: self.now)
        self.outcomes = []
        self.closed = []

    def work(self, name, steps, waits=()):
        """So many steps of 4 ms; ``waits``: an `Awaited` before the step of that number."""
        waits = dict(waits)
        try:
            for number in range(steps):
                if number in waits:
                    yield waits[number]
                self.now += STEP_SECONDS
                yield
        finally:
            self.closed.append(name)
        return name

    def start(self, name, steps, client=None, waits=()):
        self.slices.start(self.work(name, steps, waits), lambda *found: self.outcomes.append(found), client)

    def turn(self):
        """One turn of the loop; returns how long it took."""
        began = self.now
        due, self.due[:] = list(self.due), []
        for callback in due:
            callback()
        return self.now - began

    def run(self):
        """Turns until nothing is left; the longest of them."""
        longest = 0.0
        while self.due:
            longest = max(longest, self.turn())
        return longest


@pytest.fixture
def bench():
    return Bench()


def test_short_work_is_done_at_once(bench):
    """Its client is not even held."""
    client = Client()
    bench.start("a", 1, client)
    assert bench.outcomes == [("a", None)]
    assert client.held == 0


def test_long_work_goes_on_in_later_turns_and_its_client_is_held(bench):
    """Until it is done the client's next request is not handled."""
    client = Client()
    bench.start("a", 10, client)
    assert bench.outcomes == []
    assert client.held == 1
    assert bench.run() <= SLICE_SECONDS + STEP_SECONDS
    assert bench.outcomes == [("a", None)]
    assert client.held == 0


def test_the_time_of_work_is_counted_for_its_client_before_its_answer(bench):
    """So that the answer can say what a quota makes of it; waiting costs nothing."""
    client, told = Client(), []
    awaited = Awaited(lambda error: error)
    bench.slices.start(
        bench.work("a", 5, {3: awaited}), lambda *_: told.append(round(client.seconds / STEP_SECONDS)), client
    )
    bench.run()
    bench.now += 1
    awaited.respond(None)
    bench.run()
    assert told == [5]


def test_all_work_of_a_turn_shares_one_budget(bench):
    """A hundred requests in one turn compute no longer than one."""
    began = bench.now
    for number in range(100):
        bench.start(number, 5)
    assert bench.now - began <= SLICE_SECONDS + STEP_SECONDS
    assert bench.run() <= SLICE_SECONDS + STEP_SECONDS
    assert sorted(value for value, _ in bench.outcomes) == list(range(100))


def test_only_a_few_works_are_under_way(bench):
    """Half-done work is held in memory; the others have had their first slice at most."""
    steps = [0] * 3 * UNDER_WAY_MAX

    def work(number):
        for _ in range(10):
            bench.now += STEP_SECONDS
            steps[number] += 1
            yield
        return number

    for number in range(len(steps)):
        bench.slices.start(work(number), lambda *found: bench.outcomes.append(found))
    while bench.due:
        bench.turn()
        assert sum(1 < count < 10 for count in steps) <= UNDER_WAY_MAX
    assert sorted(value for value, _ in bench.outcomes) == list(range(len(steps)))


def test_a_short_work_does_not_wait_for_long_ones(bench):
    """A short work ends in the next turn, although 50 long ones wait for theirs."""
    for number in range(50):
        bench.start(number, 1000)
    for _ in range(60):  # their first slices
        bench.turn()

    def short():
        bench.now += FIRST_SECONDS / 2
        yield
        return "short"

    bench.slices.start(short(), lambda *found: bench.outcomes.append(found))
    assert bench.turn() <= SLICE_SECONDS + STEP_SECONDS
    assert bench.outcomes == [("short", None)]


def test_an_urgent_work_has_half_of_each_turn(bench):
    """Others wait for its end, for instance for a lock that it holds."""
    for number in range(50):
        bench.start(number, 1000)
    for _ in range(60):
        bench.turn()
    bench.slices.start(bench.work("urgent", 20), lambda *found: bench.outcomes.append(found), urgent=True)
    turns = 0
    while not bench.outcomes:
        assert bench.turn() <= SLICE_SECONDS + STEP_SECONDS
        turns += 1
    assert bench.outcomes == [("urgent", None)]
    assert turns <= 11


def test_a_client_that_has_gone_ends_its_work(bench):
    """The generator is closed, no answer is sent, and others take its place."""
    client = Client()
    bench.start("a", 10, client)
    client.has_gone = True
    bench.start("b", 10)
    bench.run()
    assert bench.outcomes == [("b", None)]
    assert bench.closed[0] == "a"


def test_errors_of_work_are_its_outcome(bench):
    """The caller gets the error, and others go on."""

    def work():
        yield
        raise KafkaError(ErrorCode.INVALID_REQUEST, "no")

    bench.slices.start(work(), lambda *found: bench.outcomes.append(found))
    [(value, error)] = bench.outcomes
    assert value is None
    assert error.code is ErrorCode.INVALID_REQUEST


def test_work_waits_for_an_answer_and_delays_no_other(bench):
    """More works than may be under way wait; another one is done meanwhile."""
    answers = [Awaited(str) for _ in range(UNDER_WAY_MAX + 1)]
    for number, awaited in enumerate(answers):
        bench.start(number, 1, waits={0: awaited})
    bench.start("quick", 1)
    bench.run()
    assert bench.outcomes == [("quick", None)]
    for awaited in answers:
        awaited.respond("there")
    bench.run()
    assert sorted(value for value, _ in bench.outcomes[1:]) == list(range(UNDER_WAY_MAX + 1))


def test_an_answer_that_failed():
    """Errors become what the caller makes of them; what is no error of Kafka's is an unknown one."""
    awaited = Awaited(lambda error: error.code)
    awaited.fail(ValueError("x"))
    assert awaited.arrived
    assert awaited.answer is ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(RuntimeError, match="second answer"):
        awaited.respond("late")


def test_to_the_end():
    """For callers that delay no other work; work that has to wait cannot be done so."""

    def waiting():
        yield Awaited(str)

    assert to_the_end(Bench().work("a", 3)) == "a"
    with pytest.raises(RuntimeError, match="waits"):
        to_the_end(waiting())


def test_an_outcome_that_is_not_taken_stops_no_other_work(bench):
    """Errors of its receiver are reported by the loop; the works behind it, and those that begin later, go on."""

    def refuse(*_):
        raise ConnectionError("the client has left")

    first, second = Client(), Client()
    bench.slices.start(bench.work("a", 5), refuse, first)
    bench.start("b", 5, second)
    raised = 0
    while bench.due:
        try:
            bench.turn()
        except ConnectionError:
            raised += 1
    bench.start("c", 1)
    bench.run()
    assert raised == 1
    assert bench.outcomes == [("b", None), ("c", None)]
    assert (first.held, second.held) == (0, 0)


async def test_coroutines_wait_for_work():
    """They get what it returns or raises."""
    loop = asyncio.get_running_loop()
    slices = Slices(loop.call_soon, loop.time)

    def failing():
        yield
        raise ValueError("x")

    def counting():
        for _ in range(1000):
            yield
        return 1000

    assert await slices.run(counting()) == 1000
    with pytest.raises(ValueError, match="x"):
        await slices.run(failing())


async def test_a_cancelled_coroutine_ends_its_work():
    """The generator is closed, so that what it holds is given back."""
    loop = asyncio.get_running_loop()
    slices = Slices(loop.call_soon, loop.time)
    ended = []

    def endless():
        try:
            while True:
                yield Awaited(str)
        finally:
            ended.append(True)

    task = loop.create_task(slices.run(endless()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.integers(0, 9), st.booleans()),
        st.tuples(st.just("turn")),
        st.tuples(st.just("answer")),
        st.tuples(st.just("leave"), st.integers(0, 5)),
    ),
    max_size=60,
)


@given(EVENTS)
def test_every_work_ends_once_in_any_interleaving(events):
    """It is answered, or its client has gone; no turn is longer than its budget; in the end no work is held."""
    bench = Bench()
    clients, waiting = [], []
    for event, *arguments in events:
        if event == "start":
            steps, waits = arguments
            client = Client()
            clients.append(client)
            awaited = Awaited(str)
            waiting.append(awaited)
            bench.start(len(clients) - 1, steps, client, {steps // 2: awaited} if waits else ())
        elif event == "turn":
            assert bench.turn() <= SLICE_SECONDS + STEP_SECONDS
        elif event == "answer" and waiting:
            waiting.pop(0).respond("there")
        elif event == "leave" and arguments[0] < len(clients):
            clients[arguments[0]].has_gone = True
    for awaited in waiting:
        awaited.respond("there")
    assert bench.run() <= SLICE_SECONDS + STEP_SECONDS
    answered = [value for value, _ in bench.outcomes]
    assert len(answered) == len(set(answered))
    assert {number for number, client in enumerate(clients) if not client.has_gone} <= set(answered)
    assert [client.held for client in clients] == [0] * len(clients)
