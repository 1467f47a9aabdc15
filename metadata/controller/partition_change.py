"""The change of one partition: who is in sync, who may still lead, who leads, and which epochs rise.

Each change raises the partition epoch, and naming a leader raises the leader epoch, even if it is the same leader. A
smaller in-sync set alone does not (since 3.6), a replica that is no longer assigned does.

The leader is the present one while it is in sync and acceptable; else the first replica, in the assigned order, that is
both; else the first of the eligible leader replicas, which is then alone in sync (KIP-966). With none in sync or
eligible the last known leader takes over, and where unclean elections are allowed, the first acceptable replica: it is
alone in sync and RECOVERING, which stays over further elections until a leader reports the end of its recovery. One that is
being added has next to no records: it comes after the others, and leads only by an election on request.

Sources: Kafka's ``PartitionChangeBuilder``; KIP-455, KIP-704, KIP-858, KIP-966. On purpose otherwise than there:

- an eligible replica is elected also if members of the in-sync set are left that cannot lead
- no unclean leader is elected while a member of the in-sync set or an eligible replica lives, even one that stops
- a setting alone elects no replica that is being added: the holders of the records may be about to come back
- a replica that may have lost data leaves both sets also as the last member; the only replica of a partition stays
- a replica that is no longer assigned leaves the eligible ones in the same record, and is no last known leader
- a reassignment ends when enough of the target are in sync: see `reassignment`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, NamedTuple

from stratalog.metadata.controller.reassignment import Assignment, completed
from stratalog.metadata.image.directory_ids import MIGRATING
from stratalog.metadata.image.features import DIRECTORIES_SINCE, EPOCH_RISES_ON_SHRINK_BELOW
from stratalog.metadata.image.topics_image import NO_LEADER, NO_LEADER_CHANGE, LeaderRecovery, PartitionImage
from stratalog.wire.records.metadata import PartitionChangeRecord
from stratalog.wire.topic import Uuid

__all__ = ["Election", "PartitionRules", "PartitionTarget", "partition_change"]

_NOTHING: Final[Mapping[int, Uuid]] = MappingProxyType({})
_NO_BROKERS: Final[frozenset[int]] = frozenset()


class Election(Enum):
    """Which replicas may be elected."""

    ONLINE = auto()
    """Those that are in sync or eligible; the present leader stays if it is acceptable."""
    PREFERRED = auto()
    """The same, and the first replica comes before the present leader."""
    UNCLEAN = auto()
    """If there is none of them, any replica that is acceptable, but for those that are being added."""
    ANY = auto()
    """The same, and last of all those that are being added."""


OfReplica = Callable[[int, Uuid], bool]
"""Called with the broker and the directory of a replica."""


class PartitionRules(NamedTuple):
    """The surroundings of a change.

    ``is_acceptable``: may lead, as its broker is active and its directory online. ``lives``: its broker is not fenced,
    though it may be about to stop. ``min_in_sync_replicas`` is the setting; where there are fewer replicas, all count.
    ``has_eligible``: the cluster keeps eligible leader replicas. ``level`` is that of ``metadata.version``.
    """

    is_acceptable: OfReplica
    lives: OfReplica
    default_directory: Callable[[int], Uuid]
    level: int
    min_in_sync_replicas: int = 1
    election: Election = Election.ONLINE
    has_eligible: bool = False


class PartitionTarget(NamedTuple):
    """The wanted state of a partition; ``None`` leaves a part as it is.

    ``lost`` are replicas that may lack what they once had, or are gone: they leave the in-sync and the eligible ones.
    ``raises_leader_epoch`` names the leader even if it stays.
    """

    in_sync_replicas: tuple[int, ...] | None = None
    assignment: Assignment | None = None
    lost: frozenset[int] = _NO_BROKERS
    leader_recovery: LeaderRecovery | None = None
    directories: Mapping[int, Uuid] = _NOTHING
    raises_leader_epoch: bool = False


class _Sets(NamedTuple):
    """The replicas in sync, and those that are eligible besides."""

    in_sync: tuple[int, ...]
    eligible: tuple[int, ...]


class _Elected(NamedTuple):
    leader: int
    is_unclean: bool = False


def partition_change(
    topic_id: Uuid, number: int, partition: PartitionImage, target: PartitionTarget, rules: PartitionRules
) -> PartitionChangeRecord | None:
    """The record that brings ``partition`` to ``target`` under a leader, or ``None`` if nothing changes."""
    wanted = partition.in_sync_replicas if target.in_sync_replicas is None else target.in_sync_replicas
    wanted = tuple(one for one in wanted if one not in target.lost)
    assignment = target.assignment or Assignment.of(partition)
    if assignment.is_reassigning:
        assignment = completed(assignment, wanted, rules.min_in_sync_replicas) or assignment
    replicas = assignment.replicas
    directories = _directories(partition, replicas, target, rules)
    sets = _sets(partition, tuple(one for one in wanted if one in replicas), replicas, target, rules)
    leader, is_unclean = _elect(partition, assignment, directories, sets, rules)
    if is_unclean:
        sets = _Sets((leader,), ())
    elif leader != NO_LEADER and leader not in sets.in_sync:
        sets = _from_eligible(replicas, leader, sets, rules)
    record = PartitionChangeRecord(topic_id=topic_id, partition_id=number)
    if (
        leader != partition.leader
        or target.raises_leader_epoch
        or (replicas != partition.replicas and not set(partition.replicas).issubset(replicas))
        or _shrink_raises_epoch(partition, sets, rules)
    ):
        record.leader = leader
    _set_members(record, partition, replicas, leader, sets, rules)
    recovery = LeaderRecovery.RECOVERING if is_unclean else target.leader_recovery
    if recovery is not None and recovery is not partition.leader_recovery:
        record.leader_recovery_state = int(recovery)
    _set_assignment(record, partition, assignment)
    if target.directories or replicas != partition.replicas:
        _set_directories(record, partition, replicas, directories, rules)
    return None if _changes_nothing(record) else record


def _shrink_raises_epoch(partition: PartitionImage, sets: _Sets, rules: PartitionRules) -> bool:
    return rules.level < EPOCH_RISES_ON_SHRINK_BELOW and not set(partition.in_sync_replicas).issubset(sets.in_sync)


def _set_members(
    record: PartitionChangeRecord,
    partition: PartitionImage,
    replicas: tuple[int, ...],
    leader: int,
    sets: _Sets,
    rules: PartitionRules,
) -> None:
    if sets.in_sync != partition.in_sync_replicas:
        record.isr = list(sets.in_sync)
    if sets.eligible != partition.eligible_leader_replicas:
        record.eligible_leader_replicas = list(sets.eligible)
    last_known = tuple(one for one in _last_known(partition, leader, sets, rules) if one in replicas)
    if last_known != partition.last_known_eligible:
        record.last_known_elr = list(last_known)


def _sets(
    partition: PartitionImage,
    wanted: tuple[int, ...],
    replicas: tuple[int, ...],
    target: PartitionTarget,
    rules: PartitionRules,
) -> _Sets:
    """The in-sync and the eligible replicas before an election.

    Without eligible replicas the last members stay in the set, as they are the only ones that have everything; but those
    that may have lost data go, unless the partition has no other replica. Where the set is empty since a time with
    eligible replicas these may still lead: without a leader no mark has moved.
    """
    lost = target.lost if len(replicas) > 1 else _NO_BROKERS
    if not rules.has_eligible:
        if wanted:
            return _Sets(wanted, ())
        if not partition.in_sync_replicas:
            earlier = partition.eligible_leader_replicas
            return _Sets((), tuple(one for one in earlier if one in replicas and one not in lost))
        return _Sets(tuple(one for one in partition.in_sync_replicas if one in replicas and one not in lost), ())
    if len(wanted) >= min(rules.min_in_sync_replicas, len(replicas)):
        return _Sets(wanted, ())
    before = {*partition.eligible_leader_replicas, *partition.in_sync_replicas}
    eligible = tuple(one for one in replicas if one in before and one not in wanted and one not in lost)
    if set(eligible) == set(partition.eligible_leader_replicas):
        eligible = partition.eligible_leader_replicas
    return _Sets(wanted, eligible)


def _elect(
    partition: PartitionImage,
    assignment: Assignment,
    directories: Mapping[int, Uuid],
    sets: _Sets,
    rules: PartitionRules,
) -> _Elected:
    """The leader, which may be `NO_LEADER`."""
    replicas = assignment.replicas

    def may_lead(replica: int) -> bool:
        return rules.is_acceptable(replica, directories[replica])

    order = replicas
    present = partition.leader
    if present in directories:
        order = (
            (*replicas[:1], present, *replicas[1:]) if rules.election is Election.PREFERRED else (present, *replicas)
        )
    for members in sets:
        for replica in order:
            if replica in members and may_lead(replica):
                return _Elected(replica)
        order = replicas
    if any(rules.lives(replica, directories[replica]) for members in sets for replica in members):
        return _Elected(NO_LEADER)
    for replica in _last_resorts(partition, assignment, sets, rules):
        if may_lead(replica):
            return _Elected(replica, is_unclean=True)
    return _Elected(NO_LEADER)


def _last_resorts(
    partition: PartitionImage, assignment: Assignment, sets: _Sets, rules: PartitionRules
) -> tuple[int, ...]:
    """Replicas that may lack what was acknowledged, those that may be elected all the same, the best first."""
    replicas, adding = assignment.replicas, assignment.adding
    known: tuple[int, ...] = ()
    if rules.has_eligible and not any(sets) and len(partition.last_known_eligible) == 1:
        known = tuple(one for one in partition.last_known_eligible if one in replicas)
    if rules.election not in {Election.UNCLEAN, Election.ANY}:
        return known
    before = (*known, *(one for one in replicas if one not in adding))
    return (*before, *adding) if rules.election is Election.ANY else before


def _from_eligible(replicas: tuple[int, ...], leader: int, sets: _Sets, rules: PartitionRules) -> _Sets:
    """The sets after the election of an eligible replica: those that it leaves behind have what it has, too."""
    if not rules.has_eligible or min(rules.min_in_sync_replicas, len(replicas)) <= 1:
        return _Sets((leader,), ())
    others = {*sets.in_sync, *sets.eligible} - {leader}
    return _Sets((leader,), tuple(one for one in replicas if one in others))


def _last_known(partition: PartitionImage, leader: int, sets: _Sets, rules: PartitionRules) -> tuple[int, ...]:
    """The last leader, remembered while there is none and no replica is in sync."""
    if leader != NO_LEADER or not rules.has_eligible:
        return ()
    if sets.in_sync or partition.leader == NO_LEADER:
        return partition.last_known_eligible
    return (partition.leader,)


def _directories(
    partition: PartitionImage, replicas: tuple[int, ...], target: PartitionTarget, rules: PartitionRules
) -> Mapping[int, Uuid]:
    """The directory of each replica."""
    known = dict(zip(partition.replicas, partition.directories, strict=False))
    for replica in replicas:
        if replica not in known:
            known[replica] = MIGRATING if replica in partition.replicas else rules.default_directory(replica)
    known.update(target.directories)
    return known if len(known) == len(replicas) else {replica: known[replica] for replica in replicas}


def _set_assignment(record: PartitionChangeRecord, partition: PartitionImage, assignment: Assignment) -> None:
    if assignment.replicas != partition.replicas:
        record.replicas = list(assignment.replicas)
    if assignment.removing != partition.removing_replicas:
        record.removing_replicas = list(assignment.removing)
    if assignment.adding != partition.adding_replicas:
        record.adding_replicas = list(assignment.adding)


def _set_directories(
    record: PartitionChangeRecord,
    partition: PartitionImage,
    replicas: tuple[int, ...],
    directories: Mapping[int, Uuid],
    rules: PartitionRules,
) -> None:
    if rules.level < DIRECTORIES_SINCE:
        return
    chosen = tuple(directories[replica] for replica in replicas)
    present = partition.directories or (MIGRATING,) * len(partition.replicas)
    if chosen != present:
        record.directories = list(chosen)


def _changes_nothing(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == NO_LEADER_CHANGE
        and record.isr is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.leader_recovery_state == -1
        and record.directories is None
    )
