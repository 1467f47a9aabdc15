"""Everything that goes wrong in a cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from sim.cluster.bit_rot import BitRot
from sim.cluster.member import Member
from sim.cluster.plan import Unclean
from sim.cluster.surroundings import Surroundings
from stratalog.metadata.image.topics_image import NO_LEADER, PartitionImage

__all__ = ["Faults"]

_DOWN_SECONDS: Final = 4.0
_CUT_SECONDS: Final = 10.0
_SLOW: Final = 100.0
_LOOK_SECONDS: Final = 0.5
_STARTED_AGAIN: Final = 0.3
"""The share of the brokers with a changed bit that are killed before anything reads there."""


class Faults:
    """Draws one fault after the other."""

    def __init__(self, world: Surroundings, dice: random.Random) -> None:
        self._world = world
        self._dice = dice
        self._rot = BitRot(world, dice)
        self._is_over = False

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
        self._is_over = True
        world.heal()
        world.bucket.heal()
        for member in world.members.values():
            self._well(member)
        while not self._rot.is_told():  # noqa: ASYNC110 - it looks again itself
            await asyncio.sleep(_LOOK_SECONDS)

    def _any(self, *, controllers: bool | None = None) -> Member:
        """Any node, or any of a kind; the active controller more often than another."""
        members: list[Member] = list(self._world.members.values())
        active = [one for one in members if one.active_epoch is not None]
        if controllers is not False and active and self._dice.random() < (0.5 if controllers else 0.25):
            return self._dice.choice(active)
        return self._dice.choice([one for one in members if controllers in (None, one.is_controller)])

    def _later(self, seconds: float, call: Callable[..., object], *arguments: Any) -> None:
        self._world.loop.call_later(self._dice.uniform(0, seconds), call, *arguments)

    def _may_lose(self, *members: Member) -> bool:
        """Whether these machines may lose what they have; it is then lost with their registrations."""
        if not self._is_kept_without(*members):
            return False
        present = self._world.newest_image().brokers.brokers
        for one in members:
            if not one.is_controller:
                one.lost_in = present[one.id].epoch
        return True

    def _is_kept_without(self, *members: Member) -> bool:
        """Whether all that is to be kept would still be there without what these machines have.

        All replicas are in sync, and the controller hears all brokers. Where eligible replicas are kept under one minimum
        it is enough that fewer machines than that lose something, and that one is left that is in sync or eligible.
        """
        brokers = [one for one in members if not one.is_controller]
        if not brokers:
            return True
        present = self._world.newest_image().brokers.brokers
        states = list(self._states_to_keep())
        if self._world.plan.keeps_one_minimum:
            lost = {one.id for one in brokers}
            is_kept = len(lost) < self._world.plan.min_in_sync and all(
                {*one.in_sync_replicas, *one.eligible_leader_replicas} - lost for one in states
            )
        else:
            all_brokers = [one for one in self._world.members.values() if not one.is_controller]
            is_well = all(one.is_ready and present[one.id].is_active for one in all_brokers)
            is_kept = (
                is_well and len(brokers) == 1 and all(len(one.in_sync_replicas) == len(one.replicas) for one in states)
            )
        if not is_kept or any(one.id not in present for one in brokers):
            return False
        self._world.heal()
        for one in self._world.members.values():
            self._well(one)
        return True

    def _states_to_keep(self) -> Iterator[PartitionImage]:
        """Replicated partitions that may lose nothing."""
        for topic in self._world.newest_image().topics.by_id.values():
            if self._world.plan.unclean is not Unclean.NEVER and topic.topic_id in self._world.model.topics:
                continue
            yield from (one for one in topic.partitions.values() if len(one.replicas) > 1)

    def _is_every_loss_told(self) -> bool:
        """Without eligible leader replicas a controller that hears of others first keeps, as the last, who lost its disk."""
        present = self._world.newest_image().brokers.brokers
        lost = [one for one in self._world.members.values() if one.lost_in >= 0]
        return self._rot.is_told() and all(present[one.id].epoch > one.lost_in for one in lost)

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
            members = self._unsynced(members)
        for member in members:
            member.down_seconds = self._dice.uniform(0, _DOWN_SECONDS)
            member.kill(power=True)

    def _unsynced(self, members: list[Member]) -> list[Member]:
        """As many of the machines as may lose what they had not synced."""
        if not self._world.plan.keeps_one_minimum:
            return [one for one in members[:1] if self._may_lose(one)]
        brokers = [one for one in members if not one.is_controller]
        self._dice.shuffle(brokers)
        chosen = [*brokers[: self._world.plan.min_in_sync - 1], *(one for one in members if one.is_controller)]
        return chosen if self._may_lose(*chosen) else []

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
        """A bit flips in the newest file of a log, where its start looks at what was written last."""
        member = self._any(controllers=False)
        if self._is_alone(member):
            return  # the end of an only log is cut as one that was torn
        if self._is_kept_without(member) and self._rot.flip(member, newest=True) and self._may_lose(member):
            member.down_seconds = self._dice.uniform(0, _DOWN_SECONDS)
            member.kill()

    def _rot_away(self) -> None:
        """A bit flips in any file of a log, and the broker goes on, or comes back, without knowing."""
        member = self._any(controllers=False)
        if not (self._is_kept_without(member) and self._rot.flip(member)):
            return
        if self._dice.random() < _STARTED_AGAIN and self._may_lose(member):
            member.kill()

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

    def _strand(self) -> None:
        """A leader and the other brokers do not hear each other until it is alone in sync; then it dies."""
        leader = self._any_leader()
        if leader is not None:
            self._keep_stranded(leader, self._world.loop.time() + 2 * self._world.plan.lag_seconds + _DOWN_SECONDS)

    def _keep_stranded(self, leader: Member, end: float) -> None:
        if self._is_over:
            return
        if self._world.loop.time() >= end or self._is_alone(leader):
            self._end_stranded(leader)
            return
        for other in self._world.members.values():
            if other is not leader and not other.is_controller:
                self._world.cuts |= {(leader.id, other.id), (other.id, leader.id)}
        self._world.loop.call_later(self._dice.uniform(0.2, 1.0), self._keep_stranded, leader, end)

    def _is_alone(self, leader: Member) -> bool:
        """Whether it leads a partition of the clients' topics without another one in sync."""
        return any(state.in_sync_replicas == (leader.id,) for state in self._states())

    def _states(self) -> Iterator[PartitionImage]:
        """The partitions of the clients' topics."""
        topics = self._world.newest_image().topics.by_id
        for topic_id in self._world.model.topics:
            yield from topics[topic_id].partitions.values() if topic_id in topics else ()

    def _any_leader(self) -> Member | None:
        """The leader of any partition of the clients' topics."""
        leaders = sorted({state.leader for state in self._states()} - {NO_LEADER})
        return self._world.members[self._dice.choice(leaders)] if leaders else None

    def _end_stranded(self, leader: Member) -> None:
        """Kill it, with its page cache or its disk, or without."""
        self._later(_CUT_SECONDS, self._world.heal)
        how = self._dice.choice(("kill", "kill", "power", "wipe"))
        if (how == "wipe" or self._world.plan.unsynced) and not self._may_lose(leader):
            return
        self._world.trace.note("faults", f"{how} of {leader}, which was cut off")
        leader.down_seconds = self._dice.uniform(0, 3 * _DOWN_SECONDS)
        if how == "wipe":
            leader.wipe()
        else:
            leader.kill(power=how == "power")

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
    "rot": Faults._rot_away,
    "strand": Faults._strand,
}
