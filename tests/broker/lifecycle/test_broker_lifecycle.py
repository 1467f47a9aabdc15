"""The life of a broker, step by step."""

from itertools import count, pairwise
from math import inf

import pytest

from stratalog.broker.lifecycle.broker_lifecycle import BrokerLifecycle
from stratalog.broker.lifecycle.lifecycle_events import (
    Beat,
    BeatAnswered,
    CaughtUp,
    DataLost,
    End,
    Ended,
    FencedAgain,
    LeaderChanged,
    LifecycleTimes,
    LogsOpened,
    MetadataProgress,
    OtherStops,
    Phase,
    Refused,
    Register,
    Registered,
    RegistrationChanged,
    RegistrationLost,
    Started,
    StopWanted,
    Ticked,
    TookEpoch,
    Unanswered,
    Unfenced,
)
from stratalog.wire.errors import ErrorCode

DIRECTORY = b"d" * 16


class Told:
    """A machine, the time, and the request in flight."""

    def __init__(self, **fields):
        numbers = count(1)
        self.machine = BrokerLifecycle(
            LifecycleTimes(),
            new_incarnation=lambda: next(numbers).to_bytes(16, "big"),
            draw=lambda: 0.5,
            **{"previous_broker_epoch": -1, **fields},
        )
        self.now_ms = 1000
        self.sent = None
        self.image = MetadataProgress(-1, -1, -1)

    def do(self, event):
        """Say an event; the actions but the request, which is kept."""
        actions = self.machine.step(event, self.now_ms)
        requests = [one for one in actions if isinstance(one, Register | Beat)]
        assert len(requests) <= 1
        self.sent = requests[0] if requests else self.sent
        return [one for one in actions if one not in requests]

    def wait(self, ms):
        """Let time pass; the moments at which a request went out, and the other actions."""
        end, went, rest = self.now_ms + ms, [], []
        while self.machine.wake_at_ms <= end:
            self.now_ms, before = max(self.now_ms, int(self.machine.wake_at_ms)), self.sent
            rest += self.do(Ticked())
            if self.sent is not before:
                went.append(self.now_ms)
            if went or rest:
                break
        else:
            self.now_ms = end
        return went, rest

    def register(self, epoch=7, high_watermark=8):
        """Answer the registration; the image has it at once."""
        self.image = MetadataProgress(high_watermark - 1, high_watermark, epoch)
        return self.do(Registered(self.sent.number, epoch, self.image))

    def answer(self, *, caught_up=True, fenced=False, stop=False, image=None):
        """Answer the heartbeat."""
        assert isinstance(self.sent, Beat)
        return self.do(BeatAnswered(self.sent.number, caught_up, fenced, stop, image or self.image))

    def run(self):
        """Bring it as far as it goes."""
        self.do(Started())
        self.register()
        assert self.answer(fenced=True) == [CaughtUp()]
        self.do(LogsOpened())
        assert self.answer() == [Unfenced()]
        return self


def test_the_order_is_that_of_kafka():
    """Register, catch up under a fence, open logs, ask for no fence, serve; then a heartbeat each interval."""
    told = Told(previous_broker_epoch=3)
    told.do(Started())
    assert told.sent == Register(1, (1).to_bytes(16, "big"), 3)
    assert told.register() == [TookEpoch(7)]
    assert told.sent == Beat(2, 7, wants_fence=True, wants_shutdown=False, offline_directories=(), names_cordoned=False)
    assert told.answer(caught_up=False, fenced=True) == []
    assert told.wait(10) == ([1010], [])
    assert told.answer(fenced=True) == [CaughtUp()]
    assert told.machine.phase is Phase.RECOVERY
    assert told.wait(10) == ([1020], [])
    assert (told.sent.wants_fence, told.sent.names_cordoned) == (True, True)
    assert told.answer(fenced=True) == []
    assert told.wait(1999) == ([], [])
    told.do(LogsOpened())
    assert not told.sent.wants_fence
    assert told.answer() == [Unfenced()]
    assert told.machine.phase is Phase.RUNNING
    assert told.wait(2000) == ([told.now_ms], [])
    assert told.sent == Beat(told.sent.number, 7, False, False, (), True)


def test_no_answer_makes_a_broker_serve_before_its_logs_are_open():
    """It has asked to be fenced; that the controller has it unfenced is of an earlier time."""
    told = Told()
    told.do(Started())
    told.register()
    told.answer(fenced=True)
    told.wait(10)
    assert told.answer(fenced=False) == []
    assert told.machine.phase is Phase.RECOVERY


@pytest.mark.parametrize(
    ("image", "caught_up"),
    [
        (MetadataProgress(19, 50, 7), True),
        (MetadataProgress(18, 19, 7), False),
        (MetadataProgress(30, 31, -1), False),
        (MetadataProgress(30, 31, 6), False),
    ],
)
def test_a_broker_has_caught_up_with_what_was_committed_when_it_was_registered(image, caught_up):
    """Its image has its own registration, too; what is committed later is not waited for (KAFKA-13959)."""
    told = Told()
    told.do(Started())
    told.register(high_watermark=20)
    assert told.answer(fenced=True, image=image) == ([CaughtUp()] if caught_up else [])


