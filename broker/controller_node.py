"""A node that is a controller and no broker: a replica of the metadata log, its listeners, and HTTP for its figures."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from functools import partial
from typing import Final

from stratalog.broker.archive.problems import first_of
from stratalog.broker.control.raft_metrics import add_raft_metrics
from stratalog.broker.controller_role import ControllerRole
from stratalog.broker.http.connections import http_limits
from stratalog.broker.http.listener import HttpListener
from stratalog.broker.http.server import HttpServer
from stratalog.broker.metadata_place import own_directories
from stratalog.broker.node_quorum import QuorumServices, open_node_quorum
from stratalog.broker.node_start import start_or_abandon
from stratalog.broker.quorum.quorum import Quorum
from stratalog.broker.replicas.directories import Directories
from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.broker.runtime.ballast import Spare
from stratalog.broker.runtime.clock import Clock, SystemClock
from stratalog.broker.runtime.log_limits import LogLimits
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.slices import Slices, Steps
from stratalog.broker.runtime.tick import Tick
from stratalog.broker.settings.config import BrokerConfig
from stratalog.broker.workers.spawner import spawner_of
from stratalog.hot.storage.filesystem import Filesystem, RealFilesystem
from stratalog.metadata.image.image import ClusterImage

__all__ = ["ControllerNode"]

_SYNC_THREADS: Final = 4
_UUID_BYTES: Final = 16
_HAND_OVER_MS: Final = 5000
"""A stop waits so long for another voter to take the metadata log over."""
_LOOK_SECONDS: Final = 0.5

log = logging.getLogger(__name__)


class ControllerNode:
    """Everything that a controller's process runs. Must be made inside the running loop."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        files: Filesystem | None = None,
        dice: random.Random | None = None,
    ) -> None:
        self.config = config
        self.node_id = config.node_id
        self.clock: Clock = SystemClock() if clock is None else clock
        self.metrics = Metrics()
        self._files: Filesystem = RealFilesystem() if files is None else files
        self._dice = random.SystemRandom() if dice is None else dice
        self._sync_threads = spawner_of(asyncio.get_running_loop()).threads(_SYNC_THREADS, "sync")
        self.failed: asyncio.Event = asyncio.Event()
        """Set when the process has nothing left to serve."""
        self.http = HttpListener(self._http_server, self.failed.set, http_limits(config))
        self.http.connections.add_figures(self.metrics)
        self.log_limits = LogLimits(self.clock.monotonic)
        self._looking: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Take part in the quorum, and let brokers in.

        Raises `Invalid` for directories that are not this node's, `Corrupt` for metadata that cannot be read, `OSError`
        for ports and disks; then everything is let go of, and the files are as a kill would leave them.
        """
        self.log_limits.install(self.metrics)
        await start_or_abandon(self._start, self._abandon, self.failed)

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        tick = Tick(loop)
        own_directories(self.config, self._files)  # the others have no use here, but may have the metadata log
        self.directories = Directories.open(
            [self.config.metadata_log_dir],
            files=self._files,
            node_id=self.node_id,
            loop=loop,
            tick=tick,
            sync_threads=self._sync_threads,
            on_failed=self._directory_failed,
            spare=Spare(self.config.cache_dir, self.config.integer("stratalog.ballast.bytes")),
            may_format=False,
        )
        self.cluster_id = self.directories.cluster_id
        self.http_address = await self.http.bind(self.config.http_host, self.config.http_port)
        self._slices = Slices(loop.call_soon, self.clock.monotonic)
        opened = open_node_quorum(
            QuorumServices(
                config=self.config,
                directories=self.directories,
                files=self._files,
                clock=self.clock,
                dice=self._dice,
                threads=self._sync_threads,
                in_slices=partial(self._slices.run, urgent=True),
                on_failed=self.failed.set,
            )
        )
        self.quorum: Quorum = opened.quorum
        self.unreadable = opened.unreadable
        self.unreadable.add_metrics(self.metrics)
        add_raft_metrics(self.metrics, self.quorum, self.clock)
        self.controller = ControllerRole(self.config, opened, metrics=self.metrics, tick=tick)
        await self.controller.start(os.urandom(_UUID_BYTES))
        self.quorum.start()
        self.directories.verified()
        self.http.serve()
        self._look()
        log.info("controller %d of cluster %s takes part in the metadata quorum", self.node_id, self.cluster_id)

    def _look(self) -> None:
        """Look after the log from time to time: what waits for a sync, and files that may go."""
        self._looking = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)
        replica, now = self.quorum.replica, self.clock.monotonic()
        for directory in self.directories.online:
            directory.writer.retry_refused()
            replica.tick(now)
            removal = replica.log.take_removal(int(now * 1000))
            if removal is not None:
                self._sync_threads.submit(removal.run)

    def _directory_failed(self, writer: DirectoryWriter, error: OSError) -> None:
        log.critical("the directory of the metadata log, %s, has failed: %s; the node ends", writer.path, error)
        self.failed.set()

    def _http_server(self) -> HttpServer:
        return HttpServer(self.metrics, self.not_ready, slices=self._slices, problems=self._problems)

    def _problems(self) -> Steps[list[str]]:
        yield None
        return first_of(self.unreadable.problems())

    @property
    def lasting_objects(self) -> int:
        """The Python objects that stay, about, of rules and partitions."""
        return self.image.lasting_objects

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        return self.quorum.image

    @property
    def kafka_address(self) -> tuple[str, int]:
        """Where the first listener is bound: one of controllers."""
        return self.controller.listener.server.addresses[self.config.controller_listeners[0].name]

    def not_ready(self) -> list[str]:
        """Why the controller is of no use now, a sentence each (``/readyz``)."""
        leader = self.quorum.leader
        return [] if leader.leader_id >= 0 else [f"no leader of the metadata quorum is known in epoch {leader.epoch}"]

    async def _abandon(self) -> None:
        built = vars(self)
        if "quorum" in built:
            self.quorum.close()
        if "controller" in built:
            await self.controller.close(grace_seconds=0)
        await self.http.close()
        self.log_limits.remove()
        self._sync_threads.shutdown(wait=True)
        if "directories" in built:
            self.directories.release(untouched="quorum" not in built)

    async def stop(self) -> None:
        """Hand the leadership over, close the log, and mark the stop as clean."""
        if self._looking is not None:
            self._looking.cancel()
        await self.quorum.hand_over(timeout_ms=_HAND_OVER_MS)
        await self.quorum.stop(timeout_ms=_HAND_OVER_MS)
        await self.controller.close()
        await self.http.close()
        self.log_limits.remove()
        await self.directories.settle()
        self.directories.close([self.quorum.replica], broker_epoch=-1, sync_threads=self._sync_threads)
        self._sync_threads.shutdown(wait=True)
