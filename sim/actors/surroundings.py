"""The part of a world that its actors see; the world itself imports the actors."""

from __future__ import annotations

from typing import Protocol

from sim.model import Model, TopicModel
from sim.plan import Plan
from sim.trace import Trace
from sim.under.bucket import Bucket
from sim.under.clock import SimClock
from sim.under.disk import Disk
from sim.under.loop import VirtualLoop
from sim.under.process import Process
from sim.under.spawner import SimSpawner

__all__ = ["ProducerIdCheck", "Surroundings"]


class ProducerIdCheck(Protocol):
    """Judges the producer ids that clients get."""

    def new_producer_id(self, producer_id: int, name: str, /) -> None:
        """A client got this producer id. Raises `Violation` if another one has it."""
        ...


class Surroundings(Protocol):
    """A run, for those who act in it: the port of the broker, what they may break, and the model of the answers."""

    plan: Plan
    trace: Trace
    loop: VirtualLoop
    clock: SimClock
    disk: Disk
    bucket: Bucket
    spawner: SimSpawner
    model: Model
    port: int
    broker: Process | None
    """The process of the broker; None while there is none."""

    @property
    def checker(self) -> ProducerIdCheck:
        """The judge of producer ids."""
        ...

    def kill_broker(self) -> None:
        """End the broker's process as SIGKILL does."""
        ...

    def stop_broker(self) -> None:
        """Ask the broker to stop as SIGTERM does."""
        ...

    def check_may_be_gone(self, topic: TopicModel, who: str, /) -> None:
        """A client got the answer that a topic does not exist. Raises `Violation` if that cannot be."""
        ...
