"""One machine of the cluster: a disk, and on it one life of the shipped node after the other."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from sim.cluster.routes import COORDINATORS
from sim.cluster.surroundings import Surroundings
from sim.under.clock import SimClock
from sim.under.disk import Disk, SimFilesystem
from sim.under.process import Process
from sim.under.remains import Mood
from stratalog.broker.controller_node import ControllerNode
from stratalog.broker.node import Node
from stratalog.broker.quorum.quorum import Quorum
from stratalog.broker.replicas.directory_format import format_node, identity_of
from stratalog.broker.settings.config import BrokerConfig, Flags, load_config
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.formatting.node_format import FormatOptions
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["CLUSTER_ID", "CONTROLLER_PORT", "SESSION_SECONDS", "Member"]

CLUSTER_ID: Final = "JEXY6aqzQY-32P5TStzaFg"
CONTROLLER_PORT: Final = 9500
"""Controllers listen here and above: the port of one is this and its id."""
BROKER_PORT: Final = 9600
SESSION_SECONDS: Final = 6.0
_SETTINGS: Final = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "broker.heartbeat.interval.ms": "1500",
    "broker.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
    "stratalog.ballast.bytes": "0",
    "log.cleaner.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "transaction.state.log.num.partitions": str(COORDINATORS),
    "offsets.topic.num.partitions": str(COORDINATORS),
}


class Member:
    """A node by its id. ``node`` is None while its process is down; it is set before the node has started."""

    def __init__(self, world: Surroundings, node_id: int, directory: str, *, is_controller: bool) -> None:
        self.world = world
        self.id = node_id
        self.is_controller = is_controller
        self.port = (CONTROLLER_PORT if is_controller else BROKER_PORT) + node_id
        self.dice = random.Random(world.dice.getrandbits(64))
        self.directory = directory
        Path(directory).mkdir()
        self.clock = SimClock(world.loop)
        self.disk = Disk(directory, random.Random(self.dice.getrandbits(64)), self.clock.wall_ms)
        self.disk.loose = f"{directory}/log-cache"
        self.node: Any = None
        self.is_ready = False
        self.process: Process | None = None
        self.down_seconds = 0.0
        """How long it is down before its next life."""
        self._unlock: Any = lambda: None
        self._stop: asyncio.Event | None = None
        self._lives = 0
        self.image: Any = None
        """The image that was looked at last."""
        self.active_epoch: int | None = None
        """The epoch in which this one was seen to be the active controller."""
        self.leaving: set[Uuid] = set()
        """Incarnations that were told to stop."""
        self.lost_in = -1
        """The broker epoch in which this machine lost something that counted; -1 if it never did."""

    def __repr__(self) -> str:
        return f"{'controller' if self.is_controller else 'broker'} {self.id}"

    @property
    def quorum(self) -> Quorum | None:
        """Its replica of the metadata log, if the node runs and has opened it."""
        found: Quorum | None = vars(self.node).get("quorum") if self.node is not None else None
        return found

    def hosted(self) -> Iterator[Any]:
        """The open partitions of a broker: `UnifiedLog`."""
        hosted = vars(self.node).get("hosted") if self.node is not None else None
        return iter(hosted.table if hosted is not None else ())

    def replica(self, name: TopicPartition, topic_id: Uuid) -> Any:
        """Its `UnifiedLog` of a partition; None if it is not open here."""
        hosted = vars(self.node).get("hosted") if self.node is not None else None
        found = None if hosted is None else hosted.table.get(name)
        return found if found is not None and found.topic_id == topic_id else None

    def config(self) -> BrokerConfig:
        """The settings of each of its lives."""
        listener = "CONTROLLER" if self.is_controller else "PLAINTEXT"
        settings = {
            **_SETTINGS,
            **dict(self.world.plan.settings),
            "process.roles": "controller" if self.is_controller else "broker",
            "node.id": str(self.id),
            "listeners": f"{listener}://127.0.0.1:{self.port}",
            "controller.quorum.bootstrap.servers": ",".join(
                f"127.0.0.1:{CONTROLLER_PORT + one}" for one in self.world.voter_ids
            ),
            "metadata.log.max.record.bytes.between.snapshots": str(
                2000 if self.world.plan.small_snapshots else 1 << 24
            ),
            "replica.lag.time.max.ms": str(int(self.world.plan.lag_seconds * 1000)),
            **({} if not self.world.plan.one_minimum else _one_minimum(self.world.plan.min_in_sync)),
        }
        return load_config(
            assignments=[f"{name}={value}" for name, value in settings.items()],
            environment={},
            flags=Flags(data=f"{self.directory}/log", bucket=self.world.bucket.url, http="127.0.0.1:0"),
            host_name="localhost",
        )

    # -- disk ----------------------------------------------------------------------------------------------------------

    def format(self, voters: str | None) -> None:
        """Format the directory: for these voters of the beginning, if it is one of them."""
        level = f"eligible.leader.replicas.version={self.world.plan.eligible_level}"
        options = FormatOptions(cluster_id=CLUSTER_ID, initial_controllers=voters, features=(level,))
        format_node(
            identity_of(self.config()),
            options,
            files=RealFilesystem(),
            now_ms=self.clock.wall_ms(),
            random_bytes=self.dice.randbytes,
        )
        self.disk.take_up()

    def wipe(self) -> None:
        """End its process, and put an empty disk in the place of the one before."""
        self.kill()
        self.disk.wipe()
        self.format(None)
        self.world.trace.note(str(self), "has a new disk")

    # -- life ----------------------------------------------------------------------------------------------------------

    async def supervise(self) -> None:
        """Start the node again and again."""
        while True:
            self._lives += 1
            process = self.process = Process(f"n{self.id}.{self._lives}")
            self.world.started(self, process)
            self._stop = asyncio.Event()
            gone = asyncio.Event()
            process.on_death.append(gone.set)
            life = process.spawn(self.world.loop, self._live(process, self._stop))
            await asyncio.wait([life, asyncio.ensure_future(gone.wait())], return_when=asyncio.FIRST_COMPLETED)
            if process.alive:
                process.forget(self._unlock)
                self._ended_by_itself(life)
                process.kill()
            self._gone()
            self.world.trace.note(str(self), "is gone")
            await asyncio.sleep(self.down_seconds)
            self.down_seconds = 0.2

    async def _live(self, process: Process, stop: asyncio.Event) -> None:
        kind: Any = ControllerNode if self.is_controller else Node
        dice = random.Random(self.dice.getrandbits(64))
        files = SimFilesystem(self.disk, process)
        node = self.node = kind(self.config(), clock=self.clock, files=files, dice=dice)
        self._unlock = partial(_let_go_of_locks, node)
        process.on_death.append(self._unlock)
        process.on_death.append(node.log_limits.remove)  # loggers outlive the process that is simulated
        starting = asyncio.ensure_future(node.start())
        waiting = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(node.failed.wait())]
        await asyncio.wait([starting, *waiting], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.wait([starting])
            return
        starting.result()
        self.is_ready = True
        self.world.trace.note(str(self), "is ready")
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()
        await node.stop()

    def _ended_by_itself(self, life: asyncio.Task[None]) -> None:
        error = life.exception()
        refused = isinstance(error, KafkaError) and error.code is ErrorCode.KAFKA_STORAGE_ERROR
        if isinstance(error, OSError) or refused:
            self.world.trace.note(str(self), f"could not start: {error!r}")
        elif error is not None:
            raise error

    def _gone(self) -> None:
        self.node, self.is_ready, self.active_epoch = None, False, None

    def kill(self, *, power: bool = False) -> None:
        """End its process as SIGKILL does, and with the power what is not synced.

        A controller's disk keeps all of that or nothing: with a hole in its metadata log it refuses to start, by rule.
        """
        if self.process is not None and self.process.alive:
            self.process.kill()
            self._forget_log_starts()
            self._gone()
            self.world.trace.note(str(self), "is killed")
        if power:
            mood = self.dice.choice((Mood.DROP, Mood.KEEP)) if self.is_controller else None
            self.world.trace.note(str(self), f"loses power: {self.disk.cut_power(mood)}")

    def _forget_log_starts(self) -> None:
        """A follower writes the log start of its leader down now and then, as in Kafka: a kill takes it back."""
        topics = self.world.newest_image().topics.by_id
        for topic in self.world.model.topics.values():
            image = topics.get(topic.topic_id)
            for partition in topic.partitions if image is not None else ():
                if image.partitions[partition.number].leader != self.id:
                    partition.start = 0

    def stop(self) -> None:
        """SIGTERM; it is started again."""
        if self._stop is not None:
            self._stop.set()
            mine = None if self.image is None else self.image.brokers.brokers.get(self.id)
            if mine is not None:
                self.leaving.add(mine.incarnation_id)


def _one_minimum(number: int) -> dict[str, str]:
    return {"min.insync.replicas": str(number), "transaction.state.log.min.isr": str(number)}


def _let_go_of_locks(node: Any) -> None:
    """The kernel closes the descriptors of a killed process."""
    directories = vars(node).get("directories")
    for directory in directories.all if directories is not None else ():
        lock, directory.lock = directory.lock, -1
        if lock >= 0:
            os.close(lock)