def test_the_controller_must_say_that_it_has_caught_up():
    """A registration that was repeated lies further behind in the log (Kafka's unfencing offset)."""
    told = Told()
    told.do(Started())
    told.register()
    assert told.answer(caught_up=False, fenced=True) == []
    assert told.machine.phase is Phase.STARTING


def test_a_refused_registration_is_repeated_with_growing_waits_until_its_time_is_over():
    """DUPLICATE_BROKER_REGISTRATION ends with the session of the process before; the incarnation stays the same."""
    told = Told()
    told.do(Started())
    first, times, ended = told.sent, [], []
    while not ended:
        told.do(Refused(told.sent.number, ErrorCode.DUPLICATE_BROKER_REGISTRATION))
        went, ended = told.wait(61_000)
        assert told.sent.incarnation_id == first.incarnation_id
        times += went
    assert times[:7] == [1100, 1300, 1700, 2500, 4100, 6100, 8100]
    assert ended == [Ended(End.NOT_REGISTERED_IN_TIME, ErrorCode.DUPLICATE_BROKER_REGISTRATION)]
    assert told.now_ms == 61_000
    assert told.machine.wake_at_ms == inf
    assert told.do(Registered(told.sent.number, 9, told.image)) == []


def test_a_registration_without_an_answer_is_asked_again_as_the_same_incarnation():
    """It may have been carried out: the same incarnation keeps the epoch. A late answer of the first is dropped."""
    told = Told()
    told.do(Started())
    first = told.sent
    told.do(Unanswered(first.number))
    told.wait(100)
    assert told.sent == Register(2, first.incarnation_id, -1)
    assert told.do(Registered(first.number, 7, told.image)) == []
    assert told.register() == [TookEpoch(7)]


