"""Tests of hot/replica_state.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.hot.replica_state import InSyncReplica, IsrChange, ReplicaState
from stratalog.wire.errors import ErrorCode, KafkaError


def leader(*, replicas=(1, 2), in_sync=(1, 2), end=0, **options) -> ReplicaState:
    options = {"leader_epoch": 3, "epoch_start_offset": 0, **options}
    return ReplicaState(1, replicas=replicas, in_sync=in_sync, leader_end_offset=end, **options)


def test_the_high_watermark_waits_for_the_next_fetch_of_the_follower():
    """After m1: 1/0; a fetch at 0 leaves 0; the fetch at 1 proves the follower has m1, so 1."""
    state = leader()
    assert not state.leader_advanced(1)
    assert (state.leader_end_offset, state.high_watermark) == (1, 0)
    assert not state.follower_fetched(2, 0, leader_log_end_offset=1, now_ms=1)
    assert state.high_watermark == 0
    assert state.follower_fetched(2, 1, leader_log_end_offset=1, now_ms=2)
    assert state.high_watermark == 1


def test_a_single_replica_is_its_own_quorum():
    """The high watermark is what the leader has flushed."""
    state = leader(replicas=(1,), in_sync=(1,))
    assert state.leader_advanced(7)
    assert state.high_watermark == 7


def test_the_high_watermark_is_the_smallest_log_end_of_the_in_sync_set_and_never_falls():
    """A member that comes back with less does not pull it down."""
    state = leader(replicas=(1, 2, 3), in_sync=(1, 2, 3), end=10)
    state.follower_fetched(2, 8, leader_log_end_offset=10, now_ms=1)
    assert state.high_watermark == 0
    state.follower_fetched(3, 6, leader_log_end_offset=10, now_ms=1)
    assert state.high_watermark == 6
    state.follower_fetched(3, 2, leader_log_end_offset=10, now_ms=2)
    assert state.high_watermark == 6


def test_too_few_in_sync_replicas_refuse_before_the_append():
    """NOT_ENOUGH_REPLICAS, with the number that is asked for."""
    leader(in_sync=(1,), end=5).check_enough_replicas()
    with pytest.raises(KafkaError, match=r"min\.insync\.replicas=2") as caught:
        leader(in_sync=(1,), end=5, min_insync_replicas=2).check_enough_replicas()
    assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_the_mark_stands_still_while_too_few_replicas_are_in_sync():
    """An eligible leader replica is complete up to the mark; it would not be if the last member moved it alone."""
    state = leader(in_sync=(1,), end=5, high_watermark=3, min_insync_replicas=2)
    assert not state.leader_advanced(9)
    assert state.high_watermark == 3
    state.follower_fetched(2, 9, leader_log_end_offset=9, now_ms=1)
    assert state.high_watermark == 3
    assert state.isr_changed((1, 2), 1, 2)
    assert state.high_watermark == 9


def test_a_lowered_minimum_lets_the_mark_move():
    """Without a new set: the topic's setting alone decides."""
    state = leader(in_sync=(1,), end=5, high_watermark=3, min_insync_replicas=2)
    assert state.isr_changed((1,), 0, 1)
    assert state.high_watermark == 5


def test_a_follower_joins_when_it_has_the_high_watermark_and_the_epoch_start():
    """And counts from the moment it is proposed."""
    state = leader(in_sync=(1,), end=10, epoch_start_offset=9)
    assert state.high_watermark == 10
    state.follower_fetched(2, 9, leader_log_end_offset=10, now_ms=1)
    assert state.expansion(2) is None
    state.follower_fetched(2, 10, leader_log_end_offset=10, now_ms=1)
    members = (InSyncReplica(1, -1), InSyncReplica(2, -1))
    assert state.expansion(2) == state.pending == IsrChange(members, 0, grows=True)
    assert state.expansion(2) is None
    assert not state.leader_advanced(12)
    assert state.maximal_in_sync == (1, 2)
    state.isr_changed((1, 2), 1, 1)
    assert (state.in_sync, state.pending) == ((1, 2), None)
    assert not state.isr_changed((1,), 0, 1)
    assert state.in_sync == (1, 2)


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_change_that_was_not_carried_out_leaves_the_old_set(code):
    """The proposed member stops counting, and the mark moves at once."""
    state = leader(in_sync=(1,), end=0)
    state.follower_fetched(2, 0, leader_log_end_offset=0, now_ms=1)
    change = state.expansion(2)
    assert not state.leader_advanced(5)
    assert state.isr_change_refused(change, code)
    assert (state.maximal_in_sync, state.high_watermark) == ((1,), 5)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_member_whose_growth_may_have_been_granted_goes_on_counting(code):
    """Else: 2 is granted, the answer is lost, 1 acknowledges alone and dies, and 2 leads without the record."""
    state = leader(in_sync=(1,), end=10)
    state.follower_fetched(2, 10, leader_log_end_offset=10, now_ms=1)
    change = state.expansion(2)
    state.leader_advanced(21)
    assert not state.isr_change_refused(change, code)
    assert (state.high_watermark, state.pending) == (10, change)
    assert not state.isr_changed((1,), 0, 1)  # an image of before
    assert state.high_watermark == 10
    assert not state.isr_changed((1, 2), 1, 1)
    assert state.high_watermark == 10


