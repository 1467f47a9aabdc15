"""Copies the committed offsets of groups to the bucket now and then, so that a restore from it alone finds them.

A group's document is written when its offsets in archived topics have changed since the last look, a few at a time: the
copy is behind by some seconds, and a restored group reads again what it had read since. A broker that owns nothing in
the bucket, restored without a takeover or mounted, copies nothing, and one from which the bucket was taken over stops.

The coordinator of a group copies its offsets in every archived topic, whichever broker leads the partitions. The copy of
a group that this broker coordinates no longer is its next coordinator's: it is left as it is. A copy says in which leader
epoch its writer coordinated the group, so one that comes late does not replace its successor's.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct, field

from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.slices import Steps, to_the_end
from stratalog.broker.settings.config import BrokerConfig
from stratalog.broker.workers.io_worker import Submit
from stratalog.metadata.groups.offsets.deleted_topics import same_topic
from stratalog.metadata.groups.shard.shard import GroupShard
from stratalog.metadata.image.image import ClusterImage
from stratalog.tier.messages.group_copy import OffsetCopy, group_copy_projection
from stratalog.tier.messages.projection import CoordinatorTerm
from stratalog.tier.messages.reports import FencedReport, Report, Written
from stratalog.wire.topic import ZERO_UUID, Uuid

__all__ = ["LOOK_SECONDS", "GroupCopies", "GroupCopyServices"]

LOOK_SECONDS: Final = 1.0
"""How often `GroupCopies.look` is to be called."""
ROUND_SECONDS = 10.0
"""Time between the beginnings of two rounds over all groups."""
_GROUPS_A_LOOK: Final = 200
_UNDER_WAY_MAX: Final = 8
_UNKNOWN: Final[tuple[OffsetCopy, ...]] = (OffsetCopy("", ZERO_UUID, -1, -1),)
"""The copy of a group that may be another in the bucket, as after a write that failed. It is like no offsets that a group has."""
_OFFSETS_A_PAUSE: Final = 500
"""Offsets that are read without a pause, about a millisecond: a group may have one in every partition of the cluster."""

log = logging.getLogger(__name__)


class GroupCopyServices(Struct, frozen=True, kw_only=True):
    """The parts of a broker that copies of groups need. ``config`` and ``image`` are as they are now.

    ``shards`` are the shards of groups that take events now, and since when this broker coordinates them.
    """

    cluster_id: str
    config: Callable[[], BrokerConfig]
    clock: Clock
    image: Callable[[], ClusterImage]
    shards: Callable[[], Sequence[tuple[GroupShard, CoordinatorTerm]]]
    submit: Submit


class _Copied(Struct):
    """The copies that the bucket has of the groups of one shard, by group, for as long as it is the same shard."""

    shard: GroupShard
    term: CoordinatorTerm
    groups: dict[str, tuple[OffsetCopy, ...]] = field(default_factory=dict)


class GroupCopies:
    """The copies of groups that this broker wrote to the bucket."""

    def __init__(self, services: GroupCopyServices) -> None:
        self._services = services
        self._copied: dict[int, _Copied] = {}
        """The copies of the shards that took events here in the round before, by the number of the shard."""
        self._waiting: deque[tuple[_Copied, str, bool]] = deque()
        """Groups whose turn comes, and whether others may have copied them: they were there when their shard came."""
        self._image: ClusterImage | None = None
        self._archived: dict[str, Uuid | None] = {}
        """Topics that offsets were committed in, and their ids if they are archived, by `_image`."""
        self._under_way: set[tuple[int, str]] = set()
        """Groups of shards whose copies are being written: of two writes at a time the older one may come last."""
        self._taken_over = False
        self._failed = 0
        """Copies of this round that were not made."""
        self._round_began_s = float("-inf")

    def settled(self, group_id: str) -> bool:
        """True if the bucket has the group's present offsets."""
        for shard, _ in self._services.shards():
            if group_id in shard.groups:
                copied = self._copied.get(shard.number)
                held = copied.groups.get(group_id) if copied is not None and copied.shard is shard else None
                return held is not None and held == to_the_end(self._offsets(shard, group_id))
        return False

    def look(self) -> Steps[None]:
        """Copy the next groups that have changed. It pauses: all offsets of a large cluster are read in each round."""
        if not self._may_copy():
            return
        now_s = self._services.clock.monotonic()
        if not self._waiting:
            if now_s - self._round_began_s < ROUND_SECONDS:
                return
            self._begin_round(now_s)
        for _ in range(_GROUPS_A_LOOK):
            if not self._waiting or len(self._under_way) >= _UNDER_WAY_MAX:
                return
            copied, group_id, may_be_copied = self._waiting.popleft()
            shard = copied.shard
            if (shard.number, group_id) in self._under_way:
                continue  # the next round looks again
            offsets = yield from self._offsets(shard, group_id)
            if not self._may_copy():
                return
            if not any(one is shard for one, _ in self._services.shards()):
                continue
            # One that has gone since may have a copy in the bucket all the same, which an earlier run made.
            unknown = None if may_be_copied and group_id not in shard.groups else ()
            if offsets != copied.groups.get(group_id, unknown):
                self._write(copied, group_id, offsets)

    def _may_copy(self) -> bool:
        """Whether this broker writes copies at all, as it is now."""
        config, incarnation = self._services.config(), self._services.image().incarnation
        owns = not self._taken_over and config.tiering_enabled and incarnation >= 0
        return owns and not config.boolean("stratalog.read.only")

    def _begin_round(self, now_s: float) -> None:
        """List the groups. A copied group that is gone is written without offsets."""
        self._round_began_s = now_s
        if self._failed > 1:
            log.warning("the offsets of %d groups were not copied to the bucket; they are tried again", self._failed)
        self._failed = 0
        before, self._copied = self._copied, {}
        for shard, term in self._services.shards():
            copied = before.get(shard.number)
            is_new = copied is None or copied.shard is not shard
            if copied is None or is_new:
                # Another broker may have coordinated its groups since the last round, and copied them.
                unsure = {} if copied is None else dict.fromkeys(copied.groups, _UNKNOWN)
                copied = _Copied(shard, term, unsure)
            self._copied[shard.number] = copied
            self._waiting.extend((copied, group_id, is_new) for group_id in shard.groups)
            for group_id in [one for one, offsets in copied.groups.items() if offsets and one not in shard.groups]:
                if len(self._under_way) < _UNDER_WAY_MAX and (shard.number, group_id) not in self._under_way:
                    self._write(copied, group_id, ())

    def _offsets(self, shard: GroupShard, group_id: str) -> Steps[tuple[OffsetCopy, ...]]:
        """The offsets that the group has committed in topics that are archived; none of an earlier topic of such a name.

        It pauses, at the end too; they are those of one moment all the same.
        """
        found = []
        for count, (topic, partition, committed) in enumerate(shard.offsets.of(group_id), 1):
            if count % _OFFSETS_A_PAUSE == 0:
                yield None
            topic_id = self._archived_topic(topic)
            if topic_id is not None and same_topic(committed.topic_id, topic_id):
                found.append(
                    OffsetCopy(topic, topic_id, partition, committed.offset, committed.leader_epoch, committed.metadata)
                )
        yield None
        return tuple(sorted(found))

    def _archived_topic(self, name: str) -> Uuid | None:
        """The id of an archived topic of the cluster; None if there is none of this name."""
        image = self._services.image()
        if image is not self._image:
            self._image, self._archived = image, {}
        if name not in self._archived:
            topic = image.topics.by_name.get(name)
            enabled = image.topic_configs(name).get("remote.storage.enable", "false").strip().lower() == "true"
            self._archived[name] = topic.topic_id if topic is not None and enabled else None
        return self._archived[name]

    def _write(self, copied: _Copied, group_id: str, offsets: tuple[OffsetCopy, ...]) -> None:
        under_way = copied.shard.number, group_id
        self._under_way.add(under_way)

        def answered(report: Report) -> None:
            self._under_way.discard(under_way)
            if isinstance(report, FencedReport):
                self._stop(report.message)
            elif not isinstance(report, Written):
                self._tell(group_id, getattr(report, "message", report))
                copied.groups[group_id] = _UNKNOWN
            elif offsets:
                copied.groups[group_id] = offsets
            else:
                copied.groups.pop(group_id, None)

        incarnation = self._services.image().incarnation
        # An only node whose disk went back counts its epochs again: it is behind no other.
        term = copied.term if self._services.config().roles.has_peers else None
        command = group_copy_projection(self._services.cluster_id, group_id, offsets, incarnation, term)
        self._services.submit(command, answered)

    def _tell(self, group_id: str, why: object) -> None:
        """Log the first failure of a round; the others are counted: while the bucket is away every group has one."""
        self._failed += 1
        if self._failed == 1:
            log.warning("the offsets of group %s were not copied to the bucket: %s", group_id, why)

    def _stop(self, why: str) -> None:
        if not self._taken_over:
            self._taken_over = True
            log.error("the offsets of groups are not copied to the bucket any more, for it was taken over: %s", why)
