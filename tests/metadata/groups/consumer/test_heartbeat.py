"""Heartbeats of the consumer protocol, request by request."""

import pytest

from stratalog.metadata.groups.consumer.member import MemberState
from stratalog.metadata.groups.topic_patterns import TopicPatterns
from stratalog.wire.errors import ErrorCode, KafkaError


def _refused(code, call, *arguments, **fields):
    with pytest.raises(KafkaError) as caught:
        call(*arguments, **fields)
    assert caught.value.code is code
    return caught.value.message


@pytest.fixture
def world(group_world):
    """Two topics, four and two partitions."""
    return group_world({"a": 4, "b": 2})


@pytest.fixture
def pair(world):
    """Two stable members that share ``a``."""
    world.join("x", "a")
    world.join("y", "a")
    world.beat("x", 1)
    world.beat("x", 1, owned={"a": [0, 1]})
    world.beat("y", 2)
    assert world.facts.state.value == "Stable"
    return world


def test_first_member_has_everything(world):
    """The first one is given all partitions at once, in epoch 1."""
    assert world.join("x", "a", "b") == {"a": {0, 1, 2, 3}, "b": {0, 1}}
    assert (world.answer.member_id, world.answer.member_epoch, world.answer.heartbeat_interval_ms) == ("x", 1, 5_000)
    assert world.facts.state.value == "Stable"


def test_member_id_is_made(world):
    """In version 0 a member without an id is given one."""
    answer = world.beat("", 0, owned={}, version=0, rebalance_timeout_ms=1, subscribed_topic_names=["a"])
    assert answer.member_id == "id-1"


def test_a_partition_changes_hands(world):
    """The second member waits until the first one says that it has given partitions up."""
    world.join("x", "a")
    assert world.join("y", "a") == {}
    assert world.answer.member_epoch == 2
    told = world.beat("x", 1)
    assert (told.member_epoch, world.given(told)) == (1, {"a": {0, 1}})
    assert world.member("x").state is MemberState.UNREVOKED_PARTITIONS
    assert world.given(world.beat("y", 2)) is None
    assert world.member("y").state is MemberState.UNRELEASED_PARTITIONS
    assert world.beat("x", 1, owned={"a": [0, 1, 2]}).member_epoch == 1
    assert world.beat("x", 1, owned={"a": [0, 1]}).member_epoch == 2
    assert world.given(world.beat("y", 2)) == {"a": {2, 3}}
    assert world.facts.state.value == "Stable"


def test_a_heartbeat_of_a_stable_group_has_a_short_answer(pair):
    """It writes no record, and the answer has no assignment."""
    before = len(pair.log)
    answer = pair.beat("x", 2)
    assert (answer.member_epoch, answer.assignment) == (2, None)
    assert len(pair.log) == before


def test_full_request_gets_the_full_assignment(pair):
    """A member that lost an answer says everything again, and gets its assignment."""
    answer = pair.beat("x", 2, owned={"a": [0, 1]}, rebalance_timeout_ms=60_000, subscribed_topic_names=["a"])
    assert pair.given(answer) == {"a": {0, 1}}


def test_epoch_ahead_or_behind_is_fenced(pair):
    """Another epoch than the member's own is FENCED_MEMBER_EPOCH."""
    assert "greater member epoch (3)" in _refused(ErrorCode.FENCED_MEMBER_EPOCH, pair.beat, "x", 3)
    assert "smaller member epoch (1)" in _refused(ErrorCode.FENCED_MEMBER_EPOCH, pair.beat, "x", 1)


def test_previous_epoch_after_a_lost_answer(pair):
    """The epoch before is taken from a member that owns nothing beyond its assignment: the answer may be lost."""
    world = pair
    world.grow("a", 6)
    world.beat("x", 2)
    assert world.member("x").epoch == 3
    answer = world.beat("x", 2, owned={"a": [0, 1]})
    assert answer.member_epoch == 3
    _refused(ErrorCode.FENCED_MEMBER_EPOCH, world.beat, "x", 2, owned={"a": [0, 3]})
    _refused(ErrorCode.FENCED_MEMBER_EPOCH, world.beat, "x", 2)


