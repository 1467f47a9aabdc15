"""A follower that was away copies a gigabyte, also within a throttle; one that has lost its partitions begins from the archive.

They come back while a producer sends 200 records a second to another topic of the same leader.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.cell import Cell, Line
from bench.local_nodes import LocalNodes
from bench.outcome import Bound, Outcome
from bench.plain_files import appended_p99_ms, synced_rate
from bench.replicated import Replicated, await_true
from bench.settings import Settings
from bench.steady_producer import SteadyProducer
from bench.versus import clients
from stratalog.client.client import Client
from stratalog.client.throttles import set_throttle
from stratalog.wire.topic import TopicPartition

__all__ = ["CELLS"]

_MESSAGES: Final = 1_000_000
_MESSAGE_BYTES: Final = 1024
_QUIET_SECONDS: Final = 5.0
_ARCHIVED_SECONDS: Final = 120.0
_SYNC_BYTES: Final = 8 << 20
"""A follower that is behind asks for half as much; the rest is the file's advantage."""
_RECORD_SYNC_BYTES: Final = 1 << 20
"""A throttled follower asks for this much at a time."""
_THROTTLE_BYTES: Final = 20_000_000
_THROTTLED_SECONDS: Final = 20.0
_LOCAL_BYTES: Final = 8 << 20
_LOCAL_START: Final = -4
_ARCHIVED_SHARE: Final = 0.97
_SENT: Final = "stratalog_network_sendfile_bytes_total"
_SESSION: Final = {
    "broker.session.timeout.ms": "3000",
    "log.retention.check.interval.ms": "1000",
    "remote.log.manager.task.interval.ms": "500",
}

_RATE = Line("replicas-catch-up", "rate of a follower 1 GB behind / hot read of librdkafka", Bound(">=", 0.8))
_DISK = Line(
    "replicas-catch-up-disk",
    "the same / a plain file of as many bytes, synced every 8 MiB, beside it",
    Bound(">=", 0.8),
)
_P99 = Line("replicas-catch-up-p99", "produce p99 meanwhile / quiet", Bound("<=", 2.0))
_THROTTLE = Line(
    "replicas-throttled", "how far the rate of a follower 1 GB behind is from its throttle of 20 MB/s", Bound("<=", 0.1)
)
_THROTTLED_P99 = Line("replicas-throttled-p99", "produce p99 meanwhile / quiet", Bound("<=", 2.0))
_BYTES = Line("replicas-wiped-bytes", "MB from peers, partition of 1 GB, 97 % archived", Bound("<=", 150.0))
_TIME = Line("replicas-wiped-time", "time until in sync / that of fetching all", Bound("<=", 0.1))


class _Away:
    """One follower of a topic that goes and comes back."""

    def __init__(self, nodes: LocalNodes, topic: str, **configs: str) -> None:
        self.nodes, self.topic = nodes, topic
        self.topics = Replicated(nodes.bootstrap)
        self.topics.create(topic, 1, **configs)
        self.leader = self.topics.leader(topic)
        active = nodes.active()
        others = [one for one in nodes.node_ids if one != self.leader]
        self.follower = next((one for one in others if one != active), others[0])

    def fill(self) -> None:
        """A gigabyte of records."""
        clients.run(clients.start("produce", self.nodes.bootstrap, self.topic, _MESSAGES, _MESSAGE_BYTES))

    def stop(self) -> None:
        """The follower stops in order."""
        self.nodes.terminate(self.follower)
        self.nodes.wait_ended(self.follower)

    def wipe(self) -> None:
        """Its partition of the topic is gone from its disk."""
        for found in (self.nodes.folder / f"node-{self.follower}").glob(f"{self.topic}-*"):
            shutil.rmtree(found)

    def sent_bytes(self) -> float:
        """The file bytes that the other nodes have sent."""
        return sum(self.nodes.metric(one, _SENT) for one in self.nodes.node_ids if one != self.follower)

    def throttle(self) -> None:
        """Copy no faster than `_THROTTLE_BYTES` a second, once the follower is back."""
        with Client(self.nodes.bootstrap) as client:
            client.refresh([self.topic])
            replicas = {self.topic: ([f"0:{self.leader}"], [f"0:{self.follower}"])}
            set_throttle(client, self.nodes.node_ids, _THROTTLE_BYTES, replicas)

    def log_bytes(self) -> int:
        """The bytes of the partition on the follower's disk."""
        folder = self.nodes.folder / f"node-{self.follower}" / f"{self.topic}-0"
        return sum(one.stat().st_size for one in folder.glob("*.log"))

    def begin(self) -> float:
        """Start it; when its log began to grow."""
        before = self.log_bytes()
        self.nodes.start(self.follower)
        await_true(lambda: self.log_bytes() > before, "the follower copies something")
        return time.monotonic()

    def back(self) -> tuple[float, float]:
        """Start it; when its log began to grow, and when it was in sync."""
        begun = self.begin()
        await_true(lambda: self.topics.in_sync(self.topic) == 1, "all replicas are in sync")
        return begun, time.monotonic()


