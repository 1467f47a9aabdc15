"""The faults of a campaign: each one happens to nodes of a rig, lasts, and is mended."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import KafkaException

from bench.faults.rig import Rig
from bench.faults.seam import DiskMode
from stratalog.broker.local_cluster.cluster import ClusterFault
from stratalog.client.client import BrokerAway
from stratalog.wire.errors import KafkaError

__all__ = ["BUCKET", "DAMAGING", "FAULTS", "disturb"]

Fault = Callable[[Rig, random.Random], bool]
"""Whether it happened."""

DAMAGING: Final = frozenset({"flip"})
"""Faults after which one replica may keep damage that no read has met."""
BUCKET: Final = "bucket"
"""The fault that needs a store of objects."""
_CLOCK_MS: Final = 300_000


def _kill(rig: Rig, dice: random.Random) -> bool:
    """A process ends at once, now and then the one of the active controller, and starts again."""
    wish = rig.controller() if dice.random() < 0.3 else None
    with rig.take(dice, wish=wish) as nodes:
        if nodes:
            rig.nodes.kill_together(*nodes)
            rig.wait(dice.uniform(0, 5))
            _back(rig, *nodes)
    return bool(nodes)


def _back(rig: Rig, *node_ids: int) -> None:
    """Nodes start again; a run does not go on before they serve."""
    rig.nodes.start_again(*node_ids)
    for node_id in node_ids:
        if not rig.nodes.wait_serving(node_id):
            rig.problems.append(f"node {node_id} does not serve a minute after its start: see its log")


def _stop(rig: Rig, dice: random.Random) -> bool:
    """A process is asked to end, and starts again."""
    with rig.take(dice) as nodes:
        for node_id in nodes:
            rig.nodes.stop_in_order(node_id)
            rig.wait(dice.uniform(0, 3))
            _back(rig, node_id)
    return bool(nodes)


def _pause(rig: Rig, dice: random.Random) -> bool:
    """A process stands still for 1 to 30 s: a leader, the active controller or any node."""
    role = dice.choice(["leader", "controller", "any"])
    wish = None
    if role == "leader":
        wish = rig.leader("plain", 0)
    elif role == "controller":
        wish = rig.controller()
    with rig.take(dice, wish=wish) as nodes:
        for node_id in nodes:
            rig.nodes.signal(node_id, signal.SIGSTOP)
            rig.wait(dice.choice([dice.uniform(1, 4), dice.uniform(4, 12), dice.uniform(12, 30)]))
            rig.nodes.signal(node_id, signal.SIGCONT)
    return bool(nodes)


def _cut(rig: Rig, dice: random.Random, *, one_way: bool = False) -> bool:
    """The link between two nodes carries nothing for a while."""
    one, other = dice.sample(rig.nodes.node_ids, 2)
    rig.nodes.partition(one, other, one_way=one_way)
    rig.wait(dice.choice([dice.uniform(1, 4), dice.uniform(4, 15)]))
    rig.nodes.heal(one, other)
    return True


def _cut_one_way(rig: Rig, dice: random.Random) -> bool:
    """A link carries nothing in one direction for a while."""
    return _cut(rig, dice, one_way=True)


def _isolate(rig: Rig, dice: random.Random) -> bool:
    """A node hears no other node and reaches none; clients still reach it."""
    with rig.take(dice) as nodes:
        for node_id in nodes:
            others = [one for one in rig.nodes.node_ids if one != node_id]
            rig.nodes.isolate(node_id)
            rig.wait(dice.choice([dice.uniform(1, 4), dice.uniform(4, 15)]))
            for other in others:
                rig.nodes.heal(node_id, other)
    return bool(nodes)


def _power(count: int) -> Fault:
    """Nodes lose power at one moment."""

    def lose(rig: Rig, dice: random.Random) -> bool:
        with rig.take(dice, count=count) as nodes:
            if nodes:
                dropped = rig.nodes.lose_power(*nodes)
                rig.counts["bytes dropped by power cuts"] += dropped
                rig.wait(dice.uniform(0, 4))
                _back(rig, *nodes)
        return bool(nodes)

    return lose


def _disk(mode: DiskMode) -> Fault:
    """The disk of one node misbehaves for a while. A node that gave it up is started again, as by its operator."""

    def misbehave(rig: Rig, dice: random.Random) -> bool:
        with rig.take(dice) as nodes:
            for node_id in nodes:
                rig.nodes.page(node_id).set(mode, delay_ms=dice.choice([50, 200, 1000]))
                rig.wait(dice.uniform(1, 12))
                rig.nodes.page(node_id).set(DiskMode.WHOLE)
                if mode is DiskMode.BROKEN:
                    rig.nodes.note_end(node_id, meant=True)
                    rig.nodes.kill_together(node_id)
                    _back(rig, node_id)
        return bool(nodes)

    return misbehave


def _flip(rig: Rig, dice: random.Random) -> bool:
    """A bit of one segment of one node is another one after a kill."""
    with rig.destroying() as safe, rig.take(dice) as nodes:
        for node_id in nodes if safe else []:
            rig.nodes.kill_together(node_id)
            rig.say(f"  flipped in {rig.nodes.flip_a_bit(node_id, dice) or 'no segment'}")
            _back(rig, node_id)
    return bool(nodes) and safe


def _wipe(rig: Rig, dice: random.Random) -> bool:
    """A node comes back without its partitions."""
    with rig.destroying() as safe, rig.take(dice) as nodes:
        for node_id in nodes if safe else []:
            rig.nodes.kill_together(node_id)
            rig.nodes.wipe(node_id)
            rig.wait(dice.choice([0, dice.uniform(0, 5)]))
            _back(rig, node_id)
    return bool(nodes) and safe


def _clock(rig: Rig, dice: random.Random) -> bool:
    """The clock of one node goes five minutes ahead or back for a while."""
    with rig.take(dice) as nodes:
        for node_id in nodes:
            rig.nodes.page(node_id).set_clock(dice.choice([-_CLOCK_MS, _CLOCK_MS]))
            rig.wait(dice.uniform(2, 10))
            rig.nodes.page(node_id).set_clock(0)
    return bool(nodes)


def _move(rig: Rig, dice: random.Random) -> bool:
    """The leaders of some partitions are moved to another replica, which stays the preferred one."""
    topic = dice.choice([name for name in ("plain", "tiered", "tiered", "transfers") if name in rig.topics()] or [""])
    try:
        moved = rig.move_leaders(topic, dice) if topic else 0
    except (BrokerAway, KafkaError, KafkaException) as error:
        rig.say(f"  not moved: {error}")
        return False
    rig.counts["leaders moved"] += moved
    return moved > 0


def _bucket(rig: Rig, dice: random.Random) -> bool:
    """The store refuses, resets, is slow, or loses its answers for a while."""
    if rig.bucket is None:
        raise RuntimeError("the run has no store that can misbehave")
    rig.bucket.spoil(dice)
    rig.wait(dice.choice([dice.uniform(1, 4), dice.uniform(4, 12)]))
    rig.bucket.mend()
    return True


FAULTS: Final[Mapping[str, Fault]] = {
    "kill": _kill,
    "stop": _stop,
    "pause": _pause,
    "cut": _cut,
    "cut-one-way": _cut_one_way,
    "isolate": _isolate,
    "power-1": _power(1),
    "power-2": _power(2),
    "power-3": _power(3),
    "eio": _disk(DiskMode.BROKEN),
    "full": _disk(DiskMode.FULL),
    "slow": _disk(DiskMode.SLOW),
    "flip": _flip,
    "wipe": _wipe,
    "clock": _clock,
    "move": _move,
    BUCKET: _bucket,
}
"""By the name that ``FAULTS=`` takes; two of them with ``+`` between go on at a time."""


def disturb(rig: Rig, name: str, dice: random.Random) -> None:
    """Let one kind of fault happen until the run is over."""
    fault = FAULTS[name]
    while not rig.over.is_set():
        rig.wait(dice.uniform(0.5, 4))
        if rig.over.is_set():
            return
        rig.say(name)
        try:
            if fault(rig, dice):
                rig.counts[name] += 1
        except ClusterFault as failed:
            if rig.over.is_set():
                return
            rig.problems.append(f"{name}: {failed}")
            rig.wait(1)