def test_an_unknown_member_may_only_join(pair):
    """Only who joins may be unknown; so it is for a group that is not there."""
    _refused(ErrorCode.UNKNOWN_MEMBER_ID, pair.beat, "z", 1)
    _refused(ErrorCode.UNKNOWN_MEMBER_ID, pair.beat, "z", -1)
    _refused(ErrorCode.GROUP_ID_NOT_FOUND, pair.beat, "z", 1, group_id="other")


def test_rejoin_with_the_same_id(pair):
    """A fenced member that comes back as itself owns nothing, and gets its assignment."""
    assert pair.join("x", "a") == {"a": {0, 1}}
    assert pair.facts.state.value == "Stable"


def test_a_leaving_member_is_answered_minus_1(pair):
    """A member that leaves is answered its -1; the rest is assigned with the next heartbeat of another."""
    answer = pair.beat("x", -1)
    assert (answer.member_id, answer.member_epoch) == ("x", -1)
    assert pair.facts.state.value == "Assigning"
    assert pair.given(pair.beat("y", 2)) == {"a": {0, 1, 2, 3}}


def test_last_one_leaves(world):
    """A group without members is empty; it may be deleted, and joined again with its epochs going on."""
    world.join("x", "a")
    world.beat("x", -1)
    assert world.facts.state.value == "Empty"
    world.group.check_delete()
    world.join("y", "a")
    assert world.answer.member_epoch == 3


def test_static_member_returns(pair):
    """A static member that leaves with -2 keeps its partitions for the
    process that takes its place: no partition moves.
    """
    world = pair
    world.join("s", "b", instance_id="i")
    for member_id in "xy":
        world.beat(member_id, 2)
    assert world.given(world.beat("s", 3, owned={}, rebalance_timeout_ms=1, subscribed_topic_names=["b"])) == {
        "b": {0, 1}
    }
    assert world.beat("s", -2, instance_id="i").member_epoch == -2
    epoch = world.facts.epoch
    assert world.join("s2", "b", instance_id="i") == {"b": {0, 1}}
    assert world.answer.member_epoch == epoch == world.facts.epoch
    assert "s" not in world.facts.members
    _refused(ErrorCode.FENCED_INSTANCE_ID, world.beat, "s", epoch, instance_id="i")


def test_static_instance_in_use(world):
    """A second process with the same instance id is refused while the first one is there."""
    world.join("s", "a", instance_id="i")
    message = _refused(ErrorCode.UNRELEASED_INSTANCE_ID, world.join, "s2", "a", instance_id="i")
    assert "owned by s member" in message
    world.beat("s", 1, instance_id="i")


def test_an_instance_that_never_joined_is_an_unknown_member(world):
    """An instance that never joined is UNKNOWN_MEMBER_ID."""
    world.join("x", "a")
    _refused(ErrorCode.UNKNOWN_MEMBER_ID, world.beat, "x", 1, instance_id="i")
    _refused(ErrorCode.UNKNOWN_MEMBER_ID, world.beat, "x", -2, instance_id="i")


def test_static_member_stays_away(pair):
    """If no process takes the place of a static member within its session, its partitions go to others."""
    pair.join("s", "b", instance_id="i")
    for member_id in "xy":
        pair.beat(member_id, 2)
    pair.beat("s", -2, instance_id="i")
    for _ in range(3):
        pair.advance(15_000)
        for member_id in "xy":
            pair.beat(member_id, pair.member(member_id).epoch)
    assert set(pair.facts.members) == {"x", "y"}
    assert pair.facts.epoch == pair.facts.target_epoch == 4