def _begun(nodes: LocalNodes) -> tuple[_Away, str]:
    """The follower that will be away, and a topic of the same leader to write to meanwhile."""
    nodes.start()
    nodes.wait_ready()
    away = _Away(nodes, "behind")
    return away, next(one for one in _named_by(away, 12) if away.topics.leader(one) == away.leader)


def _catch_up_at(folder: Path) -> list[Outcome]:
    with LocalNodes(folder, settings=_SESSION, watched=False) as nodes:
        away, quiet = _begun(nodes)
        away.stop()
        away.fill()
        hot = clients.run(clients.start("consume", nodes.bootstrap, away.topic, _MESSAGES))["per_second"]
        with SteadyProducer(nodes.bootstrap, quiet, per_second=200.0) as producer:
            quiet_since = time.monotonic() + 1
            time.sleep(_QUIET_SECONDS)
            quiet_until = time.monotonic()
            begun, ended = away.back()
        before, during = producer.p99_ms(quiet_since, quiet_until), producer.p99_ms(begun, ended)
        disk = synced_rate(folder, _MESSAGES * _MESSAGE_BYTES, _SYNC_BYTES)
        files = _p99_of_files(folder, _SYNC_BYTES // 2)
    took = ended - begun
    rate = _MESSAGES / took
    megabytes = rate * _MESSAGE_BYTES / 1e6
    print(
        f"  in sync after {took:.2f} s ({megabytes:.0f} MB/s), hot read {hot * _MESSAGE_BYTES / 1e6:.0f} MB/s, "
        f"disk {disk / 1e6:.0f} MB/s, "
        f"p99 {before:.1f} ms quiet, {during:.1f} ms meanwhile, plain files {files:.1f} times",
        file=sys.stderr,
        flush=True,
    )
    return [
        _RATE.outcome(rate / hot, megabytes_per_second=megabytes),
        _DISK.outcome(megabytes * 1e6 / disk, disk_megabytes_per_second=disk / 1e6),
        _P99.outcome(during / before, quiet_ms=before, meanwhile_ms=during, plain_files=files),
    ]


def _throttled_at(folder: Path) -> list[Outcome]:
    with LocalNodes(folder, settings=_SESSION, watched=False) as nodes:
        away, quiet = _begun(nodes)
        away.throttle()
        away.stop()
        away.fill()
        os.sync()  # the other follower's pages would else be written in the quiet time
        with SteadyProducer(nodes.bootstrap, quiet, per_second=200.0) as producer:
            quiet_since = time.monotonic() + 1
            time.sleep(_THROTTLED_SECONDS)
            quiet_until = time.monotonic()
            begun, had_bytes = away.begin(), away.log_bytes()
            time.sleep(_THROTTLED_SECONDS)
            took, has_bytes = time.monotonic() - begun, away.log_bytes()
        before, during = producer.p99_ms(quiet_since, quiet_until), producer.p99_ms(begun, begun + took)
        away.nodes.terminate(away.follower)
        files = _p99_of_files(folder, _RECORD_SYNC_BYTES, _THROTTLE_BYTES)
    rate = (has_bytes - had_bytes) / took
    print(
        f"  {rate / 1e6:.1f} MB/s within a throttle of {_THROTTLE_BYTES / 1e6:.0f}, "
        f"p99 {before:.1f} ms quiet, {during:.1f} ms meanwhile, plain files {files:.1f} times",
        file=sys.stderr,
        flush=True,
    )
    return [
        _THROTTLE.outcome(abs(rate / _THROTTLE_BYTES - 1), megabytes_per_second=rate / 1e6),
        _THROTTLED_P99.outcome(during / before, quiet_ms=before, meanwhile_ms=during, plain_files=files),
    ]


def _p99_of_files(folder: Path, sync_bytes: int, rate: float | None = None) -> float:
    """How many times longer plain files take for a record beside a copy than without it, on the same disk."""
    quiet = appended_p99_ms(folder, _QUIET_SECONDS)
    return appended_p99_ms(folder, _QUIET_SECONDS, sync_bytes=sync_bytes, rate=rate) / quiet


def _named_by(away: _Away, count: int) -> list[str]:
    """Topics that the producer may use: one of them has the same leader."""
    names = [f"quiet-{number}" for number in range(count)]
    for name in names:
        away.topics.create(name)
    return names


def _wiped(away: _Away) -> tuple[float, float]:
    """Seconds until a follower without its partition is in sync, and the bytes that the others have sent."""
    away.stop()
    away.wipe()
    sent = away.sent_bytes()
    begun, ended = away.back()
    return ended - begun, away.sent_bytes() - sent


def _wiped_at(folder: Path) -> list[Outcome]:
    with LocalNodes(folder, settings=_SESSION, watched=False) as nodes:
        nodes.start()
        nodes.wait_ready()
        whole = _Away(nodes, "whole")
        whole.fill()
        all_seconds, all_bytes = _wiped(whole)
        whole.topics.delete(whole.topic)
        tiered = _Away(
            nodes,
            "tiered",
            remote_storage_enable="true",
            segment_bytes=str(_LOCAL_BYTES),
            local_retention_bytes=str(_LOCAL_BYTES),
        )
        tiered.fill()
        await_true(_archived(tiered), "nearly all is in the archive alone", _ARCHIVED_SECONDS)
        tier_seconds, tier_bytes = _wiped(tiered)
    print(
        f"  all: {all_seconds:.2f} s, {all_bytes / 1e6:.0f} MB; from the archive: {tier_seconds:.2f} s, {tier_bytes / 1e6:.0f} MB",
        file=sys.stderr,
        flush=True,
    )
    return [_BYTES.outcome(tier_bytes / 1e6), _TIME.outcome(tier_seconds / all_seconds, seconds=tier_seconds)]


def _archived(away: _Away) -> Callable[[], bool]:
    partition = TopicPartition(away.topic, 0)

    def look() -> bool:
        with Client(away.nodes.bootstrap) as client:
            client.refresh([away.topic])
            return client.list_offsets({partition: _LOCAL_START})[partition].offset >= _MESSAGES * _ARCHIVED_SHARE

    return look


def _in_folder(settings: Settings, measure: Callable[[Path], list[Outcome]]) -> list[Outcome]:
    with settings.folder(settings.disk) as folder:
        return measure(folder)


CELLS = (
    Cell("replicas-catch-up", (_RATE, _DISK, _P99), lambda settings: _in_folder(settings, _catch_up_at)),
    Cell("replicas-throttled", (_THROTTLE, _THROTTLED_P99), lambda settings: _in_folder(settings, _throttled_at)),
    Cell("replicas-wiped", (_BYTES, _TIME), lambda settings: _in_folder(settings, _wiped_at)),
)
