"""The decisions about a link to another node: any order of events, and the plain stories."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.peers.backoff import Backoff
from stratalog.broker.peers.peer_events import (
    Agree,
    Agreed,
    Answered,
    AskAgain,
    Asked,
    Closing,
    Deliver,
    Dial,
    Fail,
    Failure,
    HangUp,
    Lost,
    Negotiate,
    Opened,
    Phase,
    Send,
    Ticked,
    Unsent,
)
from stratalog.broker.peers.peer_state import PeerLimits, PeerState

LIMITS = PeerLimits(
    requests_max=6, request_bytes_max=1000, in_flight_max=3, connect=Backoff(700, 1500), reconnect=Backoff(50, 400)
)


class Driver:
    """Carries out actions as the real driver would, and checks each of them."""

    def __init__(self, draw, *, negotiates):
        self.state = PeerState(LIMITS, negotiates=negotiates, draw=draw)
        self.negotiates = negotiates
        self.now_ms = 1000
        self.open = {}
        """Size and deadline of each request that has not ended, in the order of asking."""
        self.in_flight = []
        """Number and correlation id of each request that is sent."""
        self.attempt = self.dialed = 0
        self.connected = False
        self.negotiating = None
        self.ends = {}
        self.sent = []
        self.ended_at_ms = None
        """When the latest attempt or connection failed."""

    def step(self, event):
        before = self.attempt, self.state.phase, self.state.failures
        actions = self.state.step(event, self.now_ms)
        if isinstance(event, Lost) and event.attempt == before[0]:
            self.gone(idle=before[1] is Phase.READY and not self.in_flight and not before[2])
        for action in actions:
            getattr(self, type(action).__name__.lower())(action)
        self.check()
        return actions

    def check(self):
        state = self.state
        assert state.requests == len(self.open) <= LIMITS.requests_max
        assert state.request_bytes == sum(size for size, _ in self.open.values()) <= LIMITS.request_bytes_max
        assert state.in_flight == len(self.in_flight) <= LIMITS.in_flight_max
        due = [deadline for _, deadline in self.open.values()]
        assert state.wake_at_ms <= min(due, default=float("inf"))
        assert len({one for _, one in self.in_flight}) == len(self.in_flight)

    def gone(self, *, idle=False):
        self.attempt, self.connected, self.negotiating = 0, False, None
        self.ended_at_ms = None if idle else self.now_ms
        self.in_flight = []

    def end(self, number, how):
        assert number not in self.ends, "a request ends once"
        self.ends[number] = how
        self.open.pop(number, None)
        self.in_flight = [one for one in self.in_flight if one[0] != number]

    def ask(self, timeout_ms=100, size=10):
        number = len(self.ends) + len(self.open)
        self.open[number] = (size, self.now_ms + timeout_ms)
        self.step_asked(Asked(number, timeout_ms, size))
        return number

    def step_asked(self, event):
        full = len(self.open) > LIMITS.requests_max or sum(one for one, _ in self.open.values()) > 1000
        self.step(event)
        assert (self.ends.get(event.request) is Failure.BUSY) == (full and self.state.phase is not Phase.CLOSED)

    def dial(self, action):
        assert not self.attempt, "one attempt at a time"
        assert action.attempt > self.dialed
        if self.ended_at_ms is not None:
            waited_ms = self.now_ms - self.ended_at_ms
            due_ms = min(50 << (action.failures - 1), 400)
            assert waited_ms >= int(due_ms * 0.8), "not before the back-off"
        self.attempt = self.dialed = action.attempt

    def negotiate(self, action):
        assert self.negotiates
        assert self.connected
        self.negotiating = action.correlation_id

    def agree(self, _action):
        assert self.negotiating is not None

    def send(self, action):
        assert self.connected
        assert not self.negotiates or self.negotiating is None
        assert not self.sent or action.request > self.sent[-1], "in the order of asking"
        self.sent.append(action.request)
        self.in_flight.append((action.request, action.correlation_id))

    def deliver(self, action):
        assert self.in_flight[0][0] == action.request
        self.end(action.request, "answered")

    def fail(self, action):
        assert action.why
        if action.failure is Failure.TIMEOUT:
            assert self.open[action.request][1] <= self.now_ms
        self.end(action.request, action.failure)

    def hangup(self, action):
        assert action.attempt == self.attempt
        self.gone()

    # -- what may happen ----------------------------------------------------------------------------------

    def tick(self):
        if self.state.wake_at_ms <= self.now_ms:
            self.step(Ticked())
            assert all(deadline > self.now_ms for _, deadline in self.open.values()), "no request outlives its time"

    def pass_time(self, ms):
        """Let time go on, and wake the machine when it wants."""
        end_ms = self.now_ms + ms
        while self.state.wake_at_ms <= end_ms:
            self.now_ms = max(self.now_ms, int(self.state.wake_at_ms))
            self.tick()
        self.now_ms = end_ms

    def opened(self):
        if self.attempt and not self.connected:
            self.connected = True
            self.step(Opened(self.attempt))

    def agreed(self, *, again=False):
        if self.negotiating is not None:
            assert self.step(Answered(self.attempt, self.negotiating)) == [Agree()]
            self.negotiating = None
            self.step((AskAgain if again else Agreed)(self.attempt))

    def answered(self):
        if self.in_flight:
            self.step(Answered(self.attempt, self.in_flight[0][1]))

    def lost(self):
        if self.attempt:
            self.step(Lost(self.attempt, "broken"))


OPERATIONS = {
    "ask": lambda driver, amount: driver.ask(timeout_ms=amount % 300, size=amount % 400),
    "open": lambda driver, _: driver.opened(),
    "agree": lambda driver, _: driver.agreed(),
    "again": lambda driver, _: driver.agreed(again=True),
    "answer": lambda driver, _: driver.answered(),
    "wrong": lambda driver, amount: driver.attempt and driver.step(Answered(driver.attempt, amount)),
    "lose": lambda driver, _: driver.lost(),
    "stale": lambda driver, amount: driver.step(
        (Opened(amount + 10**6), Lost(amount + 10**6, "old"), Answered(amount + 10**6, 1))[amount % 3]
    ),
    "unsent": lambda driver, _: driver.in_flight and unsent(driver),
    "time": lambda driver, amount: driver.pass_time(amount),
}


def unsent(driver):
    number = driver.in_flight[-1][0]
    driver.end(number, "unsent")
    driver.step(Unsent(number))


@given(
    st.lists(st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 2000)), max_size=60),
    st.booleans(),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=5),
)
def test_any_order_of_events(operations, negotiates, draws):
    """Each request ends once and in time, answers and bytes stay in bounds, and back-offs are kept."""
    drawn = [0]

    def draw():
        drawn[0] += 1
        return draws[drawn[0] % len(draws)]

    driver = Driver(draw, negotiates=negotiates)
    for name, amount in operations:
        OPERATIONS[name](driver, amount)
    asked = len(driver.ends) + len(driver.open)
    driver.step(Closing())
    assert sorted(driver.ends) == list(range(asked))
    assert (driver.state.phase, driver.state.wake_at_ms) == (Phase.CLOSED, float("inf"))


@pytest.fixture
def driver():
    return Driver(lambda: 0.5, negotiates=False)


def test_a_connection_is_made_for_a_request(driver):
    """Not before the first one; then it stays for the next."""
    assert driver.attempt == 0
    driver.ask()
    assert driver.attempt == 1
    driver.opened()
    driver.answered()
    driver.ask()
    driver.answered()
    assert list(driver.ends.values()) == ["answered", "answered"]


def test_requests_go_out_in_order_as_far_as_they_may(driver):
    """Three are in flight; each answer makes room for one."""
    for _ in range(5):
        driver.ask()
    driver.opened()
    assert [number for number, _ in driver.in_flight] == [0, 1, 2]
    driver.answered()
    assert [number for number, _ in driver.in_flight] == [1, 2, 3]


def test_versions_are_agreed_before_the_first_request():
    """A node that does not know the version in which it is asked is asked again."""
    driver = Driver(lambda: 0.5, negotiates=True)
    driver.ask()
    driver.opened()
    assert driver.sent == []
    driver.agreed(again=True)
    assert driver.sent == []
    assert driver.negotiating is not None
    driver.agreed()
    assert driver.sent == [0]


def test_a_request_beyond_the_bound_fails_at_once(driver):
    """By number and by bytes; the others wait on."""
    driver.ask(size=990)
    driver.ask(size=11)
    assert driver.ends == {1: Failure.BUSY}
    for _ in range(6):
        driver.ask(size=1)
    assert driver.ends == {1: Failure.BUSY, 7: Failure.BUSY}


def test_an_attempt_that_fails_fails_those_who_waited(driver):
    """The next request waits for the end of the back-off, which doubles up to its maximum."""
    waits = []
    for _ in range(6):
        driver.ask(timeout_ms=10_000)
        lost_at_ms = driver.now_ms
        driver.lost()
        driver.ask(timeout_ms=10_000)
        assert driver.attempt == 0
        driver.now_ms = int(driver.state.wake_at_ms)
        waits.append(driver.now_ms - lost_at_ms)
        driver.tick()
        assert driver.attempt
    assert waits == [50, 100, 200, 400, 400, 400]
    assert set(driver.ends.values()) == {Failure.UNAVAILABLE}


def test_an_answer_ends_the_back_off(driver):
    """A connection alone does not: a node that accepts and hangs up is asked less and less often."""
    for _ in range(3):
        driver.ask(timeout_ms=10_000)
        driver.pass_time(2000 if not driver.attempt else 0)
        driver.opened()
        driver.lost()
    assert driver.state.failures == 3
    driver.ask(timeout_ms=10_000)
    driver.pass_time(400)
    driver.opened()
    driver.answered()
    assert driver.state.failures == 0


def test_an_idle_connection_that_ends_costs_no_back_off(driver):
    """The other end closes those that are idle; the next request connects at once."""
    driver.ask()
    driver.opened()
    driver.answered()
    driver.lost()
    driver.ask()
    assert driver.attempt == 2


def test_a_silent_node_costs_the_connection(driver):
    """The late request times out, those behind it end with the connection; one that was not sent waits for the next."""
    driver.ask(timeout_ms=100)
    for _ in range(3):
        driver.ask(timeout_ms=1000)
    driver.opened()
    driver.pass_time(99)
    assert driver.ends == {}
    driver.pass_time(1)
    assert driver.ends == {0: Failure.TIMEOUT, 1: Failure.UNAVAILABLE, 2: Failure.UNAVAILABLE}
    driver.pass_time(60)
    driver.opened()
    assert driver.sent[-1] == 3


def test_a_request_that_waits_for_a_connection_times_out_alone(driver):
    """The attempt goes on for those who have more time."""
    driver.ask(timeout_ms=100)
    driver.ask(timeout_ms=500)
    driver.pass_time(200)
    assert driver.ends == {0: Failure.TIMEOUT}
    driver.opened()
    assert driver.sent == [1]


def test_an_attempt_takes_so_long_and_no_longer(driver):
    """The time grows with the failures, from 700 ms to 1500 ms, less or more by chance."""
    driver.ask(timeout_ms=10_000)
    driver.pass_time(699)
    assert driver.ends == {}
    driver.pass_time(1)
    assert driver.ends == {0: Failure.UNAVAILABLE}
    driver.ask(timeout_ms=10_000)
    driver.pass_time(50)
    driver.pass_time(1399)
    assert driver.ends == {0: Failure.UNAVAILABLE}
    driver.pass_time(1)
    assert driver.ends[1] is Failure.UNAVAILABLE


@pytest.mark.parametrize("correlation_id", [7, -1])
def test_an_answer_out_of_turn_ends_the_connection(driver, correlation_id):
    """No later answer could be matched; nothing is delivered."""
    driver.ask()
    driver.ask()
    driver.opened()
    actions = driver.step(Answered(driver.attempt, correlation_id))
    assert isinstance(actions[0], HangUp)
    assert set(driver.ends.values()) == {Failure.UNAVAILABLE}


def test_an_answer_without_a_request_ends_the_connection(driver):
    """Also when all requests have been answered."""
    driver.ask()
    driver.opened()
    driver.answered()
    (action,) = driver.step(Answered(driver.attempt, 1))
    assert isinstance(action, HangUp)


def test_a_closed_link_takes_no_request(driver):
    """All that was open ends; a second closing does nothing."""
    driver.ask()
    driver.opened()
    driver.ask()
    driver.step(Closing())
    assert driver.step(Closing()) == []
    driver.ask()
    assert list(driver.ends.values()) == [Failure.CLOSED] * 3


def test_correlation_ids_begin_anew():
    """They are 32 bits with a sign: 0 follows the largest."""
    state = PeerState(LIMITS, negotiates=False, draw=lambda: 0.0)
    state._correlation_id = 2**31 - 2
    state.step(Asked(0, 100, 1), 0)
    state.step(Asked(1, 100, 1), 0)
    sends = state.step(Opened(1), 0)
    assert sends == [Send(0, 2**31 - 1), Send(1, 0)]
    assert state.step(Answered(1, 2**31 - 1), 0) == [Deliver(0)]
    assert state.step(Answered(1, 0), 0) == [Deliver(1)]


def test_actions_are_values(driver):
    """A first request makes one attempt, which counts the failures before it."""
    assert driver.state.step(Asked(0, 5, 5), 0) == [Dial(1, 0)]
    assert driver.state.step(Lost(1, "gone"), 0) == [Fail(0, Failure.UNAVAILABLE, "gone")]
    assert driver.state.step(Asked(1, 5, 5), 100) == [Dial(2, 1)]
    assert driver.state.step(Lost(2, "refused", refused=True), 100) == [Fail(1, Failure.REFUSED, "refused")]
    negotiating = PeerState(LIMITS, negotiates=True, draw=lambda: 0.0)
    negotiating.step(Asked(0, 5, 5), 0)
    assert negotiating.step(Opened(1), 0) == [Negotiate(0)]


@pytest.mark.parametrize("event", [Opened(1), Agreed(1), AskAgain(1), Lost(1, "old"), Answered(1, 0), Answered(1, 9)])
def test_an_earlier_attempt_has_no_say(driver, event):
    """Events of a connection that has been given up come late: they change nothing."""
    driver.ask()
    driver.lost()
    driver.pass_time(50)
    driver.ask()
    driver.opened()
    driver.ask()
    assert driver.attempt == 2
    assert driver.in_flight[0][1] == 0
    assert driver.step(event) == []
    driver.answered()
    driver.answered()
    assert list(driver.ends.values()) == [Failure.UNAVAILABLE, "answered", "answered"]
    assert driver.step(event) == []
