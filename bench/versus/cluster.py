"""Three nodes of either broker, one partition of three replicas, ``acks=all``, two in sync at least: rate and CPU of all nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.local_nodes import LocalNodes
from bench.outcome import Bound, Outcome, interleaved
from bench.replicated import Replicated
from bench.servers import KAFKA_FLUSH
from bench.versus import clients
from bench.versus.arena import KAFKA, OURS, Figures, Target, judge, tell
from bench.versus.kafka_nodes import KafkaNodes

__all__ = ["CELLS"]

_SYNCED: Final = "stratalog-synced"
_COUNTS: Final = {100: 1_000_000, 1024: 300_000}
_NO_FLUSH: Final = KAFKA_FLUSH["log.flush.interval.messages"]


def _load(nodes: LocalNodes | KafkaNodes, topic: str, size_bytes: int, flush_messages: str) -> Figures:
    topics, count = Replicated(nodes.bootstrap), _COUNTS[size_bytes]
    topics.create(topic, flush_messages=flush_messages)
    process = clients.start("produce", nodes.bootstrap, topic, count, size_bytes)
    before = nodes.cpu_seconds()
    figures = clients.run(process)
    figures["cpu_us"] = (nodes.cpu_seconds() - before) / count * 1e6
    topics.delete(topic)
    return figures


def _targets(size_bytes: int) -> list[Target]:
    name = f"cluster-produce-{size_bytes}B"
    return [
        Target(f"{name}: messages/s", "per_second", Bound(">=", 1.0)),
        Target(f"{name}: CPU of all nodes", "cpu_us", Bound("<=", 0.5)),
    ]


def cluster(folder: Path, repetitions: int) -> list[Outcome]:
    """Both by turns, ours also with sync on ack; a first round warms up and is dropped."""
    outcomes: list[Outcome] = []
    ours = LocalNodes(folder / OURS, settings={"log.segment.delete.delay.ms": "200"}, watched=False)
    with KafkaNodes(folder / KAFKA) as kafka, ours:
        ours.start()
        ours.wait_ready()
        for size_bytes in _COUNTS:

            def run(kind: str, repetition: int, size_bytes: int = size_bytes) -> Figures:
                nodes = kafka if kind == KAFKA else ours
                topic = f"{kind}-{size_bytes}-{repetition}"
                figures = _load(nodes, topic, size_bytes, "1" if kind == _SYNCED else _NO_FLUSH)
                tell(f"cluster-produce-{size_bytes}B", kind, repetition, figures)
                return figures

            results = interleaved((OURS, KAFKA, _SYNCED), repetitions + 1, run)
            found = {kind: figures[1:] for kind, figures in results.items()}
            outcomes += judge(_targets(size_bytes), found[OURS], found[KAFKA])
            synced = Target(f"cluster-synced-{size_bytes}B: messages/s", "per_second", Bound(">=", 0.7))
            outcomes += judge([synced], found[_SYNCED], found[KAFKA])
    return outcomes


CELLS = {"cluster": cluster}
