"""One run: nodes, network, faults and clients drawn from a seed, on virtual time, with every promise checked."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Final
from zlib import crc32

from msgspec import Struct, field

from sim.raft.disk import Disk
from sim.raft.faults import Faults
from sim.raft.invariants import Invariants, Violation
from sim.raft.network import Network
from sim.raft.node import Node, endpoints_of
from sim.raft.plan import Plan
from sim.trace import Trace
from stratalog.metadata.raft.events import Proposed
from stratalog.metadata.raft.states import Leader
from stratalog.metadata.raft.voter_set import ReplicaKey, Voter, VoterSet

__all__ = ["Outcome", "World", "run_seed"]

RECOVERY_MS: Final = 60_000
"""The quorum has to work again within this time of the last fault."""
ISOLATION_MS: Final = 10_000
"""Long enough for a voter that is cut off to give up its leader and to stand three times, or four."""
_QUIET_EVERY_MS: Final = 5000
_BURST: Final = 0.4
"""The chance that the next proposal follows at once, before the one before it can be committed."""
_BURST_MS: Final = 20
_SUM_MASK: Final = (1 << 64) - 1
_KINDS: Final[dict[type, int]] = {}
"""A number for each type of event and action."""
_STEPS_MAX: Final = 400_000


class Outcome(Struct):
    """How a run ended: ``problem`` is None if every promise was kept."""

    seed: int
    problem: str | None
    steps: int
    sum: int
    epochs: int
    committed: int
    lines: list[str] = field(default_factory=list)


class World:
    """Everything of one run."""

    def __init__(self, seed: int, plan: Plan | None = None, trace: Trace | None = None) -> None:
        self.dice = random.Random(seed)
        self.plan = plan or Plan.draw(self.dice)
        self.trace = trace
        self.now_ms = 0
        self.steps = 0
        self.sum = 0
        """A sum over all that has happened: two runs of a seed have the same."""
        self.faulty = False
        self.is_quiet = False
        """Nearly without proposals."""
        self.invariants = Invariants()
        self.nodes: dict[int, Node] = {}
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._disks = count(1)
        self._values = count()
        self.network = Network(self.plan, self.dice, self.schedule)
        self.faults = Faults(self)
        if trace is not None:
            trace.now = lambda: self.now_ms / 1000
        self._make_nodes()

    def _make_nodes(self) -> None:
        plan = self.plan
        for node_id in range(1, plan.voters + plan.observers + 1):
            disk = Disk(self.new_directory_id(), kraft_version=plan.kraft_version)
            is_controller = node_id <= plan.voters or self.dice.random() < 0.5
            self.nodes[node_id] = Node(self, node_id, disk, is_controller=is_controller)
        first = [self.nodes[node_id] for node_id in range(1, plan.voters + 1)]
        self.bootstrap = [node.id for node in self.controllers]
        keys = [node.key if plan.kraft_version else ReplicaKey(node.id) for node in first]
        voters = VoterSet(tuple(Voter(key, endpoints_of(key.id)) for key in keys))
        for node in first if plan.kraft_version else self.nodes.values():
            node.disk.bootstrap = voters

    # -- time ----------------------------------------------------------------------------------------------------------

    def schedule(self, delay_ms: int, call: Callable[[], None]) -> None:
        """Have something happen later."""
        heapq.heappush(self._queue, (self.now_ms + delay_ms, next(self._numbers), call))

    def run_for(self, duration_ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass; True as soon as ``until`` holds. Raises `Violation`."""
        end = self.now_ms + duration_ms
        while self._queue and self._queue[0][0] <= end:
            self.now_ms, _, call = heapq.heappop(self._queue)
            call()
            self.steps += 1
            if self.steps > _STEPS_MAX:
                raise Violation(f"{_STEPS_MAX} steps: something runs in circles")
            if until():
                return True
        self.now_ms = end
        return until()

    def note(self, node_id: int, what: str, about: object = None) -> None:
        """Put a line into the trace, or only its sum: most runs are never read."""
        if self.trace is not None:
            self.trace.note(f"node {node_id}", what if about is None else f"{what} {about}")
        kind = _KINDS.get(type(about)) if about is not None else crc32(what.encode())
        if kind is None:
            kind = _KINDS[type(about)] = crc32(type(about).__name__.encode())
        self.sum = (self.sum * 31 + kind + self.now_ms * 8 + node_id) & _SUM_MASK

    @property
    def controllers(self) -> list[Node]:
        """The nodes that may become voters."""
        return [node for node in self.nodes.values() if node.is_controller]

    # -- what nodes ask for --------------------------------------------------------------------------------------------

    def new_directory_id(self) -> bytes:
        """The id of a new disk."""
        return next(self._disks).to_bytes(16, "big")

    def any_server(self, asking: int) -> int:
        """One of the bootstrap servers, which are all controllers; not the asker itself if there is another."""
        return self.dice.choice([node for node in self.bootstrap if node != asking] or self.bootstrap)

    def sync_ms(self) -> int:
        """How long a sync takes."""
        usual = 1 + self.dice.randrange(self.plan.sync_ms)
        return usual * 20 if self.faulty and self.dice.random() < 0.05 else usual

    def dies_between(self) -> bool:
        """Whether a process dies between two actions of a step."""
        return self.faulty and self.dice.random() < 0.0005 * ("kill" in self.plan.faults)

    # -- the run -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Everything, to the end. Raises `Violation`."""
        self.note(0, "plan", self.plan)
        for node in self.nodes.values():
            self.schedule(self.dice.randrange(500), node.revive)
        self.schedule(self.plan.propose_every_ms, self._propose)
        self.schedule(self.plan.snapshot_every_ms, self._snapshots)
        self.faulty = True
        self.faults.begin()
        self.run_for(self.plan.faults_ms)
        self.faulty = False
        self.faults.end()
        self.network.calm = True
        self._check_recovery()
        self._check_voters()
        self._check_isolation()

    def _propose(self) -> None:
        """A client has records for each node that is active."""
        for node in self.nodes.values():
            if node.active_epoch is not None:
                value = f"r{next(self._values)}"
                node.step(Proposed(value, node.active_epoch, 1 + self.dice.randrange(3), value))
        every_ms = _QUIET_EVERY_MS if self.is_quiet else self.plan.propose_every_ms
        is_burst = not self.is_quiet and self.dice.random() < _BURST
        self.schedule(1 + self.dice.randrange(_BURST_MS if is_burst else 2 * every_ms), self._propose)

    def _snapshots(self) -> None:
        self.dice.choice(list(self.nodes.values())).snapshot()
        self.schedule(1 + self.dice.randrange(2 * self.plan.snapshot_every_ms), self._snapshots)

    @property
    def leader(self) -> Node | None:
        """The leader of the newest epoch, if it runs."""
        leading = [node for node in self.nodes.values() if node.raft is not None and isinstance(node.raft.role, Leader)]
        return max(leading, key=lambda node: node.raft.role.epoch if node.raft else 0, default=None)

    def all_have(self, offset: int) -> bool:
        """Whether every node knows that the records below ``offset`` are committed."""
        return all(node.raft is not None and node.raft.high_watermark >= offset for node in self.nodes.values())

    def _check_recovery(self) -> None:
        """After the faults there is a leader, records commit, and every node gets them."""
        target = len(self.invariants.committed) + 5
        if not self.run_for(RECOVERY_MS, lambda: self.all_have(target)):
            roles = {node.id: node.raft and node.raft.role for node in self.nodes.values()}
            raise Violation(
                f"{RECOVERY_MS} ms after the last fault offset {target} is not committed everywhere: {roles}"
            )

    def _check_voters(self) -> None:
        """The voters are named as they are, and all are in that want to be."""
        if not self.run_for(RECOVERY_MS, lambda: self._voters_problem() is None):
            raise Violation(f"{RECOVERY_MS} ms after the recovery the voters are not right: {self._voters_problem()}")

    def _voters_problem(self) -> str | None:
        """The first thing that the leader's voters have wrong."""
        leader = self.leader
        if leader is None or leader.raft is None or not isinstance(leader.raft.role, Leader):
            return "there is no leader"
        log, role = leader.raft.log, leader.raft.role
        if log.voters_offset >= role.high_watermark:
            return f"the change at offset {log.voters_offset} is not committed"
        if log.kraft_version == 0 and "upgrade" in self.plan.faults:
            return "kraft.version is 0"
        known = log.voters.others(leader.id) if log.kraft_version else role.told
        wrong = [
            voter for voter in known if voter != Voter(self.nodes[voter.key.id].key, self.nodes[voter.key.id].endpoints)
        ]
        if self.plan.auto_join and log.kraft_version:
            missing = {node.id for node in self.controllers} - log.voters.ids
        else:
            missing = log.voters.ids - {voter.key.id for voter in known} - {leader.id}
        return f"{wrong} are other nodes, {missing} are missing" if wrong or missing else None

    def _check_isolation(self) -> None:
        """A voter that was cut off comes back without raising the epoch (KIP-996).

        Next to nothing is proposed meanwhile: with a log as long as the others' only the pre-vote holds it back.
        """
        self.is_quiet = True
        self._isolate_one()
        self.is_quiet = False

    def _isolate_one(self) -> None:
        self.run_for(5000)
        leader = self.leader
        if leader is None or leader.raft is None:
            raise Violation("without any fault a leader has gone, and there is no other one")
        epoch, voters = leader.raft.role.epoch, leader.raft.log.voters
        followers = [voter.key.id for voter in voters.others(leader.id)]
        if len(voters) < 3 or not followers:
            return
        self.network.isolate(self.dice.choice(followers), list(self.nodes))
        self.run_for(ISOLATION_MS)
        self.network.heal()
        self.run_for(ISOLATION_MS)
        epochs = {node.id: node.raft.role.epoch for node in self.nodes.values() if node.raft is not None}
        if set(epochs.values()) != {epoch}:
            raise Violation(f"a voter that was cut off raised the epoch from {epoch} to {epochs}")


def run_seed(
    seed: int, *, lines: int = 60, out: Callable[[str], object] | None = None, plan: Plan | None = None
) -> Outcome:
    """Run one seed; one that fails is run again for the last lines of its trace."""
    outcome = _run(World(seed, plan, None if out is None else Trace(lines, out)), seed)
    if outcome.problem is not None and out is None:
        trace = Trace(lines)
        again = _run(World(seed, plan, trace), seed)
        assert again == outcome, "a seed is a run: the second one was another"
        outcome.lines = list(trace.lines)
    return outcome


def _run(world: World, seed: int) -> Outcome:
    problem = None
    try:
        world.run()
    except Violation as error:
        problem = str(error)
    committed = world.invariants.committed
    return Outcome(seed, problem, world.steps, world.sum, max(world.invariants.leaders, default=0), len(committed))