def test_a_refusal_of_one_copy_says_nothing_about_another():
    """Asked twice after a lost connection: the second copy is refused, and the first is granted after that."""
    state = leader(in_sync=(1,), end=10)
    state.follower_fetched(2, 10, leader_log_end_offset=10, now_ms=1)
    change = state.expansion(2)
    assert state.ask_again() is change
    state.leader_advanced(21)
    assert not state.isr_change_refused(change, ErrorCode.INELIGIBLE_REPLICA)
    assert state.maximal_in_sync == (1, 2)
    assert state.high_watermark == 10
    assert (state.retraction.broker_ids, state.retraction.partition_epoch) == ((1,), 0)
    assert state.isr_changed((1,), 1, 1)
    assert (state.retraction, state.pending, state.high_watermark) == (None, None, 21)


def test_a_retraction_that_raises_no_epoch_ends_the_change_and_nothing_else_does():
    """Kafka's controllers grant the set that holds already, and write no record: the leader would hear of no image."""
    state = leader(in_sync=(1,), end=10)
    state.follower_fetched(2, 10, leader_log_end_offset=10, now_ms=1)
    change = state.expansion(2)
    state.leader_advanced(21)
    assert not state.retraction_passed_over(change)
    state.ask_again()
    state.isr_change_refused(change, ErrorCode.INELIGIBLE_REPLICA)
    assert not state.retraction_passed_over(change)
    assert (state.pending, state.high_watermark) == (change, 10)
    assert state.retraction_passed_over(state.retraction)
    assert (state.retraction, state.pending, state.high_watermark) == (None, None, 21)


def test_a_refused_change_whose_member_is_registered_anew_ends_although_copies_are_on_their_way():
    """Epochs of brokers only rise: no copy can be granted, and the member is asked for under its new registration."""
    state = leader(in_sync=(1,))
    state.follower_fetched(2, 0, leader_log_end_offset=0, now_ms=1, broker_epoch=7)
    change = state.expansion(2)
    state.ask_again()
    state.follower_fetched(2, 0, leader_log_end_offset=0, now_ms=2, broker_epoch=9)
    state.isr_change_refused(change, ErrorCode.INELIGIBLE_REPLICA)
    assert (state.pending, state.retraction) == (None, None)
    assert state.expansion(2).in_sync[1] == InSyncReplica(2, 9)


def test_replicas_that_are_added_while_it_leads_may_join_and_those_that_go_are_strangers():
    """A reassignment changes the assignment, and not the leader epoch."""
    state = leader(replicas=(1, 2), in_sync=(1, 2), end=5)
    state.isr_changed((1, 2), 1, 1, replicas=(1, 2, 3), now_ms=70)
    assert state.replicas == (1, 2, 3)
    assert state.follower(3).last_caught_up_ms == 70
    state.follower_fetched(2, 5, leader_log_end_offset=5, now_ms=71)
    state.follower_fetched(3, 5, leader_log_end_offset=5, now_ms=71)
    assert state.expansion(3).broker_ids == (1, 2, 3)
    assert state.isr_changed((1, 3), 2, 1, replicas=(1, 3), now_ms=90) is False
    assert (state.replicas, state.is_follower(2)) == ((1, 3), False)
    state.isr_changed((1,), 1, 1, replicas=(1, 2), now_ms=91)
    assert state.replicas == (1, 3), "an older image"


def test_a_late_refusal_of_an_earlier_change_ends_nothing():
    """The change that is under way now is another one."""
    state = leader(in_sync=(1,), end=10)
    state.follower_fetched(2, 10, leader_log_end_offset=10, now_ms=1)
    first = state.expansion(2)
    state.isr_changed((1, 2), 1, 1)
    state.leader_advanced(11)
    second = state.shrinking(99_999, 30_000)
    assert not state.isr_change_refused(first, ErrorCode.INELIGIBLE_REPLICA)
    assert state.pending is second is not None


