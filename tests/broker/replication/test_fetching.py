"""The machine of a follower's fetches from one leader."""

from math import inf

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stratalog.broker.replicas.log_position import LogPosition
from stratalog.broker.replication.fetching import NAMED_MAX, Fetching, FetchLimits
from stratalog.broker.replication.fetching_events import (
    Answered,
    Ask,
    Correct,
    Failed,
    Followed,
    Refused,
    Released,
    Take,
    Taken,
    Ticked,
)
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData

LIMITS = FetchLimits(wait_ms=500, min_bytes=1, max_bytes=10 << 20, partition_max_bytes=1 << 20, backoff_ms=1000)
TOPIC = b"t" * 16
SESSION = 77


def key(number=0):
    return PartitionKey(TOPIC, number)


def machine():
    one = Fetching(2, lambda: LIMITS, lambda: 0.5)
    one.broker_epoch = 40
    return one


def at(offset, epoch=3, start=0):
    return LogPosition(offset, epoch, start)


def request_of(actions):
    (ask,) = [one for one in actions if isinstance(one, Ask)]
    return ask.request


def named(request):
    return {one.partition: one.fetch_offset for topic in request.topics for one in topic.partitions}


def forgotten(request):
    return [number for topic in request.forgotten_topics_data for number in topic.partitions]


def data(number=0, code=0, records=b"", high_watermark=0, diverging=None):
    return PartitionData(
        partition_index=number,
        error_code=code,
        high_watermark=high_watermark,
        records=records,
        diverging_epoch=diverging,
    )


def answer(*partitions, session=SESSION, code=0):
    topics = [FetchableTopicResponse(topic_id=TOPIC, partitions=list(partitions))] if partitions else []
    return Answered(FetchResponse(error_code=code, session_id=session, responses=topics))


def following(*numbers, session=SESSION):
    """A machine that follows these partitions from offset 0, and has just been answered without news."""
    one = machine()
    for number in numbers:
        one.step(Followed(key(number), 5, at(0)), 0)
    for _ in numbers[1:]:
        one.step(answer(session=session), 0)
    return one, request_of(one.step(answer(session=session), 0))


def test_the_first_request_tells_who_asks_and_from_where():
    """Kafka's fields of a follower: its id and broker epoch, the leader epoch, the last epoch of its log, its log start."""
    one = machine()
    one.broker_epoch = 41
    request = request_of(one.step(Followed(key(), 5, at(12, epoch=4, start=3)), 0))
    (topic,) = request.topics
    (wanted,) = topic.partitions
    assert (request.replica_id, request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 2, 41)
    assert (request.session_id, request.session_epoch, request.max_wait_ms, request.min_bytes) == (0, 0, 500, 1)
    assert (topic.topic_id, wanted.partition, wanted.current_leader_epoch) == (TOPIC, 0, 5)
    assert (wanted.fetch_offset, wanted.last_fetched_epoch, wanted.log_start_offset) == (12, 4, 3)
    assert one.wake_at_ms == inf


def test_the_next_request_waits_until_all_that_came_is_in_the_logs():
    """One partition that is still being synced holds back the request: its session would repeat the offset before."""
    one, _ = following(0, 1)
    actions = one.step(answer(data(0, records=b"a"), data(1, records=b"b")), 1)
    assert actions == [Take(key(0), 5, actions[0].data), Take(key(1), 5, actions[1].data)]
    assert one.step(Taken(key(0), 5, at(3)), 2) == []
    assert one.step(Ticked(), 3) == []
    request = request_of(one.step(Taken(key(1), 5, at(9)), 4))
    assert named(request) == {0: 3, 1: 9}
    assert (request.session_id, request.session_epoch) == (SESSION, 3)


def test_a_session_repeats_what_is_not_named():
    """Partitions without news are named once."""
    one, request = following(0, 1)
    assert named(request) == {}
    one.step(answer(data(1, records=b"b")), 1)
    assert named(request_of(one.step(Taken(key(1), 5, at(2)), 1))) == {1: 2}


def test_without_a_session_every_request_names_all():
    """A leader without room for sessions answers id 0."""
    _, request = following(0, 1, session=0)
    assert (request.session_id, request.session_epoch, named(request)) == (0, 0, {0: 0, 1: 0})


