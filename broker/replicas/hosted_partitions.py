"""The partitions that this broker hosts: opened, given their roles, reconfigured and deleted as the image says.

A partition is opened when this broker is to lead it, or to copy it from another. From then on it stays open, and each leader
epoch of the image gives it a role of its own, or takes the last one away. To open it takes a hundred times as long as all that the image costs, so
it is put down as due, and opened when there is time: see `stratalog.broker.replicas.due_partitions`.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from functools import partial
from typing import Protocol

from msgspec import Struct

from stratalog.broker.replicas.directories import Directories
from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.broker.replicas.due_partitions import DuePartition
from stratalog.broker.replicas.follower import Follower
from stratalog.broker.replicas.in_sync import NO_FOLLOWERS, InSyncAsking
from stratalog.broker.replicas.leader import Leader, Rework
from stratalog.broker.replicas.led import Led, why_led, why_opened
from stratalog.broker.replicas.log_opening import LogOpening
from stratalog.broker.replicas.log_settings import TopicSettings
from stratalog.broker.replicas.partition import Partition
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.replicas.placing import Placements, Placing, is_counted_on, is_given_up
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.purgatory import Purgatory
from stratalog.hot.config import LogConfig
from stratalog.hot.first_marks import first_high_watermark
from stratalog.hot.replica_state import NO_BROKER_EPOCH
from stratalog.metadata.image.directory_ids import UNASSIGNED
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.metadata.image.topics_image import LeaderRecovery, PartitionImage, TopicImage
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["Copying", "HostedPartitions", "HostedServices", "Placements"]

log = logging.getLogger(__name__)


class Copying(Protocol):
    """The part of a broker that copies partitions from other brokers."""

    @property
    def asking(self) -> InSyncAsking:
        """The way to the controller for leaders."""

    @property
    def broker_epoch(self) -> int:
        """The registration of this broker."""

    def follow(self, role: Follower, /) -> None:
        """Copy a partition from the leader of its role."""

    def release(self, key: PartitionKey, /) -> None:
        """Copy a partition no longer; nothing happens to one that is not copied."""


class HostedServices(Struct, frozen=True, kw_only=True):
    """Shared by all hosted partitions."""

    node_id: int
    image: Callable[[], ClusterImage]
    """The cluster as it is now."""
    directories: Directories
    clock: Clock
    metrics: Metrics
    purgatory: Purgatory
    dice: random.Random
    rework: Rework
    copying: Copying | None
    """None for a broker that is a cluster by itself."""
    segments_open_max: int
    """How many files of segments may be held open."""
    on_led: Callable[[UnifiedLog, Led], None]
    """A partition is led from now on, or under another epoch or other settings: coordinators load, the archive is attached. Called when the role is in place."""
    on_unsynced: Callable[[], None]
    """A partition of several replicas acknowledges before its sync; called before it has a role, or before its settings change."""
    on_data_lost: Callable[[], None]
    """A replica lacks records that it had; called before it has a role."""
    on_released: Callable[[UnifiedLog], None]
    """It is led no longer; called before its role ends and its log goes."""
    placements: Placements | None = None
    """None for a cluster of one broker."""
    in_contact: Callable[[], bool] = lambda: True
    """Whether the controller cannot have ended this broker's session yet."""


