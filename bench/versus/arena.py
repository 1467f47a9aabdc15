"""Both brokers side by side: started alike, loaded in turn, compared pair by pair."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.outcome import Bound, Outcome, interleaved, median
from bench.servers import KAFKA_FLUSH, BrokerServer
from bench.versus.kafka import KafkaServer

__all__ = ["KAFKA", "OURS", "Arena", "Figures", "Target", "judge"]

OURS, KAFKA = "stratalog", "kafka"
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Target:
    """A line of the table: our figure over Kafka's of the same repetition, or ours alone (``absolute``)."""

    name: str
    figure: str
    bound: Bound
    unit: str = "stratalog / Kafka"
    absolute: bool = False


@dataclass
class Arena:
    """The two brokers of a run, their files under one folder."""

    servers: Mapping[str, BrokerServer]
    folder: Path
    repetitions: int

    @classmethod
    def open(cls, folder: Path, repetitions: int, stack: ExitStack) -> Arena:
        """Start both with Kafka's flush default; ``stack`` stops them."""
        kafka = stack.enter_context(KafkaServer.start(folder / "kafka"))
        ours = stack.enter_context(
            BrokerServer.start(folder / "stratalog", {**KAFKA_FLUSH, "log.segment.delete.delay.ms": "200"})
        )
        return cls({OURS: ours, KAFKA: kafka}, folder, repetitions)

    def compare(
        self,
        name: str,
        targets: Iterable[Target],
        load: Callable[[BrokerServer, str], Figures],
        *,
        partitions: int = 1,
        configs: Mapping[str, Mapping[str, str]] | None = None,
    ) -> list[Outcome]:
        """Load each broker on a fresh topic, in rotated order; a first round warms up and is dropped."""

        def run(kind: str, repetition: int) -> Figures:
            server = self.servers[kind]
            topic = f"{name}-{repetition:02}"
            server.create_topic(topic, partitions, **(configs or {}).get(kind, {}))
            figures = load(server, topic)
            server.delete_topic(topic)
            tell(name, kind, repetition, figures)
            return figures

        results = interleaved((OURS, KAFKA), self.repetitions + 1, run)
        return judge(targets, results[OURS][1:], results[KAFKA][1:])


def tell(name: str, kind: str, repetition: int, figures: Figures) -> None:
    """One run, on the terminal."""
    said = "  ".join(f"{key} {value:,.4g}" for key, value in figures.items())
    print(f"  {name:28} {repetition} {kind:10} {said}", file=sys.stderr, flush=True)


def judge(targets: Iterable[Target], ours: list[Figures], kafka: list[Figures]) -> list[Outcome]:
    """The median of the paired ratios for each target, with the medians of both beside it."""
    outcomes = []
    for target in targets:
        mine = [figures[target.figure] for figures in ours]
        theirs = [figures[target.figure] for figures in kafka]
        pairs = [one / other for one, other in zip(mine, theirs, strict=True)]
        measured = median(mine) if target.absolute else median(pairs)
        details: dict[str, float | str] = {
            "stratalog": median(mine),
            "kafka": median(theirs),
            "pairs": " ".join(f"{pair:.3g}" for pair in pairs),
        }
        outcomes.append(Outcome(target.name, target.unit, measured, target.bound, details=details))
    return outcomes