def test_many_partitions_are_named_in_turn_and_no_request_waits_meanwhile():
    """A leader's loop is not held for long by one request."""
    one = machine()
    one.step(Followed(key(0), 5, at(0)), 0)
    for number in range(1, NAMED_MAX + 2):
        one.step(Followed(key(number), 5, at(0)), 0)
    first = request_of(one.step(answer(), 1))
    assert (len(named(first)), first.max_wait_ms) == (NAMED_MAX, 0)
    second = request_of(one.step(answer(), 2))
    assert (len(named(second)), second.max_wait_ms) == (1, 500)


@pytest.mark.parametrize(("count", "asked"), [(1, 4 << 20), (5, 2 << 20), (10, 1 << 20), (1000, 1 << 20)])
def test_few_partitions_may_bring_more_each(count, asked):
    """Records that a leader writes between two syncs come with one answer: a follower syncs as often, and not for every MiB."""
    assert LIMITS.bytes_of_one(count) == asked


@pytest.mark.parametrize(("moved", "asked"), [(1, 4 << 20), (5, 2 << 20), (20, 1 << 20)])
def test_partitions_with_news_share_an_answer(moved, asked):
    """Those that are idle take nothing of it: one that is far behind is copied at the rate of its own, not of the broker's hundreds."""
    one, request = following(*range(20))
    assert one.step(answer(*(data(number, records=b"a") for number in range(moved))), 0)
    for number in range(moved):
        actions = one.step(Taken(key(number), 5, at(1)), 0)
    request = request_of(actions)
    assert [wanted.partition_max_bytes for wanted in request.topics[0].partitions] == [asked] * moved


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (ErrorCode.OFFSET_OUT_OF_RANGE, Correct(key(), 5, False)),
        (ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, Correct(key(), 5, True)),
    ],
)
def test_a_position_outside_the_leaders_log_is_corrected_first(code, action):
    """It is asked for again when that is done."""
    one, _ = following(0)
    assert one.step(answer(data(code=code)), 1) == [action]
    assert named(request_of(one.step(Taken(key(), 5, at(40)), 9))) == {0: 40}


@pytest.mark.parametrize("code", [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE])
def test_a_position_that_is_corrected_holds_up_no_other_partition(code):
    """Where the archive is needed for it, that takes as long as the bucket likes: the other copies stay in sync meanwhile."""
    one, _ = following(0, 1)
    actions = one.step(answer(data(0, code=code)), 1)
    assert isinstance(actions[0], Correct)
    request = request_of(actions)
    assert (named(request), forgotten(request)) == ({}, [0])
    one.step(answer(data(1, records=b"a")), 2)
    assert named(request_of(one.step(Taken(key(1), 5, at(1)), 3))) == {1: 1}
    assert one.step(Taken(key(0), 5, at(40)), 4) == []  # one request at a time
    assert named(request_of(one.step(answer(), 5))) == {0: 40}


def test_a_leader_is_asked_for_no_long_wait_while_a_position_is_corrected_in_its_log():
    """It answers the questions of the correction behind that request. Where it deletes the oldest records as fast, the new
    position would be gone each time.
    """
    one, request = following(0, 1)
    assert request.max_wait_ms == LIMITS.wait_ms
    request = request_of(one.step(answer(data(0, code=ErrorCode.OFFSET_OUT_OF_RANGE)), 1))
    assert request.max_wait_ms < 100
    request = request_of(one.step(answer(), 2))
    assert request.max_wait_ms < 100
    one.step(Taken(key(0), 5, at(40)), 3)
    assert request_of(one.step(answer(), 4)).max_wait_ms == LIMITS.wait_ms
    request = request_of(one.step(answer(data(0, code=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)), 5))
    assert request.max_wait_ms == LIMITS.wait_ms  # the bucket decides how long that takes


@pytest.mark.parametrize("ending", [Released(key(0)), Refused(key(0), 5, at(0))])
def test_a_correction_that_ends_otherwise_ends_the_short_waits(ending):
    """Let go of, or refused."""
    one, _ = following(0, 1)
    one.step(answer(data(0, code=ErrorCode.OFFSET_OUT_OF_RANGE)), 1)
    one.step(ending, 2)
    assert request_of(one.step(answer(), 3)).max_wait_ms == LIMITS.wait_ms


