"""One run of a whole cluster: everything made from one seed, broken for a while, then looked at until it is well."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
import threading
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct, field

from sim.cluster.admin import Admin
from sim.cluster.checker import Checker
from sim.cluster.facts import Facts
from sim.cluster.faults import Faults
from sim.cluster.load import Load
from sim.cluster.member import CONTROLLER_PORT, Member
from sim.cluster.plan import Plan
from sim.cluster.replica_checker import ReplicaChecker
from sim.cluster.unclean import UncleanElections
from sim.model import Model, Violation
from sim.trace import Trace
from sim.under.bucket import Bucket
from sim.under.clock import SimClock
from sim.under.disk import SimFilesystem
from sim.under.loop import VirtualLoop
from sim.under.process import Process
from sim.under.spawner import SimSpawner
from sim.under.threads import VirtualLock, VirtualTimer
from sim.world import LogLines
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.topic import uuid_text

__all__ = ["Outcome", "World", "run_seed"]

RECOVERY_SECONDS: Final = 60.0
"""The cluster has to be well within this time of the last fault."""
_DAMAGING: Final = frozenset({"damage", "rot", "strand", "wipe"})
"""Faults after which a log may lack what had been flushed."""
_STEPS_MAX: Final = 1_000_000
_LOOK_SECONDS: Final = 0.25
_ANSWERS: Final = 10


class Outcome(Struct):
    """How a run ended: ``problem`` is None if every promise was kept."""

    seed: int
    problem: str | None
    digest: str
    steps: int
    seconds: float
    epochs: int
    images: int
    fenced: int
    answered: int
    acknowledged: int = 0
    unclean: int = 0
    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class World:
    """Everything of one run."""

    def __init__(self, seed: int, trace: Trace, directory: str, plan: Plan | None = None) -> None:
        self.dice = random.Random(seed)
        self.trace = trace
        drawn = Plan.draw(random.Random(self.dice.getrandbits(64)))
        self.plan = plan or drawn
        self.loop = VirtualLoop(random.Random(self.dice.getrandbits(64)), trace)
        trace.now = self.loop.time
        trace.hidden = directory
        self.spawner = self.loop.spawner = SimSpawner(self.loop)
        self.spawner.files_of = self._files_of
        self.loop.network.slow = self.plan.slow
        self.loop.network.is_cut = self._is_cut
        self.cuts: set[tuple[int, int]] = set()
        self.process = Process("world")
        self.facts = Facts()
        self.model = Model()
        self.unclean = UncleanElections(self)
        self.checker = Checker(self)
        self.replicas = ReplicaChecker(self) if self.plan.replicated_topics else None
        self.acknowledged = 0
        """Records of replicated topics that producers were acknowledged."""
        self._machines: dict[Process, Member] = {}
        self.buried: list[Process] = []
        self.loop.after_event = self._after_event
        self._entropy = random.Random(self.dice.getrandbits(64))
        dice = random.Random(self.dice.getrandbits(64))
        self.bucket = Bucket(self.loop, dice, SimClock(self.loop).wall_ms, f"sim-cluster-{seed}")
        if self.replicas is not None:
            self.bucket.changed = self._bucket_changed
        self.voter_ids = tuple(range(1, self.plan.controllers + 1))
        self.members = {
            node_id: Member(self, node_id, f"{directory}/{node_id}", is_controller=node_id in self.voter_ids)
            for node_id in range(1, self.plan.controllers + self.plan.brokers + 1)
        }

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run to the end. Raises `Violation`, and whatever else went wrong."""
        real_entropy, real_lock, real_timer = os.urandom, threading.Lock, threading.Timer
        os.urandom, threading.Lock = self._entropy.randbytes, VirtualLock  # type: ignore[assignment,misc]
        threading.Timer = VirtualTimer  # type: ignore[assignment,misc]
        try:
            self._format()
            main = self.process.spawn(self.loop, self._main())
            self.loop.run_until_complete(main)
        finally:
            os.urandom, threading.Lock, threading.Timer = real_entropy, real_lock, real_timer  # type: ignore[misc]
            for process in [*self.buried, self.process]:
                process.kill()
                process.bury()
            self.bucket.forget()
            self.loop.close()

    def _format(self) -> None:
        ids = {node_id: self._entropy.randbytes(16) for node_id in self.voter_ids}
        voters = ",".join(f"{one}@127.0.0.1:{CONTROLLER_PORT + one}:{uuid_text(ids[one])}" for one in self.voter_ids)
        for member in self.members.values():
            member.format(voters if member.is_controller else None)

    async def _main(self) -> None:
        self.trace.note("world", f"{self.plan}")
        lives = [asyncio.ensure_future(member.supervise()) for member in self.members.values()]
        await self._until_well(lives, "the beginning")
        admins = [Admin(self, name, random.Random(self.dice.getrandbits(64))) for name in ("a", "b")]
        working = [asyncio.ensure_future(admin.run()) for admin in admins]
        load = Load(self, random.Random(self.dice.getrandbits(64)))
        await self._wait(asyncio.ensure_future(load.create()), [*lives, *working])
        clients = load.start()
        faults = Faults(self, random.Random(self.dice.getrandbits(64)))
        await self._wait(asyncio.ensure_future(faults.run()), [*lives, *working, *clients])
        await self._until_well([*lives, *working, *clients], "the last fault", steady=False)
        await self._until_answered([*lives, *working, *clients])
        for one in working:
            one.cancel()
        await asyncio.wait(working)
        await self._until_well(lives, "the last command")
        self.checker.final()
        if self.replicas is not None:
            await self._check_replicas(self.replicas, load, lives, clients)
        for one in lives:
            one.cancel()

    async def _check_replicas(
        self, replicas: ReplicaChecker, load: Load, lives: list[asyncio.Task[Any]], clients: list[asyncio.Task[Any]]
    ) -> None:
        """All of them come to be in sync, clients hear of all that they sent, and then all logs are one. Raises `Violation`."""
        await self._until(replicas.problem, lives, "the last fault")
        load.stop()
        await self._until(lambda: load.unanswered(clients), lives, "the last record")
        reading = asyncio.ensure_future(load.read_all())
        await self._until(
            lambda: None if reading.done() else "not everything could be read", [*lives, reading], "the end"
        )
        await self._until(replicas.unequal, lives, "the end")
        self.acknowledged = load.acknowledged

    async def _until(self, problem: Callable[[], str | None], tasks: list[asyncio.Task[Any]], since: str) -> None:
        """Wait until there is no such problem any more. Raises `Violation`."""
        end = self.loop.time() + RECOVERY_SECONDS
        while (found := problem()) is not None:
            if self.loop.time() > end:
                raise Violation(f"{RECOVERY_SECONDS} s after {since}: {found}")
            await self._wait(asyncio.ensure_future(asyncio.sleep(_LOOK_SECONDS)), tasks)

    async def _wait(self, wanted: asyncio.Task[Any], others: list[asyncio.Task[Any]]) -> None:
        """Wait for one; an error of any task is raised."""
        await asyncio.wait([wanted, *others], return_when=asyncio.FIRST_COMPLETED)
        for task in [wanted, *others]:
            if task.done():
                task.result()

    async def _until_answered(self, tasks: list[asyncio.Task[Any]]) -> None:
        """Wait until administrators are heard again. Raises `Violation`."""
        wanted, end = self.facts.answered + _ANSWERS, self.loop.time() + RECOVERY_SECONDS
        while self.facts.answered < wanted:
            if self.loop.time() > end:
                raise Violation(f"{RECOVERY_SECONDS} s after the recovery fewer than {_ANSWERS} commands are answered")
            await self._wait(asyncio.ensure_future(asyncio.sleep(_LOOK_SECONDS)), tasks)

    async def _until_well(self, tasks: list[asyncio.Task[Any]], since: str, *, steady: bool = True) -> None:
        """Wait until nothing is wrong any more. Raises `Violation`."""

        def problem() -> str | None:
            found = self.checker.problem()
            return None if found is not None and not steady and found.startswith("images") else found  # commands go on

        await self._until(problem, tasks, since)

    # -- what members and faults ask for -------------------------------------------------------------------------------

    def started(self, member: Member, process: Process) -> None:
        """A process of a member begins."""
        self._machines[process] = member
        self.buried.append(process)
        process.on_death.append(lambda: self.checker.gone(member))

    def _files_of(self, worker: Process, parent: Process) -> SimFilesystem:
        return SimFilesystem(self._machines[parent].disk, worker)

    def _is_cut(self, source: Process, target: Process) -> bool:
        if not self.cuts:
            return False
        one, other = self._machines.get(source), self._machines.get(target)
        return one is not None and other is not None and (one.id, other.id) in self.cuts

    def newest_image(self) -> ClusterImage:
        """The newest image that any node has had."""
        return self.checker.image

    def heal(self) -> None:
        """Let everything pass."""
        self.cuts.clear()
        self.loop.network.heal()

    def _bucket_changed(self, key: str) -> None:
        """In a worker's fiber: what is wrong is said on the loop."""
        try:
            assert self.replicas is not None
            self.replicas.archives.changed(key)
        except Violation as error:
            self.loop.failures.append(str(error))

    def _after_event(self, process: Process) -> None:
        member = self._machines.get(process)
        if member is not None:
            self.checker.after_event(member)
            if self.replicas is not None and not member.is_controller:
                self.replicas.after_event(member)
        if self.loop.failures:
            raise Violation(self.loop.failures[0])
        if self.loop.steps > _STEPS_MAX:
            raise Violation(f"{_STEPS_MAX} steps and still not at the end: something runs in circles")


def run_seed(
    seed: int, *, lines: int = 60, out: Callable[[str], object] | None = None, plan: Plan | None = None
) -> Outcome:
    """Run one seed."""
    trace = Trace(lines, out)
    directory = tempfile.mkdtemp(prefix="stratalog-sim-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)  # noqa: PTH112
    problem: str | None = None
    world = World(seed, trace, directory, plan)
    with LogLines.into(world.loop, trace, disks_are_sound=_DAMAGING.isdisjoint(world.plan.faults)):
        try:
            world.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed has found it
            problem = f"{type(error).__name__}: {error}"
            if not isinstance(error, Violation):
                trace.keep_error(error)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    trace.note("end", f"{problem or 'well'} after {world.loop.steps} steps")
    checker = world.checker
    return Outcome(
        seed,
        problem,
        trace.digest,
        world.loop.steps,
        world.loop.time(),
        max(checker.offices, default=0),
        checker.images_seen,
        checker.fenced,
        world.facts.answered,
        world.acknowledged,
        world.unclean.count,
        list(trace.lines),
        trace.errors,
    )