def test_a_fetch_from_before_a_registration_counts_nothing():
    """2 fetched at 10, lost its disk, came back and fetches at 0: its delayed fetch at 10 must not admit it."""
    state = leader(in_sync=(1,), end=10)
    state.follower_fetched(2, 0, leader_log_end_offset=10, now_ms=2, broker_epoch=8)
    with pytest.raises(KafkaError, match="broker epoch 7") as caught:
        state.follower_fetched(2, 10, leader_log_end_offset=10, now_ms=3, broker_epoch=7)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert state.follower(2).log_end_offset == 0
    assert state.expansion(2) is None


def test_a_fetch_that_tells_no_registration_does_not_take_the_newest_one_back():
    """Else the delayed fetch from before it would count behind one without."""
    state = leader(in_sync=(1,), end=10)
    state.follower_fetched(2, 0, leader_log_end_offset=10, now_ms=2, broker_epoch=8)
    state.follower_fetched(2, 0, leader_log_end_offset=10, now_ms=3)
    with pytest.raises(KafkaError, match="broker epoch 7"):
        state.follower_fetched(2, 10, leader_log_end_offset=10, now_ms=4, broker_epoch=7)
    state.follower_fetched(2, 10, leader_log_end_offset=10, now_ms=5)
    told = state.expansion(2).in_sync[1].broker_epoch
    assert told == -1, "the controller would refuse the registration of before, and the copy join no more"


def test_a_change_names_the_registrations_of_its_members():
    """The controller refuses a member that has registered anew since."""
    state = leader(in_sync=(1,), end=10, local_broker_epoch=5, partition_epoch=4)
    state.follower_fetched(2, 10, leader_log_end_offset=10, now_ms=2, broker_epoch=8)
    assert state.expansion(2) == IsrChange((InSyncReplica(1, 5), InSyncReplica(2, 8)), 4, grows=True)


def test_a_slow_follower_leaves_after_replica_lag_time_max_ms():
    """While the change is under way it still counts."""
    state = leader(end=10, now_ms=0)
    state.follower_fetched(2, 4, leader_log_end_offset=10, now_ms=100)
    assert state.shrinking(30_000, 30_000) is None
    assert state.shrinking(30_001, 30_000) == IsrChange((InSyncReplica(1, -1),), 0, grows=False)
    assert not state.leader_advanced(11)
    assert state.isr_changed((1,), 1, 1)
    assert state.high_watermark == 11


def test_a_follower_is_caught_up_if_it_asks_for_what_the_leader_had_at_its_previous_fetch():
    """A steady writer does not push out a follower that always trails by one fetch."""
    state = leader(end=10, now_ms=0)
    state.follower_fetched(2, 5, leader_log_end_offset=10, now_ms=20_000)
    state.leader_advanced(20)
    state.follower_fetched(2, 10, leader_log_end_offset=20, now_ms=40_000)
    assert state.follower(2).last_caught_up_ms == 20_000
    assert state.shrinking(50_000, 30_000) is None


def test_an_idle_follower_at_the_end_stays_in_sync():
    """Having everything is what counts, not when it last asked."""
    state = leader(end=10, now_ms=0)
    state.follower_fetched(2, 10, leader_log_end_offset=10, now_ms=1)
    assert state.shrinking(10**9, 30_000) is None


def test_a_new_leader_is_established_when_its_high_watermark_reaches_its_epoch():
    """Before that ListOffsets answers OFFSET_NOT_AVAILABLE."""
    state = leader(end=10, epoch_start_offset=10, high_watermark=6)
    assert not state.epoch_established
    state.follower_fetched(2, 10, leader_log_end_offset=10, now_ms=1)
    assert state.epoch_established


def test_an_epoch_whose_log_is_cut_begins_at_its_end():
    """And no later when the log grows again: what is written then is of this epoch."""
    state = leader(end=3, epoch_start_offset=5, high_watermark=3)
    assert not state.epoch_established
    state.log_cut(3)
    state.log_cut(9)
    assert (state.epoch_start_offset, state.epoch_established) == (3, True)


def test_a_broker_outside_of_the_assignment_is_refused():
    """A broker outside of the assignment cannot move anything."""
    with pytest.raises(KafkaError) as caught:
        leader().follower_fetched(9, 0, leader_log_end_offset=0, now_ms=0)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_min_insync_replicas_counts_at_most_the_replicas():
    """min.insync.replicas=2 on a partition of one replica, as in Kafka 4: it counts as 1."""
    state = leader(replicas=(1,), in_sync=(1,), end=5, min_insync_replicas=2)
    state.check_enough_replicas()
    assert state.high_watermark == 5
    with pytest.raises(KafkaError):
        leader(replicas=(1, 2), in_sync=(1,), end=5, min_insync_replicas=3).check_enough_replicas()