def test_a_correction_that_fails_is_tried_again_after_a_pause():
    """An outcome that comes in a later epoch changes nothing."""
    one, _ = following(0)
    one.step(answer(data(code=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)), 1)
    assert one.wake_at_ms == inf
    assert one.step(Refused(key(), 5, at(0)), 2) == []
    assert one.wake_at_ms < inf
    assert named(request_of(one.step(Ticked(), 2000))) == {0: 0}
    one.step(Followed(key(), 6, at(7)), 2001)
    assert one.step(Refused(key(), 5, at(0)), 2002) == []
    assert named(request_of(one.step(answer(), 2003))) == {0: 7}


def test_a_refused_partition_rests_outside_the_session_and_holds_up_no_other():
    """Its pauses double up to the setting; an answer without an error ends them."""
    one, _ = following(0, 1)
    request = request_of(one.step(answer(data(0, code=ErrorCode.NOT_LEADER_OR_FOLLOWER)), 100))
    assert (forgotten(request), named(request)) == ([0], {})
    one.step(answer(), 105)
    assert request_of(one.step(answer(), 125)).topics[0].partitions[0].partition == 0
    one.step(answer(data(0, code=ErrorCode.UNKNOWN_LEADER_EPOCH)), 130)
    one.step(answer(), 160)
    assert named(request_of(one.step(answer(), 180))) == {0: 0}


def test_a_fenced_epoch_waits_for_the_metadata():
    """Only another leader epoch brings it back."""
    one, _ = following(0)
    assert one.step(answer(data(code=ErrorCode.FENCED_LEADER_EPOCH)), 1) == []
    assert one.wake_at_ms == inf
    assert named(request_of(one.step(Followed(key(), 6, at(0)), 2))) == {0: 0}


def test_an_answer_to_an_earlier_epoch_is_dropped():
    """Its records may be none of the new leader epoch's."""
    one, _ = following(0)
    assert one.step(Followed(key(), 6, at(0)), 1) == []
    request = request_of(one.step(answer(data(records=b"old", diverging=EpochEndOffset(epoch=1, end_offset=2))), 2))
    assert request.topics[0].partitions[0].current_leader_epoch == 6
    assert one.step(Taken(key(), 5, at(8)), 3) == []


def test_a_lost_answer_begins_a_new_session_after_a_pause():
    """Both sides may think differently of what it named."""
    one, _ = following(0)
    assert one.step(Failed(), 100) == []
    assert one.wake_at_ms == 120
    request = request_of(one.step(Ticked(), 120))
    assert (request.session_id, request.session_epoch, named(request)) == (0, 0, {0: 0})


def test_a_session_that_the_leader_forgot_is_begun_anew_at_once():
    """An error of the whole answer, while there is a session, is about the session."""
    one, _ = following(0)
    request = request_of(one.step(answer(code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session=0), 1))
    assert (request.session_id, request.session_epoch, named(request)) == (0, 0, {0: 0})
    assert one.step(answer(code=ErrorCode.UNKNOWN_SERVER_ERROR, session=0), 2) == []
    assert one.wake_at_ms == 22


def test_records_that_could_not_be_taken_are_asked_for_again():
    """A corrupt batch on the wire, a full disk."""
    one, _ = following(0)
    one.step(answer(data(records=b"x")), 1)
    assert one.step(Refused(key(), 5, at(0)), 2) == []
    assert one.wake_at_ms == 22
    assert named(request_of(one.step(Ticked(), 22))) == {0: 0}


def test_a_released_partition_leaves_the_session_and_holds_back_nothing():
    """Also while what it got is being written."""
    one, _ = following(0, 1)
    one.step(answer(data(0, records=b"x")), 1)
    request = request_of(one.step(Released(key(0)), 2))
    assert forgotten(request) == [0]
    assert one.step(Taken(key(0), 5, at(1)), 3) == []
    one.step(Released(key(1)), 4)
    assert one.step(answer(), 5) == []
    assert (len(one), one.wake_at_ms) == (0, inf)


