"""The nodes of a campaign: a cluster whose nodes are frozen, lose power, and have disks and clocks that misbehave."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.faults.seam import DiskMode, SeamPage, cut_power, seam_path
from stratalog.broker.local_cluster.cluster import ClusterFault, LocalCluster, Loop
from stratalog.broker.local_cluster.node_files import HOST

__all__ = ["SETTINGS", "FaultyNodes"]

SETTINGS: Final[Mapping[str, str]] = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
    "group.min.session.timeout.ms": "1000",
}
"""Short times, so that a run sees many of everything."""
_AWAY_SECONDS: Final = 60.0


class FaultyNodes(LocalCluster):
    """``count`` nodes below ``directory``; those that end by themselves are in `ended_alone`."""

    def __init__(self, directory: Path, loop: Loop, *, count: int, settings: Mapping[str, str]) -> None:
        super().__init__(
            str(directory),
            loop,
            count=count,
            settings={**SETTINGS, **settings},
            command=lambda path: [sys.executable, "-m", "bench.faults.node", path],
        )
        self._pages = {
            node_id: SeamPage(seam_path(f"{directory}/node-{node_id}.properties")) for node_id in self.node_ids
        }
        self._changing = threading.RLock()
        self._ends_meant: set[int] = set()
        self.ended_alone: list[str] = []

    def page(self, node_id: int) -> SeamPage:
        """The page that the disk and clock of a node obey."""
        return self._pages[node_id]

    def data(self, node_id: int) -> Path:
        """The directory of a node's logs."""
        return Path(self.directory, f"node-{node_id}")

    def signal(self, node_id: int, number: signal.Signals) -> None:
        """Send a signal to the process of a node, if it runs."""
        run = self._runs.get(node_id)
        if run is not None and run.code is None:
            os.kill(run.child.pid, number)

    def kill_together(self, *node_ids: int) -> None:
        """End nodes at one moment, by SIGKILL; those that do not run are left alone."""
        with self._changing:
            ends = [node_id for node_id in node_ids if node_id in self.running]
            for node_id in ends:
                self._runs[node_id].child.kill()
            for node_id in ends:
                if self._runs[node_id].child.wait(_AWAY_SECONDS) is None:
                    raise ClusterFault(f"node {node_id} was killed and has not ended")
                self._ends_meant.add(id(self._runs[node_id]))
                self._ended(self._runs[node_id], -signal.SIGKILL)

    def stop_in_order(self, node_id: int) -> None:
        """End a node by SIGTERM. Raises `ClusterFault` if it does not, or not well."""
        with self._changing:
            self._ends_meant.add(id(self._runs[node_id]))
        self.stop(node_id)

    def lose_power(self, *node_ids: int) -> int:
        """Kill nodes at one moment and drop what they had not synced; the bytes that were dropped."""
        with self._changing:
            self.kill_together(*node_ids)
            return sum(cut_power(self._pages[node_id], Path(self.directory, f"node-{node_id}")) for node_id in node_ids)

    def start_again(self, *node_ids: int) -> None:
        """Start nodes that do not run; those that ended by themselves are noted."""
        with self._changing:
            for node_id in node_ids:
                self.note_end(node_id)
                if node_id not in self.running:
                    self.start(node_id)

    def note_end(self, node_id: int, *, meant: bool = False) -> None:
        """Note that a node has ended by itself, if it has; ``meant`` for one whose disk was broken."""
        run = self._runs.get(node_id)
        if run is None or run.code is None or id(run) in self._ends_meant:
            return
        self._ends_meant.add(id(run))
        if not meant:
            self.ended_alone.append(str(run.fault(f"ended by itself with {run.code}")))

    def wait_serving(self, node_id: int, seconds: float = _AWAY_SECONDS) -> bool:
        """Whether a node serves in time."""
        run = self._runs[node_id]
        return run.news.wait(seconds) and run.is_ready and run.code is None

    def sum_of(self, metric: str) -> int:
        """The sum of a counter over the nodes that run, since they started."""
        total = 0.0
        for node_id in self.running:
            with urllib.request.urlopen(f"http://{HOST}:{self._ports[node_id].http}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
            total += sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(metric))
        return int(total)

    def wipe(self, node_id: int) -> None:
        """Remove all partitions of a node that does not run.

        The metadata log and the owner's file stay: a voter whose directory was lost is another voter (KIP-853).
        """
        for path in self.data(node_id).iterdir():
            if path.is_dir() and not path.name.startswith("__cluster_metadata"):
                shutil.rmtree(path)
            elif path.name not in {"meta.properties", "bootstrap.checkpoint", ".lock"} and path.is_file():
                path.unlink()

    def flip_a_bit(self, node_id: int, dice: random.Random) -> str:
        """Flip one bit of a segment of a node that does not run; the segment, "" if there is none."""
        found = [path for path in self.data(node_id).glob("*/*.log") if path.stat().st_size > 200]
        paths = sorted(path for path in found if not path.parent.name.startswith("__cluster_metadata"))
        if not paths:
            return ""
        path = dice.choice(paths)
        with path.open("r+b") as file:
            position = dice.randrange(path.stat().st_size)
            file.seek(position)
            byte = file.read(1)[0]
            file.seek(position)
            file.write(bytes([byte ^ 1 << dice.randrange(8)]))
        return f"{path.parent.name}/{path.name}, byte {position}"

    def until_running(self, seconds: float = _AWAY_SECONDS) -> list[int]:
        """Start all nodes that do not run, heal all links, disks and clocks; those that do not serve in time."""
        self.heal()
        for node_id in self.node_ids:
            self._pages[node_id].set(DiskMode.WHOLE)
            self._pages[node_id].set_clock(0)
            self.signal(node_id, signal.SIGCONT)
        time.sleep(0.2)
        self.start_again(*self.node_ids)
        return [node_id for node_id in self.node_ids if not self.wait_serving(node_id, seconds)]