@pytest.mark.parametrize("error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
def test_a_broker_that_is_not_known_any_more_registers_as_a_new_incarnation(error):
    """It asks to be fenced until its image has the new registration; its logs are open already."""
    told = Told().run()
    old = told.machine.incarnation_id
    told.wait(2000)
    assert told.do(Refused(told.sent.number, error)) == [RegistrationLost(7)]
    assert not told.machine.in_contact(told.now_ms)
    told.wait(100)
    assert told.sent == Register(told.sent.number, told.machine.incarnation_id, -1)
    assert told.sent.incarnation_id != old
    assert told.do(Registered(told.sent.number, 30, told.image)) == [TookEpoch(30)]
    assert told.sent.wants_fence
    assert told.answer(fenced=True) == []
    told.wait(10)
    told.image = MetadataProgress(31, 32, 30)
    assert told.answer(fenced=True) == [CaughtUp()]
    told.wait(10)
    assert not told.sent.wants_fence
    assert told.answer() == [Unfenced()]


def test_a_controller_that_forgets_at_once_is_asked_ever_less():
    """Only an answered heartbeat shortens the waits."""
    told = Told()
    told.do(Started())
    times = []
    for epoch in range(10, 16):
        told.register(epoch)
        told.do(Refused(told.sent.number, ErrorCode.STALE_BROKER_EPOCH))
        times += told.wait(10_000)[0]
    assert [later - earlier for earlier, later in pairwise(times)] == [200, 400, 800, 1600, 2000]


def test_a_failed_heartbeat_is_repeated_well_within_the_session():
    """Waits do not grow above the time between heartbeats; a new controller is asked at once."""
    told = Told().run()
    told.wait(2000)
    times = []
    for _ in range(8):
        told.do(Refused(told.sent.number, ErrorCode.NOT_CONTROLLER))
        times += told.wait(10_000)[0]
    assert [later - earlier for earlier, later in pairwise(times)] == [
        200,
        400,
        800,
        1600,
        *[2000] * 3,
    ]
    told.do(Unanswered(told.sent.number))
    before = told.sent
    told.do(LeaderChanged())
    assert told.sent.number == before.number + 1
    told.do(LeaderChanged())
    told.do(Unanswered(told.sent.number))
    assert told.sent.number == before.number + 2
    told.answer()
    told.do(LeaderChanged())
    assert told.sent.number == before.number + 2
    assert told.machine.phase is Phase.RUNNING


def test_contact_lasts_for_a_session_from_the_sending_of_a_heartbeat():
    """One that says fenced ends it, as does the loss of the registration."""
    told = Told()
    told.do(Started())
    told.register()
    told.answer(fenced=True)
    assert not told.machine.in_contact(told.now_ms)
    told.do(LogsOpened())
    sent_ms = told.now_ms
    told.now_ms += 300
    told.answer()
    assert told.machine.in_contact(sent_ms + 8999)
    assert not told.machine.in_contact(sent_ms + 9000)
    told.wait(2000)
    assert told.answer(fenced=True) == [FencedAgain()]
    assert told.machine.phase is Phase.RUNNING
    assert not told.machine.in_contact(told.now_ms)
    told.wait(2000)
    assert told.answer() == []
    assert told.machine.in_contact(told.now_ms)


def test_a_controlled_shutdown_asks_until_the_controller_agrees():
    """Heartbeats follow each other quickly at first; one that was in flight is no answer to it."""
    told = Told().run()
    told.wait(2000)
    told.do(StopWanted(300_000))
    assert told.answer(stop=True) == []
    assert (told.sent.wants_shutdown, told.sent.wants_fence) == (True, False)
    for waits_ms in (50, 100, 200, 400, 800, 1600, 2000, 2000):
        told.answer()
        before_ms = told.now_ms
        assert told.wait(2000) == ([before_ms + waits_ms], [])
    told.do(StopWanted(1))
    assert told.answer(stop=True) == [Ended(End.MAY_STOP, 0)]
    assert told.wait(400_000) == ([], [])


def test_a_broker_that_serves_reports_at_once_when_another_stops():
    """That one waits for it. One that does not serve yet reports often enough, one that stops itself as well."""
    told = Told()
    told.do(Started())
    told.register()
    before = told.sent
    told.do(OtherStops())
    assert told.answer(fenced=True) == [CaughtUp()]
    assert told.sent is before
    told.do(LogsOpened())
    told.answer()
    told.wait(500)
    told.do(OtherStops())
    asked = told.sent
    told.do(OtherStops())
    assert told.sent is asked
    told.answer()
    assert told.sent.number == asked.number + 1
    told.do(StopWanted(1000))
    told.answer()
    told.answer()
    stopping = told.sent
    told.do(OtherStops())
    assert told.sent is stopping


@pytest.mark.parametrize("answers", [True, False])
def test_a_controlled_shutdown_ends_when_its_time_is_over(answers):
    """The controller keeps it waiting, or does not answer."""
    told = Told().run()
    told.do(StopWanted(5000))
    begun_ms, ended = told.now_ms, []
    while not ended:
        if told.sent is not None:
            if answers:
                told.answer()
            else:
                told.do(Unanswered(told.sent.number))
        _, ended = told.wait(6000)
    assert ended == [Ended(End.STOP_TIMED_OUT, 0)]
    assert told.now_ms == begun_ms + 5000


def test_a_broker_that_serves_no_client_ends_at_once():
    """So does one that the controller has forgotten."""
    told = Told()
    told.do(Started())
    assert told.do(StopWanted(5000)) == [Ended(End.NEVER_SERVED, 0)]
    told = Told().run()
    told.do(StopWanted(5000))
    stale = ErrorCode.STALE_BROKER_EPOCH
    assert told.do(Refused(told.sent.number, stale)) == [Ended(End.NOT_REGISTERED, stale)]


def test_a_changed_registration_is_sent_again_without_a_new_epoch():
    """The same incarnation keeps epoch and state, and goes on with its heartbeats."""
    told = Told().run()
    told.do(RegistrationChanged())
    assert told.sent == Register(told.sent.number, told.machine.incarnation_id, -1)
    assert told.do(Registered(told.sent.number, 7, told.image)) == []
    assert told.answer() == []
    assert told.machine.phase is Phase.RUNNING
    told.do(RegistrationChanged())
    assert told.do(Refused(told.sent.number, ErrorCode.DUPLICATE_BROKER_REGISTRATION)) == [RegistrationLost(7)]


def test_a_broker_that_stops_does_not_register_again():
    """The registration that was in flight ends first; then it asks to stop."""
    told = Told().run()
    told.do(RegistrationChanged())
    told.do(StopWanted(5000))
    told.do(RegistrationChanged())
    told.do(Unanswered(told.sent.number))
    assert told.sent.wants_shutdown


def test_a_broker_that_has_lost_data_gives_its_registration_up_and_names_none_before():
    """Also one that named its last epoch when it registered; late answers to the old incarnation are not taken."""
    told = Told(previous_broker_epoch=5)
    told.do(Started())
    assert told.sent.previous_broker_epoch == 5
    told.register()
    old, first = told.sent, told.machine.incarnation_id
    assert told.do(DataLost()) == [RegistrationLost(7, is_given_up=True)]
    assert isinstance(told.sent, Register)
    assert (told.sent.previous_broker_epoch, told.sent.incarnation_id != first) == (-1, True)
    assert told.do(BeatAnswered(old.number, True, False, False, told.image)) == []
    assert told.register(epoch=9) == [TookEpoch(9)]
    assert told.do(DataLost()) == [RegistrationLost(9, is_given_up=True)]


def test_data_that_is_lost_before_a_registration_or_while_it_stops_changes_nothing():
    """There is no registration to give up, or no time for another one."""
    told = Told(previous_broker_epoch=5)
    told.do(Started())
    assert told.do(DataLost()) == []
    told = Told().run()
    told.do(StopWanted(5000))
    sent = told.sent
    assert (told.do(DataLost()), told.sent) == ([], sent)
