"""Classic groups under members that join, leave, die, retry and are restarted, while clocks run and brokers restart.

Members behave as Kafka's clients do: each has one request under way, and does what the answer says. The answers to them
must fit together, whatever the order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stratalog.wire.errors import ErrorCode
from stratalog.wire.records.group import decode_key, decode_value

SESSION_MS = 10_000
REBALANCE_MS = 20_000
NAMES = ("a", "b", "c", "d", "e")
LOST_ID = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED}
REJOIN = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.INCONSISTENT_GROUP_PROTOCOL}


@dataclass
class Client:
    """A client process."""

    name: str
    instance_id: str | None
    version: int
    number: int = 0
    """Which process of this name."""
    member_id: str = ""
    generation: int = -1
    protocol: str | None = None
    leads: bool = False
    assignment: bytes | None = None
    waits: str | None = None
    """The token under way."""
    likes: tuple[str, ...] = ("range", "sticky")
    members: list[str] = field(default_factory=list)
    skip: bool = False


class ClassicGroupMachine(RuleBasedStateMachine):
    """One group ``g``; ``world`` is set by the test."""

    world_class: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.world = self.world_class(initial_rebalance_delay_ms=3_000, max_size=4)
        self.world.held = True
        self.clients: dict[str, Client] = {}
        self.tokens = 0
        self.generations: dict[int, tuple[str, str]] = {}
        """Protocol and leader of every generation, as its first member heard of it."""
        self.given: dict[int, dict[str, bytes]] = {}
        """The assignments that leaders handed in."""

    # -- what clients do ------------------------------------------------------------------------------------------

    def token(self, what: str) -> str:
        self.tokens += 1
        return f"{what}-{self.tokens}"

    def send_join(self, client: Client) -> None:
        client.assignment = None
        name = self.token("n")
        self.world.join(
            name,
            client.member_id,
            version=client.version,
            protocols=client.likes,
            group_instance_id=client.instance_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
        )
        client.waits = f"join-{name}"

    def send_sync(self, client: Client) -> None:
        given = None
        if client.leads and not client.skip:
            given = {one: f"{client.generation}/{one}".encode() for one in client.members}
            group = self.world.shard.groups.get("g")
            computing = group is not None and group.state == "CompletingRebalance"
            if computing and (group.generation, group.members.leader_id) == (client.generation, client.member_id):
                self.given[client.generation] = given
        name = self.token("n")
        self.world.sync(name, client.member_id, client.generation, given=given, group_instance_id=client.instance_id)
        client.waits = f"sync-{name}"

    def hear(self) -> None:
        """Clients take the answers that have come."""
        for client in list(self.clients.values()):
            while client.waits is not None and client.waits in self.world.answers:
                answer = self.world.answers[client.waits]
                kind, client.waits = client.waits.split("-")[0], None
                (self.hear_join if kind == "join" else self.hear_sync)(client, answer)

    def hear_join(self, client: Client, answer) -> None:
        code = answer.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            assert client.version >= 4
            assert client.instance_id is None
            client.member_id = answer.member_id
            self.send_join(client)
        elif code in {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED}:
            self.clients.pop(client.name + str(client.number), None)
        elif code:
            assert code in LOST_ID | REJOIN, ErrorCode(code)
            if code in LOST_ID:
                client.member_id = ""
            self.send_join(client)
        else:
            self.hear_generation(client, answer)
            self.send_sync(client)

    def hear_generation(self, client: Client, answer) -> None:
        """All members of a generation get the same answer about it."""
        assert answer.generation_id >= client.generation or not client.member_id or self.restarted
        client.member_id, client.generation = answer.member_id, answer.generation_id
        client.protocol = answer.protocol_name
        assert client.protocol in client.likes
        client.leads = answer.leader == answer.member_id
        client.skip = answer.skip_assignment
        client.members = [one.member_id for one in answer.members]
        assert bool(client.members) == client.leads
        assert answer.member_id in client.members or not client.leads
        known = self.generations.setdefault(answer.generation_id, (answer.protocol_name, answer.leader))
        assert known[0] == answer.protocol_name
        static = {one.member_id for one in self.clients.values() if one.instance_id is not None}
        assert known[1] == answer.leader or answer.leader in static or known[1].startswith("i-")

    def hear_sync(self, client: Client, answer) -> None:
        code = answer.error_code
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.clients.pop(client.name + str(client.number), None)
        elif code:
            assert code in LOST_ID | REJOIN, ErrorCode(code)
            if code in LOST_ID:
                client.member_id, client.generation = "", -1
            self.send_join(client)
        else:
            client.assignment = answer.assignment
            handed = self.given[client.generation]
            if client.member_id in handed:
                assert answer.assignment == handed[client.member_id]
            else:
                assert client.instance_id is not None
                assert answer.assignment in handed.values()

    restarted = False

    # -- rules ----------------------------------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(NAMES),
        static=st.booleans(),
        version=st.sampled_from([3, 9]),
        sticky=st.booleans(),
    )
    def start(self, name, static, version, sticky):
        """A client begins; one with an instance id may take another's place."""
        number = self.tokens
        instance_id = f"i-{name}" if static else None
        likes = ("sticky", "range") if sticky else ("range", "sticky")
        client = Client(name, instance_id, 9 if static else version, number, likes=likes)
        self.clients[name + str(number)] = client
        self.send_join(client)
        self.hear()

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def beat(self, data):
        """A heartbeat of one that has its assignment."""
        self.beat_of(data.draw(st.sampled_from(sorted(self.clients))))
        self.hear()

    def beat_of(self, key):
        client = self.clients[key]
        if client.waits is not None:
            return
        code = self.world.beat(client.member_id, client.generation, client.instance_id)
        if code == ErrorCode.FENCED_INSTANCE_ID:
            del self.clients[key]
        elif code:
            assert code in LOST_ID | REJOIN
            if code in LOST_ID:
                client.member_id, client.generation = "", -1
            self.send_join(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def die(self, data):
        """A client is gone without a word."""
        del self.clients[data.draw(st.sampled_from(sorted(self.clients)))]

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data):
        """A client leaves, whatever it waits for."""
        client = self.clients.pop(data.draw(st.sampled_from(sorted(self.clients))))
        if client.member_id:
            self.world.leave((client.member_id, client.instance_id), token=self.token("leave"))
        self.hear()

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), sticky=st.booleans())
    def resubscribe(self, data, sticky):
        """A client joins again of its own, perhaps with other wishes."""
        client = self.clients[data.draw(st.sampled_from(sorted(self.clients)))]
        if client.waits is None:
            client.likes = ("sticky", "range") if sticky else ("range", "sticky")
            self.send_join(client)
            self.hear()

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def retry(self, data):
        """A client has lost its connection and sends what it waits for again."""
        client = self.clients[data.draw(st.sampled_from(sorted(self.clients)))]
        if client.waits is not None:
            (self.send_join if client.waits.startswith("join") else self.send_sync)(client)
            self.hear()

    @rule(milliseconds=st.sampled_from([1, 100, 1_000, 3_000, 6_000, 11_000, 25_000]))
    def wait(self, milliseconds):
        """Time passes."""
        self.world.advance(milliseconds)
        self.hear()

    @rule()
    def commit(self):
        """The disk is done."""
        self.world.commit()
        self.hear()

    @rule()
    def restart(self):
        """The broker is restarted: requests that waited fail, what was not committed is lost."""
        lost = [client for client in self.clients.values() if client.waits is not None]
        self.restarted = True
        self.world.restart()
        self.generations.clear()
        for client in lost:
            self.send_join(client)
        self.hear()

    # -- what holds -----------------------------------------------------------------------------------------------

    @invariant()
    def the_group_fits_together(self):
        """A leader that is a member, counts that are right, no request parked without a way out."""
        group = self.world.shard.groups.get("g")
        if group is None:
            return
        members = group.members
        assert (members.leader_id in members.by_id) if members.by_id else members.leader_id is None
        assert members.joined == sum(one.join_token is not None for one in members.by_id.values())
        assert members.held_bytes == sum(one.held_bytes for one in members.by_id.values())
        assert members.static_ids == {
            one.instance_id: one.member_id for one in members.by_id.values() if one.instance_id is not None
        }
        assert group.pending_sync <= members.by_id.keys()
        assert (group.state == "Empty") == (not members.by_id) or group.state == "PreparingRebalance"
        if group.parked():
            assert self.world.shard.deadline() is not None
            waits = group.state in {"PreparingRebalance", "CompletingRebalance"}
            assert waits
        for member in members.by_id.values():
            assert member.sync_token is None or group.state == "CompletingRebalance"
            assert member.join_token is None or group.state == "PreparingRebalance"

    @invariant()
    def what_is_stable_is_in_the_log(self):
        """When everything is committed, the last record is the group."""
        group = self.world.shard.groups.get("g")
        if group is None or self.world._writes or group.state != "Stable":
            return
        key, value = self.world.log[-1]
        record = decode_value(decode_key(key), value)
        assert record.generation == group.generation
        assert [one.member_id for one in record.members] == list(group.members.by_id)
        assert [one.assignment for one in record.members] == [one.assignment for one in group.members.by_id.values()]

    def teardown(self):
        """Left alone, the living come to a stable group of one generation, and no member waits for ever."""
        self.world.held = False
        self.world.commit()
        self.hear()
        for _ in range(80):
            self.world.advance(1_000)
            self.hear()
            for key in sorted(self.clients):
                if key in self.clients:
                    self.beat_of(key)
            self.hear()
        assert all(client.waits is None for client in self.clients.values())
        group = self.world.shard.groups.get("g")
        assert {client.member_id for client in self.clients.values()} == (set(group.members.by_id) if group else set())
        assert group is None or group.parked() == []
        if self.clients:
            assert group.state == "Stable"
            assert {client.generation for client in self.clients.values()} == {group.generation}
            assert {client.protocol for client in self.clients.values()} <= {group.protocol_name}
            assert sum(client.leads for client in self.clients.values()) <= 1


def test_groups_hold_together(classic_world):
    """Random lives of up to many clients of one group."""
    ClassicGroupMachine.world_class = classic_world

    class Bound(ClassicGroupMachine):
        """The machine with its world."""

    run = Bound.TestCase
    run.settings = settings(stateful_step_count=40, suppress_health_check=list(HealthCheck))
    run().runTest()
