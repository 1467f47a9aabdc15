"""Tells the controller in which directories replicas lie, and which of them the disk has damaged.

A replica that has lost a range of its log is reported as lost, while there are others that have everything. One committed record
then takes it out of the in-sync and the eligible replicas, moves its leadership, and raises the leader epoch, so that
fetches of before count nothing. Only then it cuts its log, copies it again, and names its directory (rule 19 of the
cluster's design):

.. code-block:: text

    damaged -- report LOST --> image: LOST, in neither set -- cut, quarantine, report the directory --> copied

Where it is the last that counts it goes on with a hole. Source: KIP-858.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from stratalog.broker.replicas.directories import Directories
from stratalog.broker.replicas.directory_loading import without
from stratalog.broker.replicas.log_opening import OpenedLog
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.hot.first_marks import kept_high_watermark
from stratalog.metadata.image.directory_ids import LOST, MIGRATING, UNASSIGNED, is_elsewhere
from stratalog.metadata.image.features import DIRECTORIES_SINCE, METADATA_VERSION
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import PartitionImage
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["Placements", "Placing", "is_counted_on", "is_given_up"]

log = logging.getLogger(__name__)


class Placements(Protocol):
    """Tells the controller where replicas lie: `DirectoryReports`."""

    def placed(self, topic_id: Uuid, partition: int, directory: Uuid, /) -> None:
        """Report a replica that the image has in no directory, or in another one."""

    def gone(self, topic_id: Uuid, partition: int, /) -> None:
        """Do not report a replica any more: it is not here, or the image names its directory."""

    def awaits(self, topic_id: Uuid, partition: int, /) -> bool:
        """Whether the controller has yet to take the report of a replica."""


def is_given_up(state: PartitionImage, node_id: int) -> bool:
    """Whether a damaged replica is to be copied again: others have everything, and one of them leads or can."""
    counted = {*state.in_sync_replicas, *state.eligible_leader_replicas}
    return len(counted) > 1 if node_id in counted else state.leader >= 0


def is_counted_on(state: PartitionImage, node_id: int) -> bool:
    """Whether others are copied from this replica, or it from none: an empty one would have them drop what they have."""
    members = {*state.in_sync_replicas, *state.eligible_leader_replicas}
    return len(state.replicas) > 1 and (state.leader < 0 or state.leader == node_id or node_id in members)


class Placing:
    """The places of one broker's replicas."""

    def __init__(
        self,
        placements: Placements | None,
        *,
        node_id: int,
        directories: Directories,
        image: Callable[[], ClusterImage],
    ) -> None:
        """``placements`` is None for a cluster of one broker."""
        self._placements = placements
        self._node_id = node_id
        self._directories = directories
        self._image = image
        self._announced: dict[tuple[Uuid, int], tuple[UnifiedLog, Uuid]] = {}
        """The directories of replicas that are about to move: the controller knows them before they lie there."""
        self._taken_back: dict[tuple[Uuid, int], Uuid] = {}
        """The directories of replicas that did not move there: the controller may have heard that they would."""
        self._untold: set[tuple[Uuid, int]] = set()
        """Replicas whose logs are gone, where no directory can tell it."""

    @property
    def is_told(self) -> bool:
        """Whether the cluster's metadata have directories."""
        return self._placements is not None and self._image().features.get(METADATA_VERSION, 0) >= DIRECTORIES_SINCE

    def tell(self, unified: UnifiedLog, state: PartitionImage) -> None:
        """Until the controller knows the directory of a replica, it cannot tell that the replica is gone with it."""
        if self._placements is None or not self.is_told:
            return
        topic_id, number, node_id = unified.topic_id, unified.topic_partition.partition, self._node_id
        _, directory = self._announced.get((topic_id, number), (unified, self._directory_of(unified)))
        if unified.partition.is_damaged and is_given_up(state, node_id):
            directory = LOST
        if node_id in state.replicas and state.directory_of(node_id) != directory:
            self._placements.placed(topic_id, number, directory)
        elif node_id not in state.replicas or not self._is_taken_back(topic_id, number):
            self._placements.gone(topic_id, number)

    def has_lost_records(self, opened: OpenedLog, state: PartitionImage) -> bool:
        """Whether a log lacks what this broker had synced, and may have told its leader, and no report can tell it.

        The broker then registers anew, as one that has lost data: it is not elected for what it had. The log ends below its
        mark or below the recovery point, or has a hole.
        """
        log_, node_id = opened.log, self._node_id
        mark, has_hole = kept_high_watermark(log_, opened.high_watermarks), any(True for _ in log_.missing_ranges())
        ends_early = log_.log_end_offset < mark or log_.recovery.has_lost_flushed
        if len(state.replicas) == 1 or not (has_hole or ends_early):
            return False
        text = "%s has lost records that may have been acknowledged: it ends at %d, its mark was %d"
        log.error(text, log_.topic_partition, log_.log_end_offset, mark)
        ends_early = ends_early and node_id in {*state.in_sync_replicas, *state.eligible_leader_replicas}
        return ends_early or (has_hole and is_given_up(state, node_id) and not self.is_told)

    def give_up(self, topic_id: Uuid, partition: int, state: PartitionImage) -> bool:
        """Report a replica whose log is gone; False, once, if the cluster's metadata have no directories to tell it by."""
        if self._placements is None or not self.is_told:
            is_known = (topic_id, partition) in self._untold
            self._untold.add((topic_id, partition))
            return is_known
        if state.directory_of(self._node_id) == LOST:
            self._placements.gone(topic_id, partition)
        else:
            self._placements.placed(topic_id, partition, LOST)
        return True

    def may_cut(self, state: PartitionImage) -> bool:
        """Whether a committed record has taken a damaged replica out of all sets, and no request of before can put it back."""
        node_id = self._node_id
        if node_id in state.in_sync_replicas or node_id in state.eligible_leader_replicas:
            return False
        return not self.is_told or state.directory_of(node_id) == LOST

    def announce(self, unified: UnifiedLog, directory: Uuid) -> bool:
        """Report the directory that a replica is about to move to; True when the image has it.

        A broker that stopped in between would else be given its replica in a directory where it does not lie any more.
        """
        state = self.state_of(unified)
        if not self.is_told or state is None or self._node_id not in state.replicas:
            return True
        key = unified.topic_id, unified.topic_partition.partition
        self._announced[key] = unified, directory
        self._taken_back.pop(key, None)
        self.tell(unified, state)
        return state.directory_of(self._node_id) == directory

    def settled(self, unified: UnifiedLog) -> None:
        """The replica has moved, or will not: report where it lies."""
        key = unified.topic_id, unified.topic_partition.partition
        _, announced = self._announced.pop(key, (None, None))
        state = self.state_of(unified)
        if announced is None or state is None:
            return
        lies_in = self._directory_of(unified)
        if self._placements is not None and announced != lies_in:
            # The announcement may be on its way: the image does not show yet that it has to be taken back.
            self._taken_back[key] = announced
            self._placements.placed(*key, lies_in)
        self.tell(unified, state)

    def take_back(self, directory: Uuid) -> None:
        """Replicas that are about to move to a directory will not: report where they lie."""
        for unified, announced in list(self._announced.values()):
            if announced == directory:
                self.settled(unified)

    def is_taken_for_home(self, directory: Uuid) -> bool:
        """Whether the controller may still take a replica to lie in a directory that it did not move to after all."""
        return any(
            announced == directory and self._is_taken_back(*key) for key, announced in list(self._taken_back.items())
        )

    def _is_taken_back(self, topic_id: Uuid, partition: int) -> bool:
        """Whether the controller has yet to hear that a replica did not move."""
        if (topic_id, partition) not in self._taken_back or self._placements is None:
            return False
        if self._placements.awaits(topic_id, partition):
            return True
        del self._taken_back[topic_id, partition]
        return False

    def _directory_of(self, unified: UnifiedLog) -> Uuid:
        return self._directories.of(unified.partition.directory).directory_id

    def is_astray(self, state: PartitionImage) -> bool:
        """Whether this broker has the only replica, and by the image in a directory that is none of its own.

        The controller elects it when it hears of another place. So its log is opened before it leads.
        """
        if state.replicas != (self._node_id,):
            return False
        return is_elsewhere(state.directory_of(self._node_id), self._directories.ids)

    def state_of(self, unified: UnifiedLog) -> PartitionImage | None:
        """The partition in the image of now; None if it is not there."""
        topic = self._image().topics.by_id.get(unified.topic_id)
        return None if topic is None else topic.partitions.get(unified.topic_partition.partition)

    def is_placed_here(self, name: TopicPartition) -> bool:
        """Whether the image of now has a replica of this partition on this broker."""
        topic = self._image().topics.by_name.get(name.topic)
        state = None if topic is None else topic.partitions.get(name.partition)
        return state is not None and self._node_id in state.replicas

    def is_held_elsewhere(self, name: TopicPartition, topic_id: Uuid) -> bool:
        """Whether the image of now has this partition on other brokers alone, and one of them leads it."""
        topic = self._image().topics.by_id.get(topic_id)
        state = None if topic is None or topic.name != name.topic else topic.partitions.get(name.partition)
        return state is not None and self._node_id not in state.replicas and state.leader >= 0

    def anywhere(self) -> Iterator[tuple[TopicPartition, Uuid]]:
        """The replicas of this broker that may lie in any of its directories, and the ids of their topics.

        Those that the image of now places in none, and only ones: the image names where one is about to move, and no other has it.
        """
        for topic in self._image().topics.by_id.values():
            for number, state in topic.partitions.items():
                if self._node_id not in state.replicas:
                    continue
                if len(state.replicas) == 1 or state.directory_of(self._node_id) in {UNASSIGNED, MIGRATING}:
                    yield TopicPartition(topic.name, number), topic.topic_id

    def miss_directories(self) -> None:
        """Have logs wait that may lie in a directory which the start before had: of a broker whose metadata place none."""
        before, directories = self._image().brokers.brokers.get(self._node_id), self._directories
        unfound = (name for name, _topic_id in self.anywhere() if not directories.holding(name))
        former = () if before is None else before.directories
        directories.settled = without(directories.settled, former, directories.ids, unfound)

    def gone(self, topic_id: Uuid, partition: int) -> None:
        """The replica is not here any more, or is not missed: its topic was deleted, or others have it. Report nothing of it."""
        self._untold.discard((topic_id, partition))
        if self._placements is not None:
            self._announced.pop((topic_id, partition), None)
            self._taken_back.pop((topic_id, partition), None)
            self._placements.gone(topic_id, partition)