class Leaders(RuleBasedStateMachine):
    """A leader that keeps sessions as Kafka's does, and a follower, under lost answers, refusals and other epochs.

    The leader takes the offset of every partition of the session as what the follower has. It must be so at every request.
    """

    @initialize()
    def begin(self):
        self.now = 0
        self.machine = machine()
        self.durable = {}
        self.epochs = {}
        self.busy = {}
        self.away = {}
        self.refused = set()
        self.in_flight = None
        self.session = None
        self.sessions = 0

    def do(self, event):
        for action in self.machine.step(event, self.now):
            if isinstance(action, Ask):
                assert self.in_flight is None, "two requests at once"
                self.take_in(action.request)
            elif isinstance(action, Correct):
                self.away[action.key] = action.leader_epoch
            else:
                assert isinstance(action, Take)
                self.busy[action.key] = action.leader_epoch

    def take_in(self, request):
        """The leader's knowledge after the request has come."""
        if request.session_epoch == 0:
            self.sessions += 1
            self.session = {"id": self.sessions, "epoch": 1, "known": {}}
        else:
            assert (request.session_id, request.session_epoch) == (self.session["id"], self.session["epoch"])
            self.session["epoch"] += 1
        known = self.session["known"]
        self.refused.clear()
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                known.pop(number, None)
        for topic in request.topics:
            for one in topic.partitions:
                known[one.partition] = (one.current_leader_epoch, one.fetch_offset)
        self.in_flight = request

    @invariant()
    def the_leader_believes_what_is_durable(self):
        for number, (epoch, offset) in (self.session["known"] if getattr(self, "session", None) else {}).items():
            if self.epochs.get(number) == epoch and number not in self.refused:
                assert offset <= self.durable[number]

    @rule(number=st.integers(0, 3), offset=st.integers(0, 5))
    def follow(self, number, offset):
        self.epochs[number] = self.epochs.get(number, 0) + 1
        self.durable[number] = offset
        self.busy.pop(key(number), None)
        self.away.pop(key(number), None)
        self.do(Followed(key(number), self.epochs[number], at(offset)))

    @rule(number=st.integers(0, 3))
    def release(self, number):
        self.busy.pop(key(number), None)
        self.away.pop(key(number), None)
        self.do(Released(key(number)))

    @precondition(lambda self: self.in_flight is not None)
    @rule(
        chosen=st.sets(st.integers(0, 3)),
        code=st.sampled_from([0, 0, 0, 1, 6, 74, 75]),
        high_watermark=st.sampled_from([0, 1000]),
    )
    def answer(self, chosen, code, high_watermark):
        known = self.session["known"]
        self.in_flight = None
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:  # such an offset is not counted, until the session repeats it
            self.refused |= chosen
        partitions = [
            data(number, code=code, records=b"" if code else b"x", high_watermark=high_watermark)
            for number in sorted(chosen)
            if number in known
        ]
        self.do(answer(*partitions, session=self.session["id"]))

    @precondition(lambda self: self.in_flight is not None)
    @rule(code=st.sampled_from([None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND]))
    def lose(self, code):
        self.in_flight = None
        self.session = None
        self.do(Failed() if code is None else answer(code=code, session=0))

    @precondition(lambda self: self.busy)
    @rule(chance=st.data(), records=st.integers(0, 3), taken=st.booleans())
    def apply(self, chance, records, taken):
        one = chance.draw(st.sampled_from(sorted(self.busy)))
        epoch = self.busy.pop(one)
        number = one.number
        if taken:
            self.durable[number] += records
        self.do((Taken if taken else Refused)(one, epoch, at(self.durable[number])))

    @precondition(lambda self: self.away)
    @rule(chance=st.data(), offset=st.integers(0, 5), moved=st.booleans())
    def correct(self, chance, offset, moved):
        """The log was moved into the leader's: it may end earlier than before."""
        one = chance.draw(st.sampled_from(sorted(self.away)))
        epoch, number = self.away.pop(one), one.number
        if moved:
            self.durable[number] = offset
        self.do((Taken if moved else Refused)(one, epoch, at(self.durable[number])))

    @rule(ms=st.sampled_from([1, 50, 2000]))
    def pass_time(self, ms):
        self.now += ms
        self.do(Ticked())

    @invariant()
    def nothing_is_forgotten(self):
        """Without a request in flight or records to be taken, a partition that does not wait for metadata has a time to go on."""
        if getattr(self, "machine", None) is None or self.in_flight is not None or self.busy:
            return
        waiting = [one for one in self.machine._copied.values() if one.due_ms != inf and not one.is_away]
        assert not waiting or self.machine.wake_at_ms < inf


Leaders.TestCase.settings = settings(stateful_step_count=40, derandomize=True)
TestLeaders = Leaders.TestCase
