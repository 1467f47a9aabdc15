"""The promises of the quorum, looked at after every step: the seven of Kafka's ``RaftEventSimulationTest``, and ours.

Kafka's: epochs never go back and one node leads each (`after_step`), the high watermark never goes back and a majority
has what is below it (`_leader_commits`), committed records are neither lost nor changed and the same everywhere
(`_committed`, `_new_leader`), logs do not part under one epoch (`_append`), snapshots end at or below the high watermark
and agree (`_snapshot`). Ours: voters change one at a time (`_voters_change`), epoch and vote are on disk before they leave the node
(`_reply`, `_send`), a controller says only what it has synced (`_send`), every node acts on committed records only
(`_committed`).
"""

from __future__ import annotations

from typing import Any, Final

from sim.raft.disk import Record, decoded, records_of
from sim.raft.surroundings import SimulatedNode
from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.messages import FetchRequest, KRaftVersion, OffsetAndEpoch, VoteAnswer, VoteRequest, Voters
from stratalog.metadata.raft.states import Leader, Resigned
from stratalog.metadata.raft.voter_set import ReplicaKey

__all__ = ["Invariants", "Violation"]


class Violation(Exception):
    """A promise is broken."""


class Invariants:
    """Everything that was ever promised in a run."""

    def __init__(self) -> None:
        self.committed: list[Record] = []
        """The records that any leader has committed, by offset."""
        self.leaders: dict[int, ReplicaKey] = {}
        self._epochs: dict[ReplicaKey, int] = {}
        self._high_watermarks: dict[int, int] = {}
        self._leader_high_watermark = 0
        self._committed_ends: dict[int, int] = {}
        """By epoch: how far its leader has committed."""
        self._written: dict[tuple[int, int], tuple[Record, int]] = {}
        """By (offset, epoch): the record, and the epoch of the record before it. Unique, so that whole logs agree."""
        self._synced: dict[ReplicaKey, int] = {}
        """How far each voter's disk ever was synced since its last truncation: a disk that is lost had it."""
        self._snapshots: dict[OffsetAndEpoch, tuple[Record, ...]] = {}
        self._contents: set[bytes] = set()

    def gone(self, node: SimulatedNode) -> None:
        """A process has ended: its high watermark begins anew."""
        self._high_watermarks.pop(node.id, None)

    def synced(self, node: SimulatedNode) -> None:
        """A node's disk has more than before."""
        self._synced[node.key] = max(self._synced.get(node.key, 0), node.disk.flushed_offset)

    # -- before an action ----------------------------------------------------------------------------------------------

    def before(self, node: SimulatedNode, action: act.Action) -> None:
        """Look at what a node is about to do. Raises `Violation`."""
        check = _CHECKS.get(type(action))
        if check is not None:
            check(self, node, action)

    def _reply(self, node: SimulatedNode, action: act.Reply) -> None:
        answer = action.answer
        epoch = getattr(answer, "epoch", 0)
        state = node.disk.quorum_state
        on_disk = -1 if state is None else state.leader_epoch
        if epoch > on_disk:
            raise Violation(f"node {node.id} tells epoch {epoch}, on its disk is {on_disk}")
        asker = getattr(action.token, "request", None)
        if not isinstance(answer, VoteAnswer) or not isinstance(asker, VoteRequest):
            return
        voted = None if state is None else (state.leader_epoch, state.voted_id)
        if answer.granted and not asker.pre_vote and voted != (asker.epoch, asker.candidate.id):
            raise Violation(f"node {node.id} tells a vote for {asker.candidate.id} that is not on its disk: {state}")

    def _send(self, node: SimulatedNode, action: act.Send) -> None:
        request, state = action.request, node.disk.quorum_state
        on_disk = -1 if state is None else state.leader_epoch
        if getattr(request, "epoch", -1) > on_disk:
            raise Violation(f"node {node.id} sends a request of an epoch that is not on its disk: {request}")
        if (
            isinstance(request, VoteRequest)
            and not request.pre_vote
            and state is not None
            and state.voted_id != node.id
        ):
            raise Violation(f"node {node.id} stands without its own vote on its disk")
        counts = node.is_controller or (node.raft is not None and node.raft.is_voter)
        if isinstance(request, FetchRequest) and counts and request.offset > node.disk.flushed_offset:
            raise Violation(
                f"node {node.id} says that it has {request.offset} records, synced are {node.disk.flushed_offset}"
            )

    def _append(self, node: SimulatedNode, action: act.Append) -> None:
        if node.raft is not None and isinstance(node.raft.role, Leader):
            self._voters_change(node, action)
        last = node.disk.batches[-1].epoch if node.disk.batches else max(node.disk.snapshots, default=(0, 0))[1]
        for batch in action.batches:
            for offset, record in enumerate(records_of(batch), batch.base_offset):
                known = self._written.setdefault((offset, batch.epoch), (record, last))
                if known != (record, last):
                    raise Violation(
                        f"node {node.id} appends {record} at offset {offset} after epoch {last}; "
                        f"under this epoch there was {known[0]} after epoch {known[1]}"
                    )
                last = batch.epoch

    def _voters_change(self, node: SimulatedNode, action: act.Append) -> None:
        """One change of the voters at a time, by one voter; an upgrade only names the disks of those that there are."""
        (batch,) = action.batches
        first = batch.control[0] if batch.control else None
        if node.raft is None or not isinstance(first, Voters | KRaftVersion):
            return
        if not isinstance(batch.control[-1], Voters):
            raise Violation(f"leader {node.id} raises the level to {first.level} and leaves the voters out")
        (_, before), (_, after) = node.raft.log.voter_sets[-2:]
        at = node.raft.log.voter_sets[-2][0]
        if at >= len(self.committed):
            raise Violation(f"leader {node.id} changes the voters again, the change at offset {at} is not committed")
        if len(after.ids) != len(after):
            raise Violation(f"leader {node.id} lets one node vote twice: {after}")
        if isinstance(first, KRaftVersion):
            unknown = [voter.key for voter in after if voter.key not in self._epochs]
            if before.ids != after.ids or unknown:
                raise Violation(f"leader {node.id} upgrades {before} to {after}, without a disk: {unknown}")
        elif len({voter.key for voter in before} ^ {voter.key for voter in after}) > 1:
            raise Violation(f"leader {node.id} changes the voters from {before} to {after} at once")

    def _truncate(self, node: SimulatedNode, action: act.Truncate) -> None:
        self._synced[node.key] = min(self._synced.get(node.key, 0), action.offset)

    def _committed(self, node: SimulatedNode, action: act.Committed) -> None:
        end = action.high_watermark
        before = self._high_watermarks.get(node.id, 0)
        if end < before:
            raise Violation(f"the high watermark of node {node.id} goes back from {before} to {end}")
        self._high_watermarks[node.id] = end
        role = node.raft.role if node.raft is not None else None
        if isinstance(role, Leader | Resigned) and role.leader_id == node.id:  # it may resign in the step that commits
            self._leader_commits(node, role, end)
        elif end > len(self.committed):
            raise Violation(f"node {node.id} acts on records up to {end}, committed are {len(self.committed)}")
        records, wanted = node.disk.records(end, before), self.committed[before:end]
        if records != wanted:
            at = next(at for at, one in enumerate(wanted) if at >= len(records) or one != records[at])
            has = records[at] if at < len(records) else "nothing"
            raise Violation(f"node {node.id} has {has} at offset {before + at}; {wanted[at]} is committed there")

    def _leader_commits(self, node: SimulatedNode, role: Leader | Resigned, end: int) -> None:
        if role.epoch >= max(self.leaders, default=0):
            if end < self._leader_high_watermark:
                raise Violation(f"the quorum's high watermark goes back from {self._leader_high_watermark} to {end}")
            self._leader_high_watermark = end
        assert node.raft is not None
        voters = node.raft.log.voters
        having = [voter.key.id for voter in voters if self._reach(voter.key) >= end]
        if len(having) < voters.majority:
            raise Violation(
                f"leader {node.id} commits up to {end}, of voters {sorted(voters.ids)} only {having} have it"
            )
        self._committed_ends[role.epoch] = max(end, self._committed_ends.get(role.epoch, 0))
        self.committed += node.disk.records(end, len(self.committed))

    def _reach(self, key: ReplicaKey) -> int:
        return max((end for known, end in self._synced.items() if key.matches(known)), default=0)

    def _write_snapshot(self, node: SimulatedNode, action: act.WriteSnapshot) -> None:
        self._snapshot(node, action.snapshot, tuple(node.disk.records(action.snapshot.offset)))

    def _snapshot(self, node: SimulatedNode, snapshot: OffsetAndEpoch, records: tuple[Record, ...]) -> None:
        if snapshot.offset > len(self.committed):
            raise Violation(f"a snapshot of node {node.id} ends at {snapshot}, committed are {len(self.committed)}")
        if list(records) != self.committed[: snapshot.offset] or records[-1][0] != snapshot.epoch:
            raise Violation(f"snapshot {snapshot} of node {node.id} is not what is committed")
        if self._snapshots.setdefault(snapshot, records) != records:
            raise Violation(f"two snapshots {snapshot} differ")

    def snapshot_kept(self, content: bytes) -> None:
        """A node has written a snapshot of its own log."""
        self._contents.add(content)

    def snapshot_loaded(self, node: SimulatedNode, snapshot: OffsetAndEpoch) -> None:
        """A snapshot of another node has taken the place of a log."""
        content = node.disk.snapshots[snapshot]
        if content not in self._contents:
            raise Violation(f"snapshot {snapshot} of node {node.id} is made of parts of several")
        self._snapshot(node, snapshot, decoded(content)[0])

    def _became_leader(self, node: SimulatedNode, action: act.BecameLeader) -> None:
        if self.leaders.get(action.epoch) != node.key:
            raise Violation(
                f"node {node.id} is active in epoch {action.epoch}, which {self.leaders.get(action.epoch)} leads"
            )

    def _stops(self, node: SimulatedNode, action: act.Stop) -> None:
        raise Violation(f"node {node.id} stops: {action.reason}")

    # -- after a step --------------------------------------------------------------------------------------------------

    def after_step(self, node: SimulatedNode) -> None:
        """Look at a node that has stepped. Raises `Violation`."""
        self.synced(node)
        if node.raft is None:
            return
        key = node.key
        role = node.raft.role
        before = self._epochs.get(key, 0)
        if role.epoch < before:
            raise Violation(f"the epoch of node {node.id} goes back from {before} to {role.epoch}")
        self._epochs[key] = role.epoch
        if isinstance(role, Leader) and role.epoch not in self.leaders:
            self._new_leader(node, role.epoch)
        if isinstance(role, Leader) and self.leaders[role.epoch] != key:
            raise Violation(f"epoch {role.epoch} has two leaders, {self.leaders[role.epoch].id} and {node.id}")

    def _new_leader(self, node: SimulatedNode, epoch: int) -> None:
        """It has what earlier epochs have committed. A later one may have committed more when the votes come late."""
        self.leaders[epoch] = node.key
        end = max((end for earlier, end in self._committed_ends.items() if earlier < epoch), default=0)
        if node.disk.records(end) != self.committed[:end]:
            raise Violation(f"node {node.id} leads epoch {epoch} without all committed records")


_CHECKS: Final[dict[type, Any]] = {
    act.Reply: Invariants._reply,
    act.Send: Invariants._send,
    act.Append: Invariants._append,
    act.Truncate: Invariants._truncate,
    act.Committed: Invariants._committed,
    act.WriteSnapshot: Invariants._write_snapshot,
    act.BecameLeader: Invariants._became_leader,
    act.Stop: Invariants._stops,
}
