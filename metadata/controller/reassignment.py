"""The reassignment of a partition's replicas: when one is complete, and when it may be cancelled.

While it runs, the replicas are the old and the new ones. One record ends it. Sources: KIP-455, Kafka's
``PartitionReassignmentReplicas``, ``PartitionReassignmentRevert``. On purpose otherwise than there: an end or a cancel
that would leave fewer than min.insync.replicas members in sync waits or is refused. By Kafka's rule alone {A,B} to
{B,C} ends with {C} in sync while B lags: A deletes its copy, and one lost disk takes acknowledged records with it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from stratalog.metadata.image.topics_image import PartitionImage

__all__ = ["Assignment", "cancelled", "completed", "reassigned", "retargeted"]


class Assignment(NamedTuple):
    """The holders of a partition: ``replicas`` include those that are being added and removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @classmethod
    def of(cls, partition: PartitionImage) -> Assignment:
        """The present one."""
        return cls(partition.replicas, partition.adding_replicas, partition.removing_replicas)

    @property
    def is_reassigning(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding or self.removing)


def reassigned(present: tuple[int, ...], target: tuple[int, ...]) -> Assignment:
    """The assignment with which a move from ``present`` to ``target`` begins: the target, and behind it what goes."""
    adding = tuple(sorted(set(target) - set(present)))
    removing = tuple(sorted(set(present) - set(target)))
    return Assignment((*target, *removing), adding, removing)


def retargeted(present: Assignment, target: tuple[int, ...], whole: Collection[int] = ()) -> Assignment:
    """The assignment with which a move to ``target`` begins, also in the midst of another one.

    Replicas that were being added and are wanted still go on being added. Others of them are removed when it ends if they
    are among the ``whole`` ones, and at once if not. In Kafka all stay: such a one would look like a former holder of the
    records, and an unclean election could take it for one.
    """
    held = tuple(one for one in present.replicas if one not in present.adding or one in target or one in whole)
    moved = reassigned(held, target)
    still = set(present.adding).intersection(target)
    return moved._replace(adding=tuple(sorted({*moved.adding, *still})))


def completed(
    assignment: Assignment, in_sync_replicas: tuple[int, ...], min_in_sync_replicas: int
) -> Assignment | None:
    """The assignment after the end of a reassignment, or ``None`` while it goes on.

    It ends when all that are added are in sync, and of those that stay at least ``min_in_sync_replicas``, or all if there
    are fewer. If it makes the replicas fewer, all that stay have to be in sync, as in Kafka.
    """
    left = tuple(one for one in in_sync_replicas if one not in assignment.removing)
    stay = tuple(one for one in assignment.replicas if one not in assignment.removing)
    if not left or not set(assignment.adding).issubset(left):
        return None
    if len(left) < min(min_in_sync_replicas, len(stay)):
        return None
    if len(assignment.adding) < len(assignment.removing) and not set(stay).issubset(left):
        return None
    return Assignment(stay)


def cancelled(
    assignment: Assignment, in_sync_replicas: Collection[int], min_in_sync_replicas: int
) -> Assignment | None:
    """The assignment after a cancel, or ``None`` if too few of the old replicas are in sync for it."""
    old = tuple(one for one in assignment.replicas if one not in assignment.adding)
    left = sum(one in in_sync_replicas for one in old)
    return Assignment(old) if left >= max(1, min(min_in_sync_replicas, len(old))) else None
