"""One simulated node: the shipped machine, a driver that carries out its actions, and a disk that outlives both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from sim.raft.disk import Disk, decoded
from sim.raft.invariants import Violation
from sim.raft.surroundings import Surroundings
from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.core import Identity
from stratalog.metadata.raft.events import (
    Answered,
    CleanLog,
    Event,
    Failed,
    Flushed,
    Received,
    SnapshotDue,
    SnapshotLoaded,
    SnapshotWritten,
    Tick,
)
from stratalog.metadata.raft.messages import (
    Answer,
    ApiVersionsAnswer,
    ApiVersionsRequest,
    FetchAnswer,
    FetchSnapshotAnswer,
    Request,
)
from stratalog.metadata.raft.raft import Raft
from stratalog.metadata.raft.voter_set import Endpoint, Endpoints, ReplicaKey
from stratalog.wire.errors import ErrorCode, Invalid

__all__ = ["Asker", "Node", "endpoints_of"]

_REQUEST_TIMEOUT_MS: Final = 2000
_BATCHES_MAX: Final = 3
_BATCHES_OF_A_CALM_MAX: Final = 60
"""More than come in while a follower syncs: without faults every node catches up."""
_CHUNK_MIN: Final = 60
_SLOW: Final = 50
_SLOWEST_MS: Final = 8000


def endpoints_of(node_id: int, moves: int = 0) -> Endpoints:
    """Where a node listens after it has moved so often."""
    return (Endpoint("CONTROLLER", f"node{node_id}", 9093 + moves),)


class Asker(Struct, frozen=True):
    """Where an answer goes: a request of one life of a node."""

    node: int
    life: int
    number: int
    request: Request


class Node:
    """A node by its id. ``raft`` is None while its process is down."""

    def __init__(self, world: Surroundings, node_id: int, disk: Disk, *, is_controller: bool) -> None:
        self.world = world
        self.id = node_id
        self.is_controller = is_controller
        self.disk = disk
        self.key = ReplicaKey(node_id, disk.directory_id)
        """The id and the directory of now."""
        self.moves = 0
        """How often it was started with another address."""
        self.raft: Raft | None = None
        self.life = 0
        self.paused_until_ms = 0
        self.clock_ahead_ms = 0
        """How far its clock has jumped ahead, as after a machine was suspended: all its times are over at once."""
        self.slow_until_ms = 0
        """Until when its disk takes very long."""
        self.active_epoch: int | None = None
        self.waiting: dict[int, tuple[int, Request]] = {}
        self.admin: dict[Any, Callable[[Answer], None]] = {}
        self._numbers = 0
        self._chunks = b""
        self._truncations = 0
        """In this life; a sync that began before one says nothing of what came after it."""
        self._tick_ms = 0

    @property
    def now_ms(self) -> int:
        """The time by its own clock, which never goes back."""
        return self.world.now_ms + self.clock_ahead_ms

    @property
    def endpoints(self) -> Endpoints:
        """Where it listens now."""
        return endpoints_of(self.id, self.moves)

    def get_disk(self, disk: Disk) -> None:
        """Put another disk in."""
        self.disk, self.key = disk, ReplicaKey(self.id, disk.directory_id)

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin a process on the disk as it is."""
        self.life += 1
        self.waiting, self.admin, self.active_epoch, self._chunks = {}, {}, None, b""
        self._truncations = self._tick_ms = 0
        identity = Identity(
            self.key,
            self.endpoints,
            "cluster",
            can_become_voter=self.is_controller,
            auto_join=self.world.plan.auto_join,
        )
        self.raft = Raft(identity, self.disk.view(), self.disk.quorum_state)
        self.world.note(self.id, f"starts with {self.disk.quorum_state} and log end {self.disk.end_offset}")
        self._carry_out(self.raft.start(now_ms=self.now_ms, jitter=self.world.dice.random()))

    def die(self, *, power: bool) -> None:
        """End the process, and with the power also what is not synced."""
        if self.raft is None:
            return
        self.raft = None
        self.life += 1
        self.active_epoch = None
        self.world.invariants.gone(self)
        if power:
            unsynced = [each for each in self.disk.batches if each.end_offset > self.disk.flushed_offset]
            self.disk.lose_power(self.world.dice.randrange(len(unsynced) + 1) if self.world.dice.random() < 0.3 else 0)
        self.world.note(self.id, f"loses power, log end {self.disk.end_offset}" if power else "is killed")

    # -- events --------------------------------------------------------------------------------------------------------

    def later(self, delay_ms: int, event: Event) -> None:
        """Let an event happen to this life later."""
        life = self.life
        self.world.schedule(delay_ms, lambda: self.step(event) if life == self.life else None)

    def step(self, event: Event) -> None:
        """Let an event happen now."""
        if self.raft is None:
            return
        if self.world.now_ms < self.paused_until_ms:
            self.later(self.paused_until_ms - self.world.now_ms, event)
            return
        if not isinstance(event, Tick):
            self.world.note(self.id, "<-", event)
        try:
            actions = self.raft.step(event, now_ms=self.now_ms, jitter=self.world.dice.random())
        except Invalid as error:
            raise Violation(f"node {self.id} cannot take {type(event).__name__}: {error}") from error
        self._carry_out(actions)

    def _carry_out(self, actions: list[act.Action]) -> None:
        """Carry out the actions in their order; now and then the process dies between two of them."""
        world, life = self.world, self.life
        dies_at = world.dice.randrange(len(actions)) if actions and world.dies_between() else -1
        for at, action in enumerate(actions):
            if at == dies_at:
                self.die(power=world.dice.random() < 0.5)
                world.schedule(world.dice.randrange(2000), self.revive)
            if life != self.life:
                break
            world.note(self.id, "->", action)
            world.invariants.before(self, action)
            _DO[type(action)](self, action)
        world.invariants.after_step(self)
        if self.raft is not None and life == self.life:
            self._wait_for(self.raft.deadline_ms)

    def _wait_for(self, deadline_ms: int | None) -> None:
        """Have a tick at the machine's deadline, once. Raises `Violation` for a time that is over: it would tick for ever."""
        now_ms = self.now_ms
        if deadline_ms is not None and deadline_ms <= now_ms:
            raise Violation(f"node {self.id} waits for {deadline_ms} ms, and it is {now_ms}")
        if deadline_ms is not None and not now_ms < self._tick_ms <= deadline_ms:
            self._tick_ms = deadline_ms
            life = self.life
            self.world.schedule(deadline_ms - now_ms, lambda: self._ticked() if life == self.life else None)

    def _ticked(self) -> None:
        """It was a deadline; by now the machine may wait for a later one."""
        assert self.raft is not None
        deadline_ms = self.raft.deadline_ms
        if deadline_ms is None or deadline_ms <= self.now_ms:
            self.step(Tick())
        else:
            self._wait_for(deadline_ms)

    def jump(self, ahead_ms: int) -> None:
        """Let the clock jump ahead. Timers that are due by it fire at once."""
        self.clock_ahead_ms += ahead_ms
        self._tick_ms = 0
        self.step(Tick())

    def sync_ms(self) -> int:
        """How long the next sync of this disk takes."""
        usual = self.world.sync_ms()
        return min(usual * _SLOW, _SLOWEST_MS) if self.world.now_ms < self.slow_until_ms else usual

    def revive(self) -> None:
        """Start, unless it runs."""
        if self.raft is None:
            self.start()

    # -- messages ------------------------------------------------------------------------------------------------------

    def _send(self, action: act.Send) -> None:
        world = self.world
        target = world.any_server(self.id) if action.peer == act.BOOTSTRAP else action.peer
        self._numbers += 1
        number = self._numbers
        self.waiting[number] = (action.peer, action.request)
        asker = Asker(self.id, self.life, number, action.request)
        world.network.carry(self.id, target, lambda: world.nodes[target].receive(asker, action.request))
        life = self.life
        world.schedule(_REQUEST_TIMEOUT_MS, lambda: self._fail(number) if life == self.life else None)

    def _fail(self, number: int, *, refused: bool = False) -> None:
        if number in self.waiting:
            peer, request = self.waiting.pop(number)
            self.step(Failed(peer, request, refused=refused))

    def receive(self, asker: Asker, request: Request) -> None:
        """Take a request off the network. A node that is down refuses the connection."""
        if self.raft is None:
            self.world.network.carry(self.id, asker.node, lambda: self._refuse(asker))
        elif isinstance(request, ApiVersionsRequest):
            self._answer(asker, ApiVersionsAnswer(ErrorCode.NONE, (0, 1)))
        else:
            self.step(Received(asker, request))

    def _refuse(self, asker: Asker) -> None:
        node = self.world.nodes[asker.node]
        if node.life == asker.life:
            node._fail(asker.number, refused=True)

    def _answer(self, asker: Any, answer: Answer) -> None:
        if not isinstance(asker, Asker):
            self.admin.pop(asker, lambda _: None)(answer)
            return
        node = self.world.nodes[asker.node]
        self.world.network.carry(self.id, asker.node, lambda: node._answered(asker, answer))

    def _answered(self, asker: Asker, answer: Answer) -> None:
        if self.life == asker.life and asker.number in self.waiting:
            peer, request = self.waiting.pop(asker.number)
            self.step(Answered(peer, request, answer))

    def ask(self, token: Any, request: Request, answered: Callable[[Answer], None]) -> None:
        """Ask from outside of the quorum."""
        self.admin[token] = answered
        self.step(Received(token, request))

    # -- actions -------------------------------------------------------------------------------------------------------

    def _store(self, action: act.StoreQuorumState) -> None:
        self.disk.quorum_state = action.state

    def _reply(self, action: act.Reply) -> None:
        self._answer(action.token, action.answer)

    def _reply_with_records(self, action: act.ReplyWithRecords) -> None:
        answer = action.answer
        assert isinstance(answer, FetchAnswer)
        most = _BATCHES_MAX if self.world.faulty else _BATCHES_OF_A_CALM_MAX
        count = 1 + self.world.dice.randrange(most)
        batches = self.disk.read(action.offset, action.end_offset, count)
        self._answer(action.token, replace(answer, batches=batches))

    def _reply_with_snapshot(self, action: act.ReplyWithSnapshot) -> None:
        answer = action.answer
        assert isinstance(answer, FetchSnapshotAnswer)
        content = self.disk.snapshots[action.snapshot]
        chunk = max(_CHUNK_MIN, len(content) // 3)
        data = content[action.position : action.position + chunk]
        self._answer(action.token, replace(answer, size=len(content), data=data))

    def _append(self, action: act.Append) -> None:
        self.disk.batches += action.batches

    def _flush(self, action: act.Flush) -> None:
        life = self.life
        self.world.schedule(self.sync_ms(), lambda: self._synced(action) if life == self.life else None)

    def _synced(self, action: act.Flush) -> None:
        if self._truncations == action.truncations:
            self.disk.flushed_offset = max(self.disk.flushed_offset, action.end_offset)
            self.world.invariants.synced(self)
        self.step(Flushed(action.end_offset, action.truncations))

    def _truncate(self, action: act.Truncate) -> None:
        self._truncations += 1
        self.disk.truncate(action.offset)

    def _write_snapshot(self, action: act.WriteSnapshot) -> None:
        assert self.raft is not None
        content = self.disk.snapshot_bytes(action.snapshot, self.raft.log)
        life = self.life

        def done() -> None:
            if life == self.life and action.snapshot.offset > max(self.disk.start_offset, 0):
                self.disk.snapshots[action.snapshot] = content
                self.world.invariants.snapshot_kept(content)
                self.step(SnapshotWritten(action.snapshot))

        self.world.schedule(self.sync_ms(), done)

    def _keep_chunk(self, action: act.WriteSnapshotChunk) -> None:
        self._chunks = self._chunks[: action.position] + action.data

    def _load_snapshot(self, action: act.LoadSnapshot) -> None:
        content, life = self._chunks, self.life

        def done() -> None:
            if life == self.life:
                self._truncations += 1
                self.disk.install(action.snapshot, content)
                self.world.invariants.snapshot_loaded(self, action.snapshot)
                _, voters, level = decoded(content)
                self.step(SnapshotLoaded(action.snapshot, voters, level))

        self.world.schedule(self.sync_ms(), done)

    def _delete_log(self, action: act.DeleteLogBefore) -> None:
        self.disk.clean(action.snapshot)

    def _became_leader(self, action: act.BecameLeader) -> None:
        self.active_epoch = action.epoch

    def _lost_leadership(self, action: act.LostLeadership) -> None:
        if self.active_epoch == action.epoch:
            self.active_epoch = None

    def _stop(self, action: act.Stop) -> None:
        raise Violation(f"node {self.id} stops: {action.reason}")

    def _nothing(self, action: act.Action) -> None:
        """Watched by the invariants only."""

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Write a snapshot of what is committed, or let go of what the newest one has.

        A process that stands still wants neither: the log's end of now may be none when it goes on.
        """
        if self.raft is None or self.world.now_ms < self.paused_until_ms:
            return
        log = self.raft.log
        if log.snapshots and log.snapshots[-1].offset > log.start_offset and self.world.dice.random() < 0.5:
            self.step(CleanLog(log.snapshots[-1]))
        else:
            self.step(SnapshotDue(log.end_offset))


_DO: Final[dict[type, Callable[[Node, Any], None]]] = {
    act.StoreQuorumState: Node._store,
    act.Send: Node._send,
    act.Reply: Node._reply,
    act.ReplyWithRecords: Node._reply_with_records,
    act.ReplyWithSnapshot: Node._reply_with_snapshot,
    act.Append: Node._append,
    act.Flush: Node._flush,
    act.Truncate: Node._truncate,
    act.WriteSnapshot: Node._write_snapshot,
    act.WriteSnapshotChunk: Node._keep_chunk,
    act.LoadSnapshot: Node._load_snapshot,
    act.DeleteLogBefore: Node._delete_log,
    act.Committed: Node._nothing,
    act.BecameLeader: Node._became_leader,
    act.LostLeadership: Node._lost_leadership,
    act.Accepted: Node._nothing,
    act.Refused: Node._nothing,
    act.ShutDown: Node._nothing,
    act.Stop: Node._stop,
}