def test_static_member_returns_with_another_assignor(world):
    """When a restarted member asks for another assignor, the group is assigned anew by it."""
    world.join("s", "a", instance_id="i", server_assignor="uniform")
    world.join("t", "a", instance_id="j")
    world.beat("s", 1, owned={"a": [0, 1]}, instance_id="i")
    world.beat("s", -2, instance_id="i")
    world.join("s2", "a", instance_id="i", server_assignor="range")
    assert world.facts.epoch == world.facts.target_epoch == 3


def test_group_is_full(group_world):
    """One more than the group may have is GROUP_MAX_SIZE_REACHED; those who are in stay."""
    world = group_world({"a": 1}, consumer_max_size=1)
    world.join("x", "a")
    assert "maximum capacity of 1 members" in _refused(ErrorCode.GROUP_MAX_SIZE_REACHED, world.join, "y", "a")
    world.beat("x", 1)


def test_an_expression_subscribes_to_later_topics_too(world):
    """A subscription by expression has every topic whose whole name matches, now and later."""
    world.create("ab", 1)
    assert world.join("x", pattern="a.?") == {"a": {0, 1, 2, 3}, "ab": {0}}
    world.create("ac", 1)
    world.create("xac", 1)
    world.advance(10_000)
    assert world.beat("x", 1).assignment is None
    world.advance(1)
    assert world.given(world.beat("x", 1)) == {"a": {0, 1, 2, 3}, "ab": {0}, "ac": {0}}


class Later:
    """Tells what matches only when ``known`` says so; remembers that it was asked."""

    def __init__(self):
        self.known, self.asked, self._patterns = False, 0, TopicPatterns()

    def check(self, pattern):
        """As ever."""
        self._patterns.check(pattern)

    def matching(self, pattern, topics):
        """None until it is known."""
        self.asked += 1
        return self._patterns.matching(pattern, topics) if self.known else None


def test_a_group_goes_on_with_what_it_knows_until_it_is_known_what_matches(world):
    """A new member gets nothing at first; later changes wait, and are found by the next heartbeat that can tell."""
    world.shard.patterns = later = Later()
    assert world.join("x", pattern="a.?") == {}
    assert world.facts.patterns == {}
    world.advance(10_001)
    later.known = True
    assert world.given(world.beat("x", 1)) == {"a": {0, 1, 2, 3}}
    later.known = False
    world.create("ab", 1)
    for _ in range(3):
        world.advance(10_001)
        asked = later.asked
        assert world.beat("x", 2).assignment is None
        assert later.asked > asked
    assert set(world.facts.patterns["a.?"].topics) == {"a"}
    later.known = True
    world.advance(10_001)
    assert world.given(world.beat("x", 2)) == {"a": {0, 1, 2, 3}, "ab": {0}}


def test_an_unreadable_expression_leaves_the_group_as_it_was(world):
    """An expression that cannot be read is INVALID_REGULAR_EXPRESSION; the group is as it was."""
    assert "missing )" in _refused(ErrorCode.INVALID_REGULAR_EXPRESSION, world.join, "x", pattern="a(")
    assert "g" not in world.shard.groups
    world.join("y", "a")
    _refused(ErrorCode.INVALID_REGULAR_EXPRESSION, world.beat, "y", 1, subscribed_topic_regex="[")
    assert world.member("y").topic_pattern == ""


def test_pattern_does_not_find_what_the_caller_may_not_see(world):
    """Topics that the member may not know of are left out; it costs no record as long as topics stay."""
    world.may_see = "b".__ne__
    assert world.join("x", pattern="a|b") == {"a": {0, 1, 2, 3}}
    world.advance(10_001)
    world.beat("x", 1)
    before = len(world.log)
    world.advance(10_001)
    world.beat("x", 1)
    assert len(world.log) == before


def test_member_id_too_long(world):
    """A member id that no record can hold is refused; the group is as it was."""
    world.join("x", "a", instance_id="i")
    world.beat("x", -2, instance_id="i")
    _refused(ErrorCode.INVALID_REQUEST, world.join, "y" * 40_000, "a", instance_id="i")
    assert set(world.facts.members) == {"x"}
    world.join("z" * 32_767, "a", instance_id="i")


