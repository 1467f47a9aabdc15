"""The shorter way of heartbeats that repeat themselves: nothing but the time it takes tells which way one went."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.metadata.groups.shard.repeated_heartbeats import repeated_classic_heartbeat, repeated_consumer_heartbeat
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from stratalog.wire.messages.heartbeat import HeartbeatRequest

MEMBERS = ("a", "b", "c")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["join", "leave", "beat", "beat", "beat", "acknowledge", "static"]), st.sampled_from(MEMBERS)),
        st.tuples(st.sampled_from(["advance"]), st.sampled_from([1, 900, 20_000, 44_999, 45_000])),
        st.tuples(st.sampled_from(["reload", "create", "grow", "configure", "interval"]), st.just("")),
    ),
    max_size=40,
)  # fmt: skip


class Member:
    """One consumer's knowledge."""

    def __init__(self):
        self.epoch = 0
        self.owned = {}
        self.repeated = None


class Consumers:
    """A group, and members that take the shorter way if they may."""

    def __init__(self, world, *, shorter):
        self.world = world
        self.world.create("t1", 3)
        self.shorter = shorter
        self.members = {name: Member() for name in MEMBERS}
        self.short_ways = 0
        self.topics = 1
        self.seen = []

    def tell(self, name, **fields):
        """A heartbeat by the long way, or one that cannot be repeated."""
        member = self.members[name]
        try:
            answer = self.world.beat(name, member.epoch, **fields)
        except KafkaError as error:
            self.seen.append((name, error.code))
            member.epoch = 0
            return
        self.took(name, answer)

    def took(self, name, answer):
        member = self.members[name]
        self.seen.append((name, answer))
        member.epoch = max(answer.member_epoch, 0)
        if answer.assignment is not None:
            member.owned = self.world.given(answer)

    def do(self, step, what):
        """One step."""
        getattr(self, step)(*([what] if what else []))
        self.seen.append((self.world.shard.deadline() is None, [*self.world.log]))

    def join(self, name, **fields):
        self.members[name].epoch = 0
        self.tell(name, owned={}, rebalance_timeout_ms=60_000, subscribed_topic_names=["t1", "t2"], **fields)

    def static(self, name):
        self.join(name, instance_id=f"i-{name}")

    def acknowledge(self, name):
        self.tell(name, owned=self.members[name].owned)

    def leave(self, name):
        self.members[name].epoch = -1
        self.tell(name)

    def advance(self, milliseconds):
        self.world.advance(milliseconds)

    def reload(self):
        self.world.reload()

    def create(self):
        self.topics += 1
        self.world.create(f"t{self.topics}", 2)

    def grow(self):
        self.world.grow("t1", len(self.world.image.topics.by_name["t1"].partitions) + 1)

    def configure(self):
        self.world.configure("g", consumer_heartbeat_interval_ms=str(5_000 + len(self.seen)))

    def interval(self):
        self.world.set(consumer_session_timeout_ms=self.world.settings.consumer_session_timeout_ms + 1)

    def beat(self, name):
        """The bare heartbeat of an epoch."""
        world, member = self.world, self.members[name]
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=name, member_epoch=member.epoch)
        known = member.repeated
        may = self.shorter and known is not None and known[0] == member.epoch and known[1] is world.shard
        if may and known[2].beat(world.now):
            self.short_ways += 1
            self.took(name, known[2].answer)
            return
        self.tell(name)
        found = repeated_consumer_heartbeat(world.shard, request, "client", "/10.0.0.1", world.now)
        member.repeated = None if found is None else (request.member_epoch, world.shard, found)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the fixture is a class
@given(STEPS)
def test_both_ways_lead_to_the_same(group_world, steps):
    """Answers, records and whether anything is waited for, whatever else happens to the group."""
    short, long = (Consumers(group_world(), shorter=shorter) for shorter in (True, False))
    for step in steps:
        for consumers in (short, long):
            consumers.do(*step)
    assert short.seen == long.seen
    for consumers in (short, long):
        consumers.world.advance(10**6)  # a silent member is fenced, at the same moment in both
    assert short.world.log == long.world.log


def steady(group_world):
    """A group with one member, and its next heartbeat."""
    consumers = Consumers(group_world(), shorter=True)
    consumers.do("join", "a")
    consumers.do("beat", "a")
    return consumers


def test_a_session_goes_on(group_world):
    """It ends its time-out after the last heartbeat, whichever way that went."""
    consumers = steady(group_world)
    for _ in range(5):
        consumers.do("advance", 40_000)
        consumers.do("beat", "a")
    assert consumers.short_ways == 5
    assert "a" in consumers.world.facts.members
    consumers.do("advance", 45_000)
    assert "a" not in consumers.world.facts.members


@pytest.mark.parametrize("change", ["join b", "grow", "configure", "reload", "leave a"])
def test_news_go_the_long_way(change, group_world):
    """Changes of the answer, or of the member."""
    consumers = steady(group_world)
    step, _, who = change.partition(" ")
    consumers.do(step, who)
    before = consumers.short_ways
    consumers.do("beat", "a")
    assert consumers.short_ways == before


def test_a_changed_heartbeat_is_not_remembered(group_world):
    """Neither is a stranger's, nor one from elsewhere."""
    world = steady(group_world).world
    ours = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=1)
    assert repeated_consumer_heartbeat(world.shard, ours, "client", "/10.0.0.1", world.now) is not None
    assert repeated_consumer_heartbeat(world.shard, ours, "other", "/10.0.0.1", world.now) is None
    assert repeated_consumer_heartbeat(world.shard, ours, "client", "/10.0.0.2", world.now) is None
    for fields in ({"member_id": "x"}, {"group_id": "x"}, {"member_epoch": 0}, {"subscribed_topic_names": ["t9"]}):
        values = {"group_id": "g", "member_id": "a", "member_epoch": 1, **fields}
        request = ConsumerGroupHeartbeatRequest(**values)
        assert repeated_consumer_heartbeat(world.shard, request, "client", "/10.0.0.1", world.now) is None


def test_classic_members_repeat_themselves_until_they_hear_of_a_rebalance(classic_world):
    """Every error, and every piece of news, goes the long way."""
    world = classic_world()
    generation = world.stable("a")
    member = "client-a"
    request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member)
    repeated = repeated_classic_heartbeat(world.shard, request)
    assert repeated.beat(world.now)
    assert repeated.answer.error_code == 0
    world.take(world.group.prepare_rebalance(world.now))
    assert not repeated.beat(world.now)
    other = HeartbeatRequest(group_id="g", generation_id=generation + 1, member_id=member)
    assert not repeated_classic_heartbeat(world.shard, other).beat(world.now)
    assert (
        repeated_classic_heartbeat(world.shard, HeartbeatRequest(group_id="x", generation_id=1, member_id="")) is None
    )
