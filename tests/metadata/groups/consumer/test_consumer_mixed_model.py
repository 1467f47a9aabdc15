"""Members of both protocols in one consumer group, while clients are upgraded: still no partition has two owners.

Classic members are of two sorts: cooperative ones keep what they have while they join again and give up what is not in
their next assignment; eager ones give everything up before they join.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from stratalog.metadata.groups.consumer.group import ConsumerGroup
from stratalog.metadata.groups.consumer.state import ConsumerGroupState
from stratalog.wire.errors import ErrorCode, KafkaError

SESSION_MS = 45_000
TOPICS = ("a", "b")
FENCED = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.GROUP_ID_NOT_FOUND,
}


class Modern:
    """A client of the consumer protocol; it gives up the partitions of an answer with its next heartbeat."""

    def __init__(self, world, number, _eager) -> None:
        self.world = world
        self.member_id = f"new-{number}"
        self.alive = True
        self.heard_ms = 0
        self.fenced()

    def fenced(self):
        """It has nothing and must join again."""
        self.epoch, self.owned, self.told = 0, set(), set()

    def act(self, *, lose):
        """A heartbeat."""
        self.owned &= self.told
        owned = {name: [number for topic, number in self.owned if topic == name] for name, _ in self.owned}
        fields = {"rebalance_timeout_ms": 20_000, "subscribed_topic_names": list(TOPICS)}
        answer = self.world.beat(self.member_id, self.epoch, owned=owned, **fields)
        self.heard_ms = self.world.now.monotonic_ms
        if lose:
            return
        self.epoch = answer.member_epoch
        given = self.world.given(answer)
        self.told = {(name, number) for name, numbers in given.items() for number in numbers}
        self.owned |= self.told

    def leave(self):
        """Say goodbye."""
        self.world.beat(self.member_id, -1)


class Classic:
    """A client of the classic protocol."""

    def __init__(self, world, _number, eager) -> None:
        self.world = world
        self.eager = eager
        self.alive = True
        self.heard_ms = 0
        self.fenced()

    def fenced(self):
        """It has no partition and must join again under another id."""
        self.member_id, self.generation, self.owned = "", -1, set()

    def act(self, *, lose):
        """A heartbeat, or a whole rebalance of its own if an answer asks for it."""
        if self.member_id and self.generation >= 0:
            code = self.world.classic_beat(self.member_id, self.generation)
            if not code:
                self.heard_ms = self.world.now.monotonic_ms
                return
            if code != ErrorCode.REBALANCE_IN_PROGRESS:
                raise KafkaError(ErrorCode(code))
        if self.eager:
            self.owned = set()
        owned = {name: [number for topic, number in self.owned if topic == name] for name, _ in self.owned}
        answer = self.world.classic_join(
            self.member_id, *TOPICS, owned=owned, version=3, rebalance_timeout_ms=20_000, session_timeout_ms=SESSION_MS
        )
        self.member_id = answer.member_id
        self.heard_ms = self.world.now.monotonic_ms
        if lose:
            return
        self.generation = answer.generation_id
        synced = self.world.classic_sync(self.member_id, self.generation)
        given = self.world.read_assignment(synced.assignment)
        self.owned = {(name, number) for name, numbers in given.items() for number in numbers}

    def leave(self):
        """Say goodbye."""
        self.world.classic_leave((self.member_id, None))


class MixedGroupMachine(RuleBasedStateMachine):
    """The group ``g``, which does not go back to a classic one, and its clients."""

    world_class = None

    def __init__(self) -> None:
        super().__init__()
        self.world = self.world_class(
            {"a": 4, "b": 3}, consumer_assignment_interval_ms=500, consumer_migration_policy="upgrade"
        )
        self.clients = []
        self.number = 0

    def _living(self, kind=object):
        return [client for client in self.clients if client.alive and isinstance(client, kind)]

    @property
    def _has_members(self):
        group = self.world.shard.groups.get("g")
        return group is not None and bool(group.facts.members)

    def _act(self, client, *, lose=False):
        if isinstance(client, Classic) and not self._has_members:
            client.fenced()  # such a group would be a classic one
            return
        try:
            client.act(lose=lose)
        except KafkaError as error:
            if error.code is not ErrorCode.REBALANCE_IN_PROGRESS:
                assert error.code in FENCED, error
                client.fenced()

    def _add(self, kind, *, eager=False):
        self.number += 1
        self.clients.append(kind(self.world, self.number, eager))
        self._act(self.clients[-1])

    @precondition(lambda self: len(self._living(Modern)) < 3)
    @rule()
    def modern_joins(self):
        self._add(Modern)

    @precondition(lambda self: self._has_members and len(self._living(Classic)) < 3)
    @rule(eager=st.booleans())
    def classic_joins(self, eager):
        self._add(Classic, eager=eager)

    @precondition(lambda self: self._living())
    @rule(data=st.data(), lose=st.booleans())
    def heartbeat(self, data, lose):
        self._act(data.draw(st.sampled_from(self._living())), lose=lose)

    @rule()
    def all_heartbeat(self):
        for client in self._living():
            self._act(client)

    @precondition(lambda self: self._living())
    @rule(data=st.data(), quietly=st.booleans())
    def ends(self, data, quietly):
        client = data.draw(st.sampled_from(self._living()))
        client.alive = False
        if not quietly:
            client.owned = set()
            try:
                client.leave()
            except KafkaError as error:
                assert error.code in FENCED

    @rule(milliseconds=st.sampled_from([100, 1_000, 12_000, 30_000]))
    def time_passes(self, milliseconds):
        self.world.advance(milliseconds)
        self._drop_expired()

    def _drop_expired(self):
        group = self.world.shard.groups.get("g")
        members = group.facts.members if group is not None else {}
        for client in self.clients:
            silent_ms = self.world.now.monotonic_ms - client.heard_ms
            if silent_ms >= SESSION_MS or client.member_id not in members:
                client.fenced()

    @rule(name=st.sampled_from(TOPICS), count=st.integers(1, 6))
    def topic_grows(self, name, count):
        self.world.grow(name, count)

    @rule()
    def fail_over(self):
        """Sessions begin anew."""
        self.world.reload()

    @invariant()
    def bytes_are_counted(self):
        """The bytes kept for the group are those of its members."""
        group = self.world.shard.groups.get("g")
        if group is not None:
            held = [group.bytes_held_of(member_id, None) for member_id in self._member_ids(group)]
            assert group.held_bytes == sum(held)

    @staticmethod
    def _member_ids(group):
        return list(group.facts.members if isinstance(group, ConsumerGroup) else group.members.by_id)

    @invariant()
    def one_owner(self):
        """No partition is owned by two members."""
        owners = {}
        for client in self.clients:
            for partition in client.owned:
                assert owners.setdefault(partition, client) is client, (partition, vars(client))

    def teardown(self):
        """Left alone, the group settles, and everything is owned."""
        for _ in range(40):
            self.world.advance(2_500)
            self._drop_expired()
            for client in self._living():
                self._act(client)
            self.one_owner()
        if not self._has_members:
            return
        assert self.world.facts.state is ConsumerGroupState.STABLE
        topics = self.world.image.topics.by_name
        wanted = {(name, number) for name in TOPICS for number in topics[name].partitions}
        assert set().union(*(client.owned for client in self._living())) == wanted


def test_mixed_group(group_world):
    """The machine, in some random lives."""
    machine = type("Machine", (MixedGroupMachine,), {"world_class": group_world})
    run_state_machine_as_test(machine, settings=settings(max_examples=20, stateful_step_count=25, deadline=None))
