"""librdkafka with ``acks=all`` to three replicas, at least two of them in sync: rate, CPU of all nodes, how bytes reach followers.

Apache Kafka's figures for the same load: ``make bench-kafka CELLS=cluster``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from bench.cell import Cell, Line
from bench.local_nodes import LocalNodes
from bench.outcome import Bound, Outcome, interleaved, median
from bench.replicated import Replicated
from bench.servers import KAFKA_FLUSH
from bench.settings import Settings
from bench.versus import clients

__all__ = ["CELL"]

_COUNTS: Final = {100: 1_000_000, 1024: 300_000}
_NO_FLUSH: Final = KAFKA_FLUSH["log.flush.interval.messages"]
_FLUSHES: Final = {"kafka-flush": _NO_FLUSH, "sync": "1"}
_SENT: Final = "stratalog_network_sendfile_bytes_total"
_COPIED: Final = "stratalog_network_copied_file_bytes_total"
_SYNCS: Final = "stratalog_directory_sync_cycles_total"

_RATES: Final = {
    (flush, size): Line(f"replicas-{flush}-{size}B", "messages/s, RF 3, acks=all; to be known", Bound(">=", 0))
    for flush in _FLUSHES
    for size in _COUNTS
}
_SYNCED: Final = Line(
    "replicas-sync-cost", "rate with sync on ack / with Kafka's flush default, 1 KiB", Bound(">=", 0.7)
)
_SENDFILE: Final = Line("replicas-sendfile", "share of the bytes of followers by sendfile, 1 KiB", Bound(">=", 0.95))
_CYCLES: Final = Line(
    "replicas-sync-cycles", "sync cycles of a follower / of the leader, sync on ack", Bound("<=", 1.2)
)


class _Runs:
    """Runs of one cluster, each with a fresh topic."""

    def __init__(self, nodes: LocalNodes) -> None:
        self._nodes = nodes
        self._topics = Replicated(nodes.bootstrap)
        self.shares: list[float] = []
        self.cycles: list[float] = []

    def run(self, kind: str, repetition: int) -> tuple[float, float]:
        """Messages a second, and microseconds of CPU of all nodes for each."""
        flush, size = kind.rsplit(" ", 1)
        size_bytes = int(size)
        count, topic, nodes = _COUNTS[size_bytes], f"{flush}-{size}-{repetition}", self._nodes
        self._topics.create(topic, flush_messages=_FLUSHES[flush])
        leader = self._topics.leader(topic)
        process = clients.start("produce", nodes.bootstrap, topic, count, size_bytes)
        cpu, sent, copied = nodes.cpu_seconds(), nodes.metric(leader, _SENT), nodes.metric(leader, _COPIED)
        cycles = {one: nodes.metric(one, _SYNCS) for one in nodes.node_ids}
        rate = clients.run(process)["per_second"]
        cpu_us = (nodes.cpu_seconds() - cpu) / count * 1e6
        more = {one: nodes.metric(one, _SYNCS) - cycles[one] for one in nodes.node_ids}
        sent, copied = nodes.metric(leader, _SENT) - sent, nodes.metric(leader, _COPIED) - copied
        share = sent / (sent + copied)
        told = f"  {kind:18} {rate:10,.0f}/s  {cpu_us:.3f} us of CPU  {share:.2f} by sendfile"
        if size_bytes > 1000:
            self.shares.append(share)
        if flush == "sync":
            ratio = max(more[one] for one in more if one != leader) / more[leader]
            self.cycles.append(ratio)
            told += f"  {more[leader]:.0f} syncs of the leader, a follower {ratio:.2f} times as many"
        print(told, file=sys.stderr, flush=True)
        self._topics.delete(topic)
        return rate, cpu_us


def _measure_at(folder: Path, repetitions: int) -> list[Outcome]:
    with LocalNodes(folder, settings={"log.segment.delete.delay.ms": "200"}, watched=False) as nodes:
        nodes.start()
        nodes.wait_ready()
        runs = _Runs(nodes)
        kinds = [f"{flush} {size}" for flush, size in _RATES]
        found = interleaved(kinds, repetitions, runs.run)
    rates = {kind: median(rate for rate, _ in found[kind]) for kind in kinds}
    return [
        *(
            line.outcome(rates[f"{flush} {size}"], cpu_us=median(cpu for _, cpu in found[f"{flush} {size}"]))
            for (flush, size), line in _RATES.items()
        ),
        _SYNCED.outcome(rates["sync 1024"] / rates["kafka-flush 1024"]),
        _SENDFILE.outcome(median(runs.shares), least=min(runs.shares)),
        _CYCLES.outcome(median(runs.cycles), worst=max(runs.cycles)),
    ]


def _measure(settings: Settings) -> list[Outcome]:
    with settings.folder(settings.disk) as folder:
        return _measure_at(folder, settings.repetitions)


CELL = Cell("replicas-produce", (*_RATES.values(), _SYNCED, _SENDFILE, _CYCLES), _measure)
