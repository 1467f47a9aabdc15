"""One run: everything made from one seed, run until it is quiet, checked."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from sim.actors.admin import Admin
from sim.actors.faults import Faults
from sim.actors.groups import ClassicMember, ConsumerMember, Member
from sim.actors.producers import IdempotentProducer, PlainProducer
from sim.actors.progress import Progress
from sim.actors.readers import Reader
from sim.actors.transactions import TransactionalProducer
from sim.checker import Checker
from sim.group_model import GroupModel
from sim.model import Model, TopicModel, Violation
from sim.plan import Plan
from sim.trace import Trace
from sim.under.bucket import Bucket
from sim.under.clock import SimClock
from sim.under.disk import Disk, SimFilesystem
from sim.under.loop import VirtualLoop
from sim.under.process import Process
from sim.under.spawner import SimSpawner
from sim.under.threads import VirtualLock, VirtualTimer
from stratalog.broker.node import Node
from stratalog.broker.settings.config import BrokerConfig, Flags, load_config
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["LogLines", "Outcome", "World", "run_seed"]

_PORT: Final = 9092
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
_DAMAGED: Final = re.compile(r"damaged at offset (\d+).* goes on at offset (\d+)")
_STEPS_MAX: Final = 40_000
_QUIET_SECONDS: Final = 90.0


class Outcome(Struct):
    """How a run ended: ``problem`` is None if nothing was wrong."""

    seed: int
    problem: str | None
    digest: str
    steps: int
    seconds: float
    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class World:
    """Everything of one run."""

    admin_type: type[Admin] = Admin

    def __init__(self, seed: int, trace: Trace, directory: str) -> None:
        self.dice = random.Random(seed)
        self.trace = trace
        self.plan = self.draw_plan(random.Random(self.dice.getrandbits(64)))
        self.loop = VirtualLoop(random.Random(self.dice.getrandbits(64)), trace)
        trace.now = self.loop.time
        trace.hidden = directory
        self.spawner = self.loop.spawner = SimSpawner(self.loop)
        self.clock = SimClock(self.loop)
        self.port = _PORT
        self._directory = directory
        Path(f"{directory}/data").mkdir()
        self.disk = Disk(f"{directory}/data", self._dice(), self.clock.wall_ms)
        self.disk.loose = f"{directory}/data/log-cache"
        self.spawner.files_of = lambda process, _parent: SimFilesystem(self.disk, process)
        self.bucket = Bucket(self.loop, self._dice(), self.clock.wall_ms, f"sim-{seed}")
        self.model = Model()
        self.groups: list[GroupModel] = []
        self.progress: list[Progress] = []
        self.checker = Checker(self)
        self.process = Process("world")
        self.broker: Process | None = None
        self.node: Any = None
        self.problem: BaseException | None = None
        self._stop: asyncio.Event | None = None
        self._unlock: Callable[[], None] = lambda: None
        self._lives = 0
        self._ended = False
        self.buried: list[Process] = []
        self.loop.after_event = self._after_event
        self.bucket.changed = lambda key: self._check_soon(self.checker.bucket_changed, key)
        self._entropy = self._dice()

    def draw_plan(self, dice: random.Random) -> Plan:
        """The character of this run."""
        return Plan.draw(dice)

    def _dice(self) -> random.Random:
        return random.Random(self.dice.getrandbits(64))

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run to the end. Raises `Violation`, and whatever else went wrong."""
        real_entropy, real_lock, real_timer = os.urandom, threading.Lock, threading.Timer
        os.urandom, threading.Lock = self._entropy.randbytes, VirtualLock  # type: ignore[assignment,misc]
        threading.Timer = VirtualTimer  # type: ignore[assignment,misc]
        try:
            main = self.process.spawn(self.loop, self._main())
            self.loop.run_until_complete(main)
        finally:
            os.urandom, threading.Lock, threading.Timer = real_entropy, real_lock, real_timer  # type: ignore[misc]
            self._end()

    def _end(self) -> None:
        """Throw everything away."""
        self._ended = True
        for process in [*self.buried, self.process]:
            process.kill()
            process.bury()
        self.bucket.forget()
        self.loop.close()

    async def _main(self) -> None:
        plan = self.plan
        self.trace.note("world", f"{plan}")
        supervisor = asyncio.create_task(self._supervise())
        admin = self.admin_type(self, "admin", self._dice())
        creating = asyncio.create_task(admin.create_topics(plan.topics))
        await self._together([creating], [supervisor])
        producers: list[Any] = [
            IdempotentProducer(self, f"i{number}", self._dice(), plan.rounds)
            for number in range(plan.idempotent_producers)
        ]
        producers += [
            PlainProducer(self, f"p{number}", self._dice(), plan.rounds) for number in range(plan.plain_producers)
        ]
        jobs = [
            TransactionalProducer(self, f"x{number}", self._dice(), plan.rounds)
            for number in range(plan.transactional_producers)
        ]
        self.progress += [job.progress for job in jobs if job.progress is not None]
        producers += jobs
        readers: list[Any] = [Reader(self, f"r{number}", self._dice()) for number in range(plan.readers)]
        readers += self._members()
        faults = Faults(self, self._dice())
        writing = [asyncio.create_task(one.run()) for one in producers]
        reading = [asyncio.create_task(one.run()) for one in readers]
        breaking = asyncio.create_task(faults.run())
        changing = asyncio.create_task(admin.run(plan.rounds))
        await self._together([*writing, breaking, changing], [*reading, supervisor])
        faults.heal()
        for reader in readers:
            reader.stopped = True
        await self._together(reading, [supervisor])
        readers = [Reader(self, "final", self._dice()), Reader(self, "committed", self._dice())]
        final = asyncio.create_task(self.checker.final(*readers))
        await self._together([final], [supervisor])
        supervisor.cancel()

    def _members(self) -> list[Member]:
        """The members of both groups."""
        members: list[Member] = []
        kinds: tuple[tuple[type[Member], int], ...] = (
            (ClassicMember, self.plan.classic_members),
            (ConsumerMember, self.plan.consumer_members),
        )
        for kind, count in kinds:
            group = GroupModel(kind.__name__, self.model)
            self.groups.append(group)
            members += [kind(self, f"{group.name[:2].lower()}{number}", self._dice(), group) for number in range(count)]
        return members

    async def _together(self, wanted: list[asyncio.Task[Any]], others: list[asyncio.Task[Any]]) -> None:
        """Wait for all of ``wanted``. Raises the first error of any task."""
        waiting = set(wanted)
        while waiting:
            done, _ = await asyncio.wait([*waiting, *others], return_when=asyncio.FIRST_COMPLETED)
            for task in [one for one in [*wanted, *others] if one in done]:
                task.result()
            waiting -= done

    # -- the broker ----------------------------------------------------------------------------------------------------

    def config(self) -> BrokerConfig:
        """Settings that every life of the broker gets."""
        return load_config(
            assignments=[f"{name}={value}" for name, value in self.plan.settings.items()],
            environment={},
            flags=Flags(
                data=f"{self._directory}/data/log",
                bucket=self.bucket.url,
                listen=f"127.0.0.1:{_PORT}",
                http="127.0.0.1:0",
            ),
            host_name="localhost",
        )

    async def _supervise(self) -> None:
        """Start the broker, again and again."""
        while True:
            self._lives += 1
            process = self.broker = Process(f"broker-{self._lives}")
            self.buried.append(process)
            self._stop = asyncio.Event()
            gone = asyncio.Event()
            process.on_death.append(gone.set)
            self.trace.note(process.name, "starts")
            life = process.spawn(self.loop, self._live(process, self._stop))
            await asyncio.wait([life, asyncio.ensure_future(gone.wait())], return_when=asyncio.FIRST_COMPLETED)
            self.node = None
            self.checker.broker_gone()
            if process.alive:
                process.forget(self._unlock)
                self._ended_by_itself(life)
                process.kill()
            self.trace.note(process.name, "is gone")
            await asyncio.sleep(self.dice.uniform(0, 1))

    def _ended_by_itself(self, life: asyncio.Task[None]) -> None:
        error = life.exception()
        refused = isinstance(error, KafkaError) and error.code is ErrorCode.KAFKA_STORAGE_ERROR
        if isinstance(error, OSError) or refused:
            self.trace.note("world", f"the broker could not start: {error!r}")
        elif error is not None:
            raise error

    async def _live(self, process: Process, stop: asyncio.Event) -> None:
        config = self.config()
        dice = random.Random(self.dice.getrandbits(64))
        node = Node(config, clock=self.clock, files=SimFilesystem(self.disk, process), dice=dice)
        self._unlock = partial(_let_go_of_locks, node)
        process.on_death.append(self._unlock)
        process.on_death.append(node.log_limits.remove)  # loggers outlive the process that is simulated
        await node.start()
        self.trace.note(process.name, "is ready")
        self.node = node
        self.checker.broker_ready(node)
        waiting = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(node.failed.wait())]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()
        await node.stop()

    def kill_broker(self) -> None:
        """End it as ``kill -9`` does."""
        self.node = None
        if self.broker is not None:
            self.broker.kill()

    def stop_broker(self) -> None:
        """SIGTERM; it is started again."""
        if self._stop is not None:
            self._stop.set()

    # -- what is checked -----------------------------------------------------------------------------------------------

    def _after_event(self, process: Process) -> None:
        self.checker.after_event(process)
        if self.loop.failures:
            raise Violation(self.loop.failures[0])
        if self.loop.steps > _STEPS_MAX:
            raise Violation(f"{_STEPS_MAX} steps and still not quiet: something runs in circles, or waits for ever")

    def _check_soon(self, check: Callable[[str], None], key: str) -> None:
        if not self._ended:
            self.loop.call_soon(self._check_now, check, key, context=self.process.context)

    def _check_now(self, check: Callable[[str], None], key: str) -> None:
        try:
            check(key)
        except Violation as error:
            self.loop.failures.append(str(error))

    def check_may_be_gone(self, topic: TopicModel, who: str) -> None:
        """A client got the answer that a topic does not exist."""
        if not topic.deleting:
            raise Violation(f"{who}: {topic.name} is said not to exist, and no client deleted it")