def test_instance_id_too_long(world):
    """The group may become a classic one, whose record holds less: that would fail when a session ends."""
    _refused(ErrorCode.INVALID_REQUEST, world.join, "x", "a", instance_id="i" * 32_768)
    assert world.shard.groups == {}


def test_subscription_too_large(world):
    """A change that one append to the coordinator's log could not hold is not begun."""
    world.join("x", "a")
    written = len(world.log)
    huge = ["é" * (1 << 20) + str(number) for number in range(40)]
    assert "83886" in _refused(ErrorCode.INVALID_REQUEST, world.join, "y", *huge)
    assert (list(world.facts.members), len(world.log)) == (["x"], written)


def test_pattern_without_subscribers(world):
    """The last member that gives an expression up takes its record with it."""
    world.join("x", pattern="a")
    assert set(world.facts.patterns) == {"a"}
    told = world.beat("x", 1, subscribed_topic_names=["b"], subscribed_topic_regex="")
    assert world.given(told) == {}
    assert world.facts.patterns == {}
    assert world.given(world.beat("x", 1, owned={})) == {"b": {0, 1}}


def test_unsubscribed_topic_is_taken_away_at_once(group_world):
    """Even while a new assignment has to wait, a member does not keep what it no longer subscribes to."""
    world = group_world({"a": 2, "b": 2}, consumer_assignment_interval_ms=1_000)
    world.join("x", "a", "b")
    told = world.beat("x", 1, subscribed_topic_names=["b"])
    assert world.given(told) == {"b": {0, 1}}
    assert world.facts.target_epoch == 1
    assert world.facts.epoch == 2


def test_assignments_are_not_made_more_often_than_the_interval(group_world):
    """Those who join within the interval have nothing until a heartbeat after it; the first one never waits."""
    world = group_world({"a": 4}, consumer_assignment_interval_ms=1_000)
    assert world.join("x", "a") == {"a": {0, 1, 2, 3}}
    assert world.join("y", "a") == {}
    assert world.answer.member_epoch == 1
    world.advance(999)
    assert world.given(world.beat("x", 1)) is None
    world.advance(1)
    assert world.given(world.beat("x", 1)) == {"a": {0, 1}}


def test_topic_grows_and_goes(world):
    """Partitions that are added are assigned with the next heartbeat; a deleted topic is taken away."""
    world.join("x", "a", "b")
    world.grow("b", 3)
    assert world.given(world.beat("x", 1)) == {"a": {0, 1, 2, 3}, "b": {0, 1, 2}}
    world.delete("b")
    assert world.given(world.beat("x", 2)) == {"a": {0, 1, 2, 3}}
    world.create("b", 1)
    world.beat("x", 2, owned={"a": [0, 1, 2, 3]})
    assert world.member("x").assigned.keys() == {world.id("a"), world.id("b")}


def test_topic_that_appears(world):
    """A topic that is subscribed to before it exists is assigned once it does."""
    assert world.join("x", "later") == {}
    world.create("later", 2)
    assert world.given(world.beat("x", 1)) == {"later": {0, 1}}
    assert world.facts.epoch == 2


def test_other_changes_of_topics_are_no_rebalance(world):
    """A topic without subscribers changes nothing."""
    world.join("x", "a")
    world.create("other", 3)
    before = len(world.log)
    world.beat("x", 1)
    assert len(world.log) == before


def test_the_assignor_with_most_votes_is_taken(world):
    """The assignor that most members ask for is taken."""
    world.join("x", "a", server_assignor="range")
    assert world.describe().assignor_name == "range"
    for member_id in "yz":
        world.join(member_id, "a", server_assignor="uniform")
    assert world.describe().assignor_name == "uniform"


def test_failed_join_leaves_no_group(group_world):
    """A group without a successful join does not exist."""
    world = group_world({"a": 1}, consumer_max_size=0)
    _refused(ErrorCode.GROUP_MAX_SIZE_REACHED, world.join, "x", "a")
    assert not world.shard.groups
    assert not world.log
