"""Hands the archive of a broker the parts that it uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stratalog.broker.archive.deleted_archives import DeletedArchives, DeletionPorts
from stratalog.broker.archive.deletion_turns import committed_deletions
from stratalog.broker.archive.tiering import Tiering
from stratalog.broker.archive.timelines import ControllerPorts, TransactionPorts
from stratalog.broker.assembly import BrokerParts
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.metadata.controller.brokers import begin_producer_era, raise_leader_epoch
from stratalog.metadata.image.difference import ImageChange
from stratalog.metadata.image.image import ClusterImage
from stratalog.tier.messages.commands import WriteProjection
from stratalog.tier.messages.projection import MetadataPosition, topic_projection
from stratalog.wire.topic import Uuid

__all__ = ["deletion_notes", "new_deleted_archives", "new_tiering"]


def new_tiering(broker: BrokerParts) -> Tiering:
    """The archives of a broker. To be called inside the running loop; the metadata need not be read yet."""

    def topic_written(unified: UnifiedLog) -> WriteProjection:
        name = unified.topic_partition.topic
        image, as_of = broker.image, None
        if broker.config.roles.has_peers:  # an only node whose disk went back is behind no other
            as_of = MetadataPosition(image.incarnation, image.provenance.offset)
        return topic_projection(
            name,
            unified.topic_id,
            partitions=len(image.topics.by_name[name].partitions),
            configs=image.topic_configs(name),
            cluster_id=broker.cluster_id,
            as_of=as_of,
        )

    return Tiering(
        broker.config,
        clock=broker.clock,
        metrics=broker.metrics,
        dice=broker.dice,
        directories=broker.directories,
        incarnation=lambda: broker.image.incarnation,
        controller=_controller_ports(broker),
        transactions=_transaction_ports(broker),
        topic_written=topic_written,
        wake_reader=broker.purgatory.check,
    )


def _transaction_ports(broker: BrokerParts) -> TransactionPorts:
    """The transactions of a broker whose coordinators are made later than its archives."""

    def judge(unified: UnifiedLog, judged: Callable[[], object]) -> None:
        broker.coordinators.hanging.judge(unified, judged)

    def retire_producers() -> None:
        broker.coordinators.hanging.retire_producers()

    return TransactionPorts(retire_producers, judge)


def _controller_ports(broker: BrokerParts) -> ControllerPorts:
    """The commands to the controller, which may be another node. In a cluster of several nodes the log of producer ids did not go back with this
    disk: there an era is a block that was allocated just now.
    """

    async def raise_epoch(topic_id: Uuid, partition: int, above: int) -> int:
        membership = broker.cluster.membership
        if membership is not None:
            return await membership.epoch_raising.raise_above(topic_id, partition, above)
        return await broker.control.execute(lambda image: raise_leader_epoch(image, topic_id, partition, above=above))

    async def begin_era() -> None:
        if broker.config.roles.has_peers:
            await broker.producer_ids.renew()
            return
        draw = broker.dice.getrandbits(64)
        first = await broker.control.execute(lambda image: begin_producer_era(image, broker.node_id, draw))
        broker.producer_ids.skip_to(first)

    def in_contact() -> bool:
        membership = broker.cluster.membership
        return membership is None or membership.lifecycle.in_contact

    return ControllerPorts(raise_epoch, begin_era, in_contact)


def new_deleted_archives(broker: BrokerParts) -> DeletedArchives:
    """The archives of deleted topics; they are noted in the directory of the metadata log."""
    home = next(one for one in broker.directories.all if one.path == broker.config.metadata_log_dir)
    ports = DeletionPorts(
        submit=broker.tiering.submit,
        now_ms=broker.clock.wall_ms,
        later=asyncio.get_running_loop().call_later,
        grace_ms=lambda: broker.config.integer("stratalog.trash.grace.ms"),
        interval_ms=lambda: broker.config.integer("stratalog.trash.check.interval.ms"),
        read_only=broker.config.boolean("stratalog.read.only"),
    )
    deleted = DeletedArchives(home.files.files, home.path, broker.cluster_id, ports)
    deleted.load()
    return deleted


def deletion_notes(
    broker: BrokerParts, is_archived: Callable[[str, Uuid], bool]
) -> Callable[[ClusterImage, ImageChange], None]:
    """Return a listener that notes archives of topics that an image has no more, in a cluster of several nodes.

    ``is_archived(topic, topic_id)`` is whether anything of a topic's partitions here was archived, whatever its settings say now.
    """

    def note(image: ClusterImage, change: ImageChange) -> None:
        config = broker.config
        if not config.roles.has_peers or not config.tiering_enabled:
            return  # an only broker's controller has noted them
        found = committed_deletions(
            change,
            image,
            node_id=broker.node_id,
            is_archived=is_archived,
            now_ms=broker.clock.wall_ms(),
            grace_ms=config.integer("stratalog.trash.grace.ms"),
        )
        broker.deleted_archives.note_committed(found)

    return note