def _let_go_of_locks(node: Node) -> None:
    """The kernel closes the descriptors of a killed process."""
    directories = vars(node).get("directories")
    for directory in directories.all if directories is not None else ():
        lock, directory.lock = directory.lock, -1
        if lock >= 0:
            os.close(lock)


class LogLines(logging.Handler):
    """The broker's own log goes into the trace; what it did not expect is a failure."""

    def __init__(self, loop: VirtualLoop, trace: Trace, disks_are_sound: bool) -> None:
        super().__init__(logging.INFO)
        self._loop = loop
        self._trace = trace
        self._disks_are_sound = disks_are_sound

    @classmethod
    @contextlib.contextmanager
    def into(cls, loop: VirtualLoop, trace: Trace, *, disks_are_sound: bool = False) -> Iterator[None]:
        """Put the log there, and nowhere else, for a while. Where all disks are sound no log may lack what was flushed.

        Above that a loss of power may leave a page behind one that it dropped; the log ends before the hole.
        """
        logger = logging.getLogger("stratalog")
        before = logger.level, logger.propagate
        handler = cls(loop, trace, disks_are_sound)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.level, logger.propagate = before

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        text = _ADDRESS.sub("", record.getMessage())
        self._trace.note("log", f"{record.levelname} {text}")
        if record.exc_info and record.exc_info[1] is not None:
            self._trace.keep_error(record.exc_info[1])
            self._loop.failures.append(f"unexpected: {text}: {record.exc_info[1]!r}")
        elif self._disks_are_sound and (damaged := _DAMAGED.search(text)) and damaged[1] != damaged[2]:
            self._loop.failures.append(f"on a sound disk {text}")


def run_seed(
    seed: int,
    *,
    lines: int = 60,
    out: Callable[[str], object] | None = None,
    build: Callable[[int, Trace, str], World] = World,
) -> Outcome:
    """Run one seed of the world that is built."""
    trace = Trace(lines, out)
    directory = tempfile.mkdtemp(prefix="stratalog-sim-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)  # noqa: PTH112
    problem: str | None = None
    world = build(seed, trace, directory)
    with LogLines.into(world.loop, trace):
        try:
            world.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed has found it
            problem = f"{type(error).__name__}: {error}"
            if not isinstance(error, Violation):
                trace.keep_error(error)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    trace.note("end", f"{problem or 'well'} after {world.loop.steps} steps")
    return Outcome(seed, problem, trace.digest, world.loop.steps, world.loop.time(), list(trace.lines), trace.errors)