class World:
    """A leader (1), two followers and a controller whose requests, answers and images take any time, or are lost."""

    def __init__(self) -> None:
        self.leader = leader(replicas=(1, 2, 3), in_sync=(1, 2), min_insync_replicas=1)
        self.ends = {1: 0, 2: 0, 3: 0}
        self.now_ms = 0
        self.granted = [((1, 2), 0)]
        """Each in-sync set that the controller has written, with its partition epoch."""
        self.requests: list[IsrChange] = []
        self.answers: list[tuple[IsrChange, ErrorCode]] = []

    def step(self, event: str, number: int) -> None:
        self.now_ms += 100
        getattr(self, event)(number)
        in_sync, _ = self.granted[-1]
        assert self.leader.high_watermark <= min(self.ends[one] for one in in_sync)

    def append(self, number: int) -> None:
        self.ends[1] += 1
        self.leader.leader_advanced(self.ends[1])

    def fetch(self, number: int) -> None:
        broker = 2 + number % 2
        self.leader.follower_fetched(
            broker, self.ends[broker], leader_log_end_offset=self.ends[1], now_ms=self.now_ms, broker_epoch=9
        )
        self.ends[broker] = self.ends[1]

    def grow(self, number: int) -> None:
        if change := self.leader.expansion(2 + number % 2):
            self.requests.append(change)

    def shrink(self, number: int) -> None:
        if change := self.leader.shrinking(self.now_ms, 150):
            self.requests.append(change)

    def ask_again(self, number: int) -> None:
        if change := self.leader.ask_again():
            self.requests.append(change)

    def retract(self, number: int) -> None:
        if change := self.leader.retraction:
            self.requests.append(change)

    def decide(self, number: int) -> None:
        """The controller takes one of the requests; every other one is lost, as may be the answer."""
        if not self.requests:
            return
        change = self.requests.pop(number % len(self.requests))
        code = ErrorCode.INVALID_UPDATE_VERSION
        if number % 5 == 0:
            code = ErrorCode.INELIGIBLE_REPLICA
        elif change.partition_epoch == self.granted[-1][1]:
            self.granted.append((change.broker_ids, change.partition_epoch + 1))
            code = ErrorCode.NONE
        if number % 3:
            self.answers.append((change, code))

    def hear(self, number: int) -> None:
        if self.answers:
            change, code = self.answers.pop(number % len(self.answers))
            self.leader.isr_change_refused(change, code)

    def see(self, number: int) -> None:
        in_sync, partition_epoch = self.granted[number % len(self.granted)]
        self.leader.isr_changed(in_sync, partition_epoch, 1)


EVENTS = ["append", "fetch", "fetch", "grow", "shrink", "ask_again", "retract", "decide", "hear", "see"]


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 29)), max_size=60))
def test_every_member_of_the_controllers_set_has_all_that_is_committed(events):
    """Over lost requests, copies, lost answers and images that come late: any elected replica has all of it."""
    world = World()
    for event, number in events:
        world.step(event, number)


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 29)), max_size=60))
def test_a_change_that_was_refused_ends_when_the_controller_is_heard_again(events):
    """Also with lost copies: the present set is asked for, and its partition epoch refuses the copies."""
    world = World()
    for event, number in events:
        world.step(event, number)
    world.requests.clear()
    if (change := world.leader.pending) is not None:
        world.leader.ask_again()
        world.leader.isr_change_refused(change, ErrorCode.INELIGIBLE_REPLICA)
    while world.requests or world.leader.retraction is not None:
        if not world.requests:
            world.retract(0)
        world.step("decide", 1)
        world.step("see", len(world.granted) - 1)
    assert world.leader.pending is None


def test_a_leader_that_has_recovered_asks_for_its_set_once():
    """A set that never changes would leave it RECOVERING for ever; the metadata log ends that, and the request with it."""
    state = leader(in_sync=(1,), is_recovering=True, local_broker_epoch=9)
    change = state.recovered()
    assert change == IsrChange((InSyncReplica(1, 9),), 0, grows=False)
    assert state.recovered() is None
    state.isr_changed((1,), 1, 1)
    assert (state.is_recovering, state.pending, state.recovered()) == (False, None, None)


def test_a_leader_that_was_elected_cleanly_has_nothing_to_recover():
    """One whose change of the set is under way does not ask for two at once: that one says it as well."""
    assert leader(in_sync=(1,)).recovered() is None
    state = leader(in_sync=(1,), is_recovering=True)
    state.follower_fetched(2, 0, leader_log_end_offset=0, now_ms=1)
    assert state.expansion(2) is not None
    assert state.recovered() is None
