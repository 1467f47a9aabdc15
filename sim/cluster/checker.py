"""The promises of a cluster, looked at after every event of a node."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from sim.cluster.member import SESSION_SECONDS, Member
from sim.cluster.surroundings import Surroundings
from sim.model import Violation
from sim.under.process import Process
from stratalog.metadata.image.brokers_image import BrokerImage
from stratalog.metadata.image.image import EMPTY_IMAGE, ClusterImage
from stratalog.metadata.image.topics_image import NO_LEADER

__all__ = ["Checker"]

_COMPARED: Final = 4
"""One of so many images is compared with that of other nodes at the same offset; those of a start always are."""
_TICK_SECONDS: Final = 0.001


class _Office(Struct):
    """One epoch of the metadata log."""

    controller: int
    since: float


class Checker:
    """Everything that was ever promised in a run."""

    def __init__(self, world: Surroundings) -> None:
        self._world = world
        self.image: ClusterImage = EMPTY_IMAGE
        """The newest image that any node has had."""
        self.offices: dict[int, _Office] = {}
        """Active controllers, by epoch."""
        self._images: dict[int, ClusterImage] = {}
        self._leaders: dict[tuple[bytes, int, int], int] = {}
        """By topic id, partition and leader epoch: the broker that the metadata log names."""
        self._led: dict[tuple[bytes, int, int], int] = {}
        """The same: the broker that takes itself for the leader."""
        self._names: dict[bytes, str] = {}
        self._deleted: set[bytes] = set()
        self._broker_epochs: dict[int, int] = {}
        self._processes: dict[int, Process | None] = {}
        """The process that has registered last, by broker."""
        self.images_seen = 0
        self.fenced = 0
        """How often a broker was fenced because it was silent."""

    def gone(self, member: Member) -> None:
        """A process of a node has ended."""
        member.image = None

    def after_event(self, member: Member) -> None:
        """Look at a node in whose process something has happened. Raises `Violation`."""
        quorum = member.quorum
        if quorum is None:
            return
        image = quorum.image
        if image is not member.image:
            before, member.image = member.image, image
            self._image_changed(member, before, image)
        if member.is_controller and quorum.is_active != (member.active_epoch is not None):
            self._office_changed(member, quorum.active_epoch if quorum.is_active else None)

    # -- offices -------------------------------------------------------------------------------------------------------

    def _office_changed(self, member: Member, epoch: int | None) -> None:
        member.active_epoch = epoch
        if epoch is None:
            return
        self._world.trace.note(str(member), f"is active in epoch {epoch}")
        known = self.offices.setdefault(epoch, _Office(member.id, self._world.loop.time()))
        if known.controller != member.id:
            raise Violation(f"controllers {known.controller} and {member.id} are both active in epoch {epoch}")
        if epoch == max(self.offices):
            assert member.image is not None
            self._world.facts.check(member.image, f"{member}, active in epoch {epoch},")

    # -- images --------------------------------------------------------------------------------------------------------

    def _image_changed(self, member: Member, before: ClusterImage | None, image: ClusterImage) -> None:
        offset = image.provenance.offset
        if before is not None and offset < before.provenance.offset:
            raise Violation(f"the image of {member} goes back from offset {before.provenance.offset} to {offset}")
        if offset > self.image.provenance.offset:
            older, self.image = self.image, image
            self.images_seen += 1
            self._check_brokers(older, image)
            self._check_topics(older, image)
            self._world.unclean.image_changed(older, image)
        if before is None or offset % _COMPARED == 0:
            known = self._images.setdefault(offset, image)
            if known is not image and known != image:
                raise Violation(
                    f"{member} has another image at offset {offset} than a node before: {_parts(known, image)}"
                )
        if not member.is_controller:
            self._check_led(member)

    def _check_brokers(self, before: ClusterImage, image: ClusterImage) -> None:
        if before.brokers is image.brokers:
            return
        for broker in image.brokers.brokers.values():
            former = self._broker_epochs.get(broker.broker_id, -1)
            if broker.epoch < former:
                raise Violation(f"the epoch of broker {broker.broker_id} goes back from {former} to {broker.epoch}")
            self._broker_epochs[broker.broker_id] = broker.epoch
            earlier = before.brokers.brokers.get(broker.broker_id)
            if earlier is None or earlier.epoch != broker.epoch:
                self._processes[broker.broker_id] = self._world.members[broker.broker_id].process
                if broker.epoch == former:
                    raise Violation(f"broker {broker.broker_id} is registered twice under epoch {broker.epoch}")
            elif earlier.incarnation_id != broker.incarnation_id:
                raise Violation(f"broker {broker.broker_id} is registered twice under epoch {broker.epoch}")
            elif broker.is_fenced and not earlier.is_fenced:
                self._check_fencing((before, image), earlier, broker)
            elif earlier.is_fenced and not broker.is_fenced:
                self._check_unfencing(broker)

    def _check_fencing(
        self, images: tuple[ClusterImage, ClusterImage], earlier: BrokerImage, broker: BrokerImage
    ) -> None:
        """A silent broker whose process lives has had a full session with the controller that has fenced it.

        The host of a dead one refuses connections. One that stops is fenced as soon as it leads nothing, which may be at once. A controller that starts may load the
        end of one epoch and the beginning of the next together: then the fence may be of the former.
        """
        is_leaving = earlier.incarnation_id in self._world.members[broker.broker_id].leaving
        if is_leaving or earlier.in_controlled_shutdown or broker.in_controlled_shutdown:
            return
        self.fenced += 1
        process = self._processes.get(broker.broker_id)
        if process is None or not process.alive:
            return
        epochs = range(images[0].provenance.epoch, images[1].provenance.epoch + 1)
        since = min((self.offices[one].since for one in epochs if one in self.offices), default=self._world.loop.time())
        seconds = self._world.loop.time() - since
        if seconds < SESSION_SECONDS - _TICK_SECONDS:
            raise Violation(
                f"broker {broker.broker_id} is fenced {seconds:.3f} s after the beginning of epoch "
                f"{epochs[0]}: less than its session"
            )

    def _check_unfencing(self, broker: BrokerImage) -> None:
        """The broker's own image has its registration, if the process that registered still lives.

        A controller that starts may read of a process that was killed since: another one has its id now.
        """
        member: Member = self._world.members[broker.broker_id]
        if self._processes.get(broker.broker_id) is not member.process:
            return
        mine = None if member.image is None else member.image.brokers.brokers.get(broker.broker_id)
        if member.image is not None and mine is None:
            raise Violation(f"broker {broker.broker_id} is unfenced and has no registration in its own image")
        if mine is not None and mine.epoch < broker.epoch and member.quorum is not None:
            raise Violation(
                f"broker {broker.broker_id} is unfenced under epoch {broker.epoch}; its image has {mine.epoch}"
            )

    def _check_topics(self, before: ClusterImage, image: ClusterImage) -> None:
        """Also for changes of brokers alone: who is fenced leads nothing."""
        live = {one.broker_id for one in image.brokers.brokers.values() if one.is_active}
        for topic_id, topic in image.topics.by_id.items():
            if topic_id in self._deleted or self._names.setdefault(topic_id, topic.name) != topic.name:
                raise Violation(f"topic {topic.name} has the id that {self._names[topic_id]} has or had")
            for number, partition in topic.partitions.items():
                if partition.leader == NO_LEADER:
                    continue
                if partition.leader not in live:
                    raise Violation(
                        f"{topic.name}-{number} is led by broker {partition.leader}, which is fenced or leaves"
                    )
                key = (topic_id, number, partition.leader_epoch)
                if self._leaders.setdefault(key, partition.leader) != partition.leader:
                    raise Violation(
                        f"{topic.name}-{number} is led by {self._leaders[key]} and by {partition.leader} in leader "
                        f"epoch {partition.leader_epoch}"
                    )
        self._deleted |= before.topics.by_id.keys() - image.topics.by_id.keys()

    def _check_led(self, member: Member) -> None:
        hosted = vars(member.node).get("hosted")
        for unified in hosted.table if hosted is not None else ():
            partition = unified.partition
            if partition.leader is None:
                continue
            key = (bytes(partition.topic_id), partition.topic_partition.partition, partition.leader_epoch)
            if self._led.setdefault(key, member.id) != member.id:
                raise Violation(
                    f"brokers {self._led[key]} and {member.id} both lead {partition.topic_partition} in leader epoch "
                    f"{partition.leader_epoch}"
                )

    # -- at the end ----------------------------------------------------------------------------------------------------

    def problem(self) -> str | None:
        """Return what the cluster still lacks after the faults, or None once it is well."""
        members: list[Member] = list(self._world.members.values())
        if not all(one.is_ready for one in members):
            return f"{[one.id for one in members if not one.is_ready]} are not ready"
        if not any(one.active_epoch is not None for one in members):
            return "no controller is active"
        fenced = [one for one in members if not one.is_controller and not self._is_unfenced(one.id)]
        if fenced:
            return f"{fenced} are fenced"
        leaderless = self._leaderless()
        if leaderless is not None:
            return f"{leaderless} has no leader, and the broker that has it is unfenced"
        offsets = {one.image.provenance.offset for one in members if one.image is not None}
        return None if len(offsets) == 1 else f"images end at offsets {sorted(offsets)}"

    def _leaderless(self) -> str | None:
        """A partition that its broker could lead: the directory is there."""
        brokers = self.image.brokers.brokers
        for topic in self.image.topics.by_id.values():
            for number, partition in topic.partitions.items():
                if partition.leader == NO_LEADER and any(
                    directory in brokers[broker_id].directories
                    for broker_id, directory in zip(partition.replicas, partition.directories, strict=True)
                ):
                    return f"{topic.name}-{number}"
        return None

    def _is_unfenced(self, broker_id: int) -> bool:
        broker = self.image.brokers.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def final(self) -> None:
        """All images are equal, and agree with what was answered. Raises `Violation`."""
        for member in self._world.members.values():
            if member.image != self.image:
                raise Violation(f"{member} has another image in the end: {_parts(member.image, self.image)}")
        self._world.facts.check(self.image, "the last image")


def _parts(one: ClusterImage, other: ClusterImage) -> list[str]:
    """The parts in which two images differ."""
    names = ("features", "brokers", "topics", "configs", "next_producer_id")
    return [name for name in names if getattr(one, name) != getattr(other, name)]