class HostedPartitions:
    """The table of hosted partitions, kept in step with the image."""

    def __init__(self, services: HostedServices, resolver: Callable[[ClusterImage], ConfigResolver]) -> None:
        self.table = PartitionTable(services.image, services.in_contact, services.clock.monotonic)
        self._services = services
        self._settings = TopicSettings(services.node_id, resolver, services.dice)
        self._opened_as: tuple[object, LogConfig] | None = None
        self.settings = self._settings.log_config
        """The log settings of a topic in an image."""
        self.logs = LogOpening(
            services.directories, self.table, services.clock, segments_open_max=services.segments_open_max
        )
        self.placing = Placing(
            services.placements, node_id=services.node_id, directories=services.directories, image=services.image
        )
        self.logs.on_forgotten = self.placing.gone
        if services.copying is None:
            self.placing.miss_directories()

    def started(self) -> None:
        """The logs of the last run have been opened: partitions without files are new from now on."""
        self.logs.started(self.placing.is_placed_here, self.placing.anywhere)
        self._services.directories.tell_without_topic(self._services.image().topics.by_id)
        if self._services.copying is not None:
            self._services.directories.set_moved_aside(self.placing.is_held_elsewhere)

    def reconfiguring(self) -> Generator[None, None, None]:
        """The broker's own settings have changed: so may those of every topic. Yields after each."""
        for topic in self._services.image().topics.by_name:
            image = self._services.image()  # a newer one by now, perhaps, and its settings may have been handed out
            if topic in image.topics.by_name:
                self.reconfigure(image, topic)
            yield

    def following(self, changed: Mapping[Uuid, Collection[int]]) -> Generator[None, None, None]:
        """Begin and end roles of partitions as the newest image says, and put down those to be opened; yields after each.

        ``changed`` names partitions by the id of their topic.
        """
        for topic_id in sorted(changed):
            for number in changed[topic_id]:
                image = self._services.image()
                topic = image.topics.by_id.get(topic_id)
                state = None if topic is None else topic.partitions.get(number)
                if topic is not None and state is not None:
                    self._follow(image, topic, number, state)
                yield

    def opening(self) -> Generator[None, None, None]:
        """Open what is due, as the newest image of the moment says; yields after each, a millisecond or so."""
        while (due := self.table.due.take()) is not None:
            yield from self._opening(due)

    def _opening(self, due: DuePartition) -> Generator[None, None, None]:
        topic = self._services.image().topics.by_id.get(due.topic_id)
        if topic is not None:
            yield from self.logs.dropping_stale_rows(TopicPartition(topic.name, due.number))
        image = self._services.image()  # a newer one by now, perhaps, and another opening may have come first
        topic = image.topics.by_id.get(due.topic_id)
        state = None if topic is None else topic.partitions.get(due.number)
        if topic is None or state is None or self._services.node_id not in state.replicas:
            return
        if not self.is_registered(image):
            return  # it is put down again with the roles of the next registration
        name = TopicPartition(topic.name, due.number)
        if self.table.get(name) is None:
            of_settings = due.topic_id, self._settings.resolver(image), image.topic_configs(topic.name)
            if self._opened_as is None or self._opened_as[0] != of_settings:
                self._opened_as = of_settings, self.settings(image, topic.name)
            self._open(topic, name, state, self._opened_as[1])
        yield

    def _follow(self, image: ClusterImage, topic: TopicImage, number: int, state: PartitionImage) -> None:
        name = TopicPartition(topic.name, number)
        unified, node_id = self.table.get(name), self._services.node_id
        if unified is None:
            self._put_down(topic, number, state)
            return
        if unified.topic_id != topic.topic_id:
            return  # of a topic that was deleted and made again: its log goes first, and then the image is followed
        unified.awaits_copies = len(state.in_sync_replicas) < len(state.replicas)
        self.placing.tell(unified, state)
        minimum = unified.partition.log.config.min_insync_replicas
        if state.leader == node_id and minimum != self._settings.min_in_sync(image, topic.name):
            self.reconfigure(image, topic.name)  # no set counts by an earlier minimum: roles may come first
        self._note_durability(state, unified.partition.log.config)
        if node_id not in state.replicas and self._services.copying is not None:
            self._remove(unified, state)
        elif not self.is_registered(image):
            self._end_role(unified)
        elif state.leader != node_id:
            self._lead_no_longer(unified, state)
        elif unified.partition.leader is None or unified.partition.leader_epoch != state.leader_epoch:
            led = why_led(state, was_led=unified.partition.leader is not None, is_bare=unified.is_bare)
            unified.is_bare = False
            self._copy_no_longer(unified)
            self._lead(unified.partition, state)
            unified.partition.sync_for_role()
            self._services.on_led(unified, led)
        else:
            unified.partition.leader.in_sync_changed(
                state.in_sync_replicas, state.partition_epoch, state.replicas, is_recovering=self._is_recovering(state)
            )

    def _put_down(self, topic: TopicImage, number: int, state: PartitionImage) -> None:
        """Have a partition without a log opened, if it has work here."""
        node_id = self._services.node_id
        is_copied = node_id in state.replicas and len(state.replicas) > 1
        if state.leader == node_id or is_copied or self.placing.is_astray(state):
            self.table.due.add(topic.name, topic.topic_id, number)
        else:
            self.table.due.discard(topic.name, number)
        if node_id not in state.replicas:
            self.logs.forget_gone(TopicPartition(topic.name, number))

    def is_registered(self, image: ClusterImage) -> bool:
        """Whether the roles in the image are those of the present registration: those of an earlier one have ended with it.

        The controller takes leaderships and memberships from a broker before it registers anew. Until the image has that, the same
        leader epoch would be led again, perhaps with a log that has lost records, and followers would cut what they have.
        """
        copying, mine = self._services.copying, image.brokers.brokers.get(self._services.node_id)
        return copying is None or (mine is not None and mine.epoch == copying.broker_epoch)

    def _remove(self, unified: UnifiedLog, state: PartitionImage) -> None:
        """A committed record gives the partition to other brokers, which have all of it: its files go here."""
        log.info("%s lies on brokers %s from now on, its log is removed here", unified.topic_partition, state.replicas)
        self._delete(unified)

    def _note_durability(self, state: PartitionImage, config: LogConfig) -> None:
        if len(state.replicas) > 1 and config.flush_messages > 1:
            self._services.on_unsynced()

    def _lead_no_longer(self, unified: UnifiedLog, state: PartitionImage) -> None:
        """Another broker leads, or none: end this one's leadership, and copy the log of the leader."""
        partition, follower = unified.partition, unified.partition.follower
        if partition.leader is not None:
            self._services.on_released(unified)
        if self._services.copying is None or state.leader < 0:
            self._rest(unified)
        elif follower is None or (follower.epoch, follower.leader_id) != (state.leader_epoch, state.leader):
            self._copy(unified, state)

    def _copy(self, unified: UnifiedLog, state: PartitionImage) -> None:
        """Copy the log of the leader; a damaged one when it counts no longer, and cut before the damage."""
        copying, partition = self._services.copying, unified.partition
        if copying is None:
            return
        if partition.directory.offline is not None:
            self._rest(unified)
            return
        if partition.is_damaged:
            if not (self.placing.may_cut(state) and partition.cut_before_damage()):
                self._rest(unified)
                return
            self.placing.tell(unified, state)
        copying.follow(partition.follow(state.leader, state.leader_epoch))

    def _damaged(self, unified: UnifiedLog) -> None:
        """The disk has lost a range of a log that is open: others have to lead, and a copy takes nothing meanwhile."""
        state = self.placing.state_of(unified)
        if state is None:
            return
        if not self.placing.is_told and is_given_up(state, self._services.node_id):
            self._services.on_data_lost()
        self.placing.tell(unified, state)
        if unified.partition.follower is not None:
            self._rest(unified)

    def directory_failed(self, writer: DirectoryWriter) -> None:
        """Copy nothing into the directory any more: other copies from the same leaders would wait for its syncs."""
        for unified in self.table:
            if unified.partition.directory is writer and unified.partition.follower is not None:
                self._rest(unified)

    def _end_role(self, unified: UnifiedLog) -> None:
        if unified.partition.leader is not None:
            self._services.on_released(unified)
        self._rest(unified)

    def _rest(self, unified: UnifiedLog) -> None:
        self._copy_no_longer(unified)
        unified.partition.resign()

    def _copy_no_longer(self, unified: UnifiedLog) -> None:
        copying = self._services.copying
        if copying is not None and unified.partition.follower is not None:
            copying.release(unified.partition.follower.key)
            unified.copied()

    def retrying_unopened(self) -> Generator[None, None, None]:
        """Put down again what a full disk kept from being opened, and open it, one after the other; yields after each."""
        for one in self.logs.taking_unopened():
            topic = self._services.image().topics.by_id.get(one.topic_id)
            state = None if topic is None else topic.partitions.get(one.number)
            if topic is not None and state is not None:
                self._follow(self._services.image(), topic, one.number, state)
                if self.table.due.holds(topic.name, one.number):
                    self.table.due.discard(topic.name, one.number)
                    yield from self._opening(one)
            yield
        self.logs.tell_recovery()

    def reconfigure(self, image: ClusterImage, topic: str) -> None:
        """Hand new settings to the partitions of a topic."""
        config, node_id = self.settings(image, topic), self._services.node_id
        topic_id, states = image.topics.by_name[topic].topic_id, image.topics.by_name[topic].partitions
        for state in states.values():
            if node_id in state.replicas:
                self._note_durability(state, config)
        for unified in self.table.of_topic(topic):
            if unified.topic_id != topic_id:
                continue  # of a topic that was deleted and made again: it goes as it is
            partition, now = unified.partition, states.get(unified.topic_partition.partition)
            is_led = now is not None and (now.leader, now.leader_epoch) == (node_id, partition.leader_epoch)
            partition.update_config(config, is_led=is_led)
            if partition.leader is not None:
                self._services.on_led(unified, Led.RECONFIGURED)

    def resigning(self) -> Generator[None, None, None]:
        """Lead nothing any more, until an image says otherwise: the controller does not know this broker's leaderships.

        The roles of this moment end, also if the steps come later: an image may have given others meanwhile, and these stay.
        """
        self.table.due.clear()
        return self._ending([(one, one.partition.leader or one.partition.follower) for one in self.table])

    def _ending(self, roles: Sequence[tuple[UnifiedLog, Leader | Follower | None]]) -> Generator[None, None, None]:
        """End these roles, those that still stand; yields after each."""
        for unified, role in roles:
            if role is None or role not in {unified.partition.leader, unified.partition.follower}:
                continue
            self._end_role(unified)
            yield

    def deleting(self, topic: str, topic_id: Uuid) -> Generator[None, None, None]:
        """Forget the partitions of a deleted topic and let their files go; yields after each.

        Those of a topic that was made again under its name stay: roles are also taken between an image and its following.
        """
        self.logs.forget_topic(topic, topic_id)
        for unified in self.table.of_topic(topic):
            if unified.topic_id == topic_id:
                self._delete(unified)
                yield
        if not self.table.of_topic(topic):
            self._services.metrics.forget_topic(topic)

    def _open(self, topic: TopicImage, name: TopicPartition, state: PartitionImage, config: LogConfig) -> None:
        services = self._services
        self._note_durability(state, config)
        opened = self.logs.open(
            name,
            topic.topic_id,
            config,
            leader_epoch_max=state.leader_epoch,
            others_have_it=len(state.replicas) > 1,
            placed_in=state.directory_of(services.node_id) if services.node_id in state.replicas else UNASSIGNED,
            is_counted_on=is_counted_on(state, services.node_id),
        )
        if opened is None:
            if name in self.logs.given_up and not self.placing.give_up(topic.topic_id, name.partition, state):
                services.on_data_lost()
            return
        partition = Partition(
            opened.log,
            directory=opened.directory.writer,
            high_watermark=first_high_watermark(opened.log, opened.high_watermarks, len(state.replicas)),
            clock=services.clock,
            rework=services.rework,
            asking=NO_FOLLOWERS if services.copying is None else services.copying.asking,
            refused=self.table.refused,
        )
        has_lost = self.placing.has_lost_records(opened, state)
        if has_lost:  # it has its role when it is registered anew
            services.on_data_lost()
        takes_role = services.copying is None or (not has_lost and self.is_registered(services.image()))
        unified = UnifiedLog(partition, services.metrics.topic(topic.name))
        unified.on_damaged = self._damaged
        partition.watchers.add(partial(services.purgatory.check, unified))
        if services.copying is not None:
            partition.end_watchers.add(partial(services.purgatory.check, partition))
        leads = takes_role and state.leader == services.node_id
        unified.awaits_copies = len(state.in_sync_replicas) < len(state.replicas)
        unified.is_bare = opened.led is Led.LOST and not leads
        if leads:
            self._lead(partition, state)
        self.table.add(unified)
        self.placing.tell(unified, state)
        self.logs.sync_recovered(opened, partition)  # the first append waits for it
        if leads:
            services.on_led(unified, why_opened(state, opened.led))
        elif takes_role and state.leader >= 0:
            self._copy(unified, state)
        for missing in opened.log.missing_ranges():
            log.error("%s", unified.missing_sentence(missing))

    def _lead(self, partition: Partition, state: PartitionImage) -> None:
        partition.lead(
            self._services.node_id,
            state.leader_epoch,
            replicas=state.replicas,
            in_sync=state.in_sync_replicas,
            partition_epoch=state.partition_epoch,
            broker_epoch=NO_BROKER_EPOCH if self._services.copying is None else self._services.copying.broker_epoch,
            is_recovering=self._is_recovering(state),
        )

    def _is_recovering(self, state: PartitionImage) -> bool:
        """Whether the controller is to hear that the leader has recovered; a broker that is a cluster by itself has none to tell."""
        return self._services.copying is not None and state.leader_recovery is LeaderRecovery.RECOVERING

    def _delete(self, unified: UnifiedLog) -> None:
        services = self._services
        self._copy_no_longer(unified)
        services.on_released(unified)
        self.placing.gone(unified.topic_id, unified.topic_partition.partition)
        self.table.remove(unified)
        unified.partition.close()
        unified.log.abandon(is_removed=True)
        self.logs.removed(unified)
