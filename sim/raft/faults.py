"""Everything that goes wrong in a run, and what an administrator does meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final

from sim.raft.disk import Disk
from sim.raft.node import Node
from sim.raft.surroundings import Surroundings
from stratalog.metadata.raft.events import HandOver, UpgradeProposed
from stratalog.metadata.raft.log_view import BEFORE_THE_LOG
from stratalog.metadata.raft.messages import (
    AddVoterRequest,
    Answer,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChange,
)
from stratalog.metadata.raft.states import Leader
from stratalog.metadata.raft.voter_set import Voter, VoterSet

__all__ = ["Faults"]

_VOTERS_MAX: Final = 5
_REPAIR_MS: Final = 1500
_HAND_OVER_MS_MAX: Final = 300


class Faults:
    """Draws one fault after the other."""

    def __init__(self, world: Surroundings) -> None:
        self._world = world
        self._tokens = count()
        self._asked: dict[str, tuple[Node, int, VoterChange]] = {}
        """Changes that a life of a leader has not answered yet: one that stands still appends them later."""

    def begin(self) -> None:
        """Start breaking things."""
        self._next()
        self._repair()

    def _next(self) -> None:
        world = self._world
        if world.faulty:
            if world.plan.faults:
                _KINDS[world.dice.choice(world.plan.faults)](self)
            world.schedule(1 + world.dice.randrange(2 * world.plan.fault_every_ms), self._next)

    def end(self) -> None:
        """Mend everything."""
        self._world.network.heal()
        for node in self._world.nodes.values():
            node.paused_until_ms = node.slow_until_ms = 0
            node.revive()

    def _any(self) -> Node:
        return self._world.dice.choice(list(self._world.nodes.values()))

    def _cut(self) -> None:
        """One direction, or both; everything is mended a while later."""
        world = self._world
        one, other = self._any(), self._any()
        world.network.cut(one.id, other.id)
        if world.dice.random() < 0.5:
            world.network.cut(other.id, one.id)
        world.schedule(world.dice.randrange(6000), world.network.heal)

    def _isolate(self) -> None:
        world = self._world
        leader = world.leader
        node = leader if leader is not None and world.dice.random() < 0.5 else self._any()
        world.network.isolate(node.id, list(world.nodes))
        world.schedule(world.dice.randrange(8000), world.network.heal)

    def _kill(self) -> None:
        """A process ends; now and then it was asked to, and hands over first what it leads."""
        world, node = self._world, self._any()
        hands_over_ms = world.dice.randrange(1000)
        if hands_over_ms < _HAND_OVER_MS_MAX:
            node.step(HandOver())
        else:
            hands_over_ms = 0
        life = node.life
        world.schedule(hands_over_ms, lambda: node.die(power=False) if node.life == life else None)
        world.schedule(hands_over_ms + world.dice.randrange(4000), node.revive)

    def _power(self) -> None:
        """One node, or all of them at once."""
        world = self._world
        nodes = list(world.nodes.values()) if world.dice.random() < 0.3 else [self._any()]
        for node in nodes:
            node.die(power=True)
            world.schedule(world.dice.randrange(4000), node.revive)

    def _pause(self) -> None:
        node = self._any()
        node.paused_until_ms = self._world.now_ms + self._world.dice.randrange(6000)

    def _jump(self) -> None:
        """A clock jumps ahead, by less than a time-out or by many."""
        self._any().jump(1 + self._world.dice.randrange(self._world.dice.choice((500, 5000, 60_000))))

    def _slow(self) -> None:
        """A disk takes very long for a while."""
        self._any().slow_until_ms = self._world.now_ms + self._world.dice.randrange(10_000)

    # -- disks and voters ----------------------------------------------------------------------------------------------

    def _voter_sets(self) -> list[VoterSet]:
        """The voters as the nodes know them, and as they may know them after a change that is under way."""
        views = [node.raft.log if node.raft is not None else node.disk.view() for node in self._world.nodes.values()]
        known = [view.voters for view in views if view.voters.voters]
        asked = [change for leader, life, change in self._asked.values() if leader.life == life]
        roles = [node.raft.role for node in self._world.nodes.values() if node.raft is not None]
        asked += [role.change.request for role in roles if isinstance(role, Leader) and role.change is not None]
        return known + [_after(change, voters) for change in asked for voters in known]

    def _survives(self, voters: VoterSet, lost: int) -> bool:
        """Whether a majority of these voters still has its disk when node ``lost`` has none."""
        nodes = self._world.nodes
        whole = [voter for voter in voters if voter.key.id != lost and voter.key.matches(nodes[voter.key.id].key)]
        return len(whole) >= voters.majority

    def _knows_disks(self) -> bool:
        """Whether every log has committed voters with directories: votes of static voters count for any disk."""
        committed = self._world.invariants.committed
        for node in self._world.nodes.values():
            log = node.raft.log if node.raft is not None else node.disk.view()
            at = log.kraft_versions[-1][0] if log.kraft_versions else BEFORE_THE_LOG
            is_open = at > BEFORE_THE_LOG and (at >= len(committed) or log.epoch_at(at + 1) != committed[at][0])
            if log.voters.voters and (log.kraft_version == 0 or is_open):
                return False
        return True

    def _wipe(self) -> None:
        """A disk is replaced, unless no majority of disks would be left: the quorum could not go on without it."""
        world, node = self._world, self._any()
        if (
            len(node.disk.batches)
            and self._knows_disks()
            and all(self._survives(voters, node.id) for voters in self._voter_sets())
        ):
            node.die(power=True)
            node.get_disk(Disk(world.new_directory_id(), kraft_version=world.plan.kraft_version))
            world.note(node.id, "has a new disk")
            world.schedule(world.dice.randrange(3000), node.revive)

    def _reconfigure(self) -> None:
        """Add, remove or update a voter."""
        leader = self._world.leader
        if leader is None or leader.raft is None:
            return
        voters, node = leader.raft.log.voters, self._any()
        voter = voters.voter(node.id)
        if voter is None:
            if len(voters) < _VOTERS_MAX and node.is_controller:
                self._add(leader, node)
        elif self._world.dice.random() < 0.2:
            self._ask(leader, UpdateVoterRequest(leader.raft.role.epoch, Voter(voter.key, node.endpoints)))
        elif len(voters) > 1 and all(self._survives(known.removed(voter.key), 0) for known in self._voter_sets()):
            self._ask(leader, RemoveVoterRequest(voter.key))

    def _repair(self) -> None:
        """The administrator takes voters out whose disk is gone, and puts their nodes back in, for as long as needed.

        Controllers that join by themselves do that themselves. An upgrade that faults have prevented is asked for again.
        """
        world, leader = self._world, self._world.leader
        if leader is not None and leader.raft is not None and leader.raft.log.kraft_version == 0:
            if "upgrade" in world.plan.faults and not world.faulty:
                self._upgrade()
        elif leader is not None and leader.raft is not None and not world.plan.auto_join:
            voters = leader.raft.log.voters
            gone = [voter.key for voter in voters if voter.key != world.nodes[voter.key.id].key]
            if gone:
                self._ask(leader, RemoveVoterRequest(gone[0]))
            else:
                missing = [node for node in world.controllers if voters.voter(node.id) is None]
                if missing and len(voters) < world.plan.voters:
                    self._add(leader, missing[0])
        world.schedule(_REPAIR_MS, self._repair)

    def _add(self, leader: Node, node: Node) -> None:
        acks = self._world.dice.random() < 0.5
        self._ask(leader, AddVoterRequest(Voter(node.key, node.endpoints), ack_when_committed=acks))

    def _move(self) -> None:
        """A node is started under another address."""
        node = self._any()
        node.die(power=False)
        node.moves += 1
        self._world.schedule(self._world.dice.randrange(2000), node.revive)

    def _upgrade(self) -> None:
        """An administrator raises ``kraft.version``."""
        for node in self._world.nodes.values():
            if node.active_epoch is not None:
                node.step(UpgradeProposed(f"upgrade {next(self._tokens)}", node.active_epoch, 1))

    def _ask(self, leader: Node, request: VoterChange) -> None:
        token = f"admin {next(self._tokens)}"
        self._asked[token] = (leader, leader.life, request)

        def answered(answer: Answer) -> None:
            del self._asked[token]
            self._world.note(leader.id, "answers", answer)

        leader.ask(token, request, answered)


def _after(change: VoterChange, voters: VoterSet) -> VoterSet:
    if isinstance(change, RemoveVoterRequest):
        return voters.removed(change.voter)
    if isinstance(change, AddVoterRequest) and voters.voter(change.voter.key.id) is None:
        return voters.added(change.voter)
    return voters


_KINDS: Final[dict[str, Callable[[Faults], None]]] = {
    "cut": Faults._cut,
    "isolate": Faults._isolate,
    "kill": Faults._kill,
    "power": Faults._power,
    "pause": Faults._pause,
    "jump": Faults._jump,
    "slow": Faults._slow,
    "wipe": Faults._wipe,
    "reconfigure": Faults._reconfigure,
    "move": Faults._move,
    "upgrade": Faults._upgrade,
}
