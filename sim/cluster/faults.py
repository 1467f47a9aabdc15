"""Everything that goes wrong in a cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sim.cluster.member import Member
from sim.cluster.surroundings import Surroundings
from stratalog.wire.batch import iter_headers

__all__ = ["Faults"]

_DOWN_SECONDS: Final = 4.0
_CUT_SECONDS: Final = 10.0
_SLOW: Final = 100.0
_ATTRIBUTES: Final = 21
"""The place in a batch from which on its CRC covers it."""


class Faults:
    """Draws one fault after the other."""

    def __init__(self, world: Surroundings, dice: random.Random) -> None:
        self._world = world
        self._dice = dice

    async def run(self) -> None:
        """Break things until the time of faults is over, then mend everything."""
        world, dice = self._world, self._dice
        end = world.loop.time() + world.plan.fault_seconds
        while world.loop.time() < end:
            await asyncio.sleep(dice.uniform(0, 2 * world.plan.fault_every))
            if world.plan.faults and self._is_every_loss_told():
                kind = dice.choice(world.plan.faults)
                world.trace.note("faults", kind)
                _KINDS[kind](self)
        world.heal()
        world.bucket.heal()
        for member in world.members.values():
            self._well(member)

    def _any(self, *, controllers: bool | None = None) -> Member:
        """Any node, or any of a kind; the active controller more often than another."""
        members: list[Member] = list(self._world.members.values())
        active = [one for one in members if one.active_epoch is not None]
        if controllers is not False and active and self._dice.random() < (0.5 if controllers else 0.25):
            return self._dice.choice(active)
        return self._dice.choice([one for one in members if controllers in (None, one.is_controller)])

    def _later(self, seconds: float, call: Callable[..., object], *arguments: Any) -> None:
        self._world.loop.call_later(self._dice.uniform(0, seconds), call, *arguments)

    def _may_lose(self, member: Member) -> bool:
        """Whether all that is acknowledged would still be there without what this machine has; it is then lost.

        All replicas are in sync, and the controller hears all brokers.
        """
        if member.is_controller:
            return True
        image = self._world.newest_image()
        topics = image.topics.by_id.values()
        states = [one for topic in topics for one in topic.partitions.values() if len(one.replicas) > 1]
        brokers = [one for one in self._world.members.values() if not one.is_controller]
        present = image.brokers.brokers
        is_well = all(one.is_ready and present[one.id].is_active for one in brokers)
        if not is_well or any(len(one.in_sync_replicas) < len(one.replicas) for one in states):
            return False
        self._world.heal()
        for one in self._world.members.values():
            self._well(one)
        member.lost_in = present[member.id].epoch
        return True

    def _is_every_loss_told(self) -> bool:
        """Without eligible leader replicas a controller that hears of others first keeps, as the last, who lost its disk."""
        present = self._world.newest_image().brokers.brokers
        return all(present[one.id].epoch > one.lost_in for one in self._world.members.values() if one.lost_in >= 0)

    def _kill(self) -> None:
        member = self._any()
        if self._world.plan.unsynced and not self._may_lose(member):
            return
        member.down_seconds = self._dice.uniform(0, _DOWN_SECONDS)
        member.kill()

    def _power(self) -> None:
        """One machine, or all of them."""
        members = list(self._world.members.values()) if self._dice.random() < 0.2 else [self._any()]
        if self._world.plan.unsynced:
            members = [one for one in members[:1] if self._may_lose(one)]
        for member in members:
            member.down_seconds = self._dice.uniform(0, _DOWN_SECONDS)
            member.kill(power=True)

    def _stop(self) -> None:
        self._any().stop()

    def _wipe(self) -> None:
        """The disk of a broker: what a controller's has the other controllers need to go on."""
        member = self._any(controllers=False)
        if not self._may_lose(member):
            return
        member.down_seconds = self._dice.uniform(0, _DOWN_SECONDS)
        member.wipe()

    def _damage(self) -> None:
        """A bit flips in the newest file of a log, where its start looks at every batch."""
        member = self._any(controllers=False)
        logs = sorted(Path(f"{member.directory}/log").glob("replicated*/*.log"))
        newest = sorted({log.parent: log for log in logs}.values())
        if not newest or not self._may_lose(member):
            return
        path = self._dice.choice(newest)
        member.down_seconds = self._dice.uniform(0, _DOWN_SECONDS)
        member.kill()
        batches = list(iter_headers(path.read_bytes()))
        if batches:
            at, header = self._dice.choice(batches)
            position = at + self._dice.randrange(_ATTRIBUTES, header.size_bytes)
            self._world.trace.note("faults", f"flips a bit of the batch at {header.base_offset} of {member} in {path}")
            member.disk.flip(str(path), position, self._dice.randrange(8))

    def _freeze(self) -> None:
        """A process stands still, for less than a session or for more."""
        process = self._any().process
        if process is not None and process.alive and not process.frozen:
            process.frozen = True
            self._later(self._dice.choice((1.0, 12.0)), self._world.loop.thaw, process)

    def _cut(self) -> None:
        """One direction, or both."""
        one, other = self._any().id, self._any().id
        self._world.cuts.add((one, other))
        if self._dice.random() < 0.5:
            self._world.cuts.add((other, one))
        self._later(_CUT_SECONDS, self._world.heal)

    def _isolate(self) -> None:
        """One node hears no other node, or no other node hears it, or both."""
        node_id, way = self._any().id, self._dice.randrange(3)
        for other in self._world.members:
            if other != node_id:
                self._world.cuts |= {(node_id, other)} if way != 0 else set()
                self._world.cuts |= {(other, node_id)} if way != 1 else set()
        self._later(_CUT_SECONDS, self._world.heal)

    def _split(self) -> None:
        """A controller and the other controllers do not hear each other; brokers hear all of them."""
        node_id = self._any(controllers=True).id
        for other in self._world.voter_ids:
            if other != node_id:
                self._world.cuts |= {(node_id, other), (other, node_id)}
        self._later(_CUT_SECONDS, self._world.heal)

    def _reset(self) -> None:
        self._world.loop.network.reset_some(self._dice.choice((0.2, 1.0)))

    def _slow(self) -> None:
        process = self._any().process
        if process is not None:
            process.thread_delay = _SLOW
            self._later(_CUT_SECONDS, setattr, process, "thread_delay", 1.0)

    def _bucket(self) -> None:
        """The bucket fails, or is slow, or out of reach."""
        self._world.trace.note("faults", f"the bucket: {self._world.bucket.spoil()}")
        self._later(_CUT_SECONDS, self._world.bucket.heal)

    def _worker(self) -> None:
        """A worker process dies."""
        workers = list(self._world.spawner.workers_alive)
        if workers:
            self._dice.choice(workers).process.kill()

    def _clock(self) -> None:
        """The wall clock of a machine is set, to the future or to the past."""
        self._any().clock.jump(self._dice.choice((-1, 1)) * self._dice.randrange(3_600_000))

    def _well(self, member: Member) -> None:
        process = member.process
        if process is not None:
            process.thread_delay = 1.0
            if process.frozen:
                self._world.loop.thaw(process)


_KINDS: Final[dict[str, Callable[[Faults], None]]] = {
    "kill": Faults._kill,
    "power": Faults._power,
    "stop": Faults._stop,
    "wipe": Faults._wipe,
    "freeze": Faults._freeze,
    "cut": Faults._cut,
    "isolate": Faults._isolate,
    "split": Faults._split,
    "reset": Faults._reset,
    "slow": Faults._slow,
    "clock": Faults._clock,
    "bucket": Faults._bucket,
    "worker": Faults._worker,
    "damage": Faults._damage,
}
