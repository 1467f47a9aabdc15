"""A broker's parts follow the images of its cluster, one image after the other.

.. code-block:: text

    Publisher -- image, change --> ImageFollowing --> settings, quotas, roles of partitions, coordinators
                                        '-- beside --> logs of new partitions are opened

The controller in the same process answers no command before its image is followed, and heartbeats are commands. So what an
image costs is carried out in slices, and what takes long is done beside: to open the logs of many partitions. The
next image does not wait for it, nor for what is left of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from stratalog.broker.replicas.hosted_partitions import HostedPartitions
from stratalog.broker.runtime.slices import Awaited, Slices, Steps
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource
from stratalog.metadata.image.difference import ImageChange
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.topic import Uuid

__all__ = ["FollowingServices", "ImageFollowing"]

OPENED_FIRST: Final = 100
"""An image that gives this broker so many partitions or fewer is followed when their logs are open: some 0.1 s."""

_CROWDED_SECONDS: Final = 1.0
"""After an image with many partitions another one is expected for so long: commands come before logs meanwhile."""
_OPENED_TOGETHER: Final = 5
_PAUSE_SECONDS: Final = 0.025

log = logging.getLogger(__name__)


class FollowingServices(Struct, frozen=True, kw_only=True):
    """The parts of a broker that follow images."""

    node_id: int
    has_peers: bool
    hosted: HostedPartitions
    slices: Slices
    image: Callable[[], ClusterImage]
    """The newest image."""
    follow_quotas: Callable[[ClusterImage], None]
    follow_settings: Callable[[ClusterImage], None]
    is_mounted: Callable[[Uuid], bool]
    """Whether a topic is only read, of a mounted bucket."""
    note_deletions: Callable[[ClusterImage, ImageChange], None]
    """Called first, while the partitions of removed topics are still known here."""
    topics_deleted: Callable[[Mapping[Uuid, str]], None]
    topics_changed: Callable[[ClusterImage, Mapping[Uuid, str]], None]
    """Called last with the names of removed topics, when the roles are in place."""


class ImageFollowing:
    """One broker's. Lives on the event loop."""

    def __init__(self, services: FollowingServices) -> None:
        self._services = services
        self._opening: asyncio.Task[None] | None = None
        self._brokers: object = None
        """Those of the image before."""
        self._crowded_at = -_CROWDED_SECONDS
        """When an image last brought so many partitions that they are opened beside, in seconds of the loop's clock."""
        self._waiting = 0
        """How many wait until all logs are open."""
        self._has_roles = asyncio.Event()
        """Whether the partitions of the image were put down; not after a lost registration, until they are again."""
        if services.hosted.is_registered(services.image()):
            self._has_roles.set()  # else a registration was lost before there was this object to hear of it
        self._lost = 0
        """How many registrations were lost."""
        self._resigning = 0
        """How many resignations are under way."""
        self._owes_roles = False
        """Whether the roles of a registration begin when the resignations have ended."""

    async def applied(self, image: ClusterImage, change: ImageChange) -> None:
        """Follow the next image; returns when the one after it may come.

        An only broker has opened every log by then: what a command has made is there when the command is answered. With
        other nodes, more than `OPENED_FIRST` partitions are opened beside, as their brokers come to them later, too.
        """
        services = self._services
        services.follow_quotas(image)
        services.note_deletions(image, change)
        due = services.hosted.table.due
        due_before = len(due)
        await services.slices.run(self._steps(change), urgent=True)
        if due and (not services.has_peers or len(due) <= OPENED_FIRST):
            await self.all_open()
        elif due:
            if len(due) > due_before + OPENED_FIRST:
                self._crowded_at = asyncio.get_running_loop().time()
            self._begin_opening()
        services.topics_changed(services.image(), change.removed_topics)

    def _steps(self, change: ImageChange) -> Steps[None]:
        """Everything but opening logs. While a broker begins with its first image the next one comes: the newest counts."""
        services, hosted = self._services, self._services.hosted
        for topic_id, topic in change.removed_topics.items():
            yield from hosted.deleting(topic, topic_id)
        services.topics_deleted(change.removed_topics)
        if change.changed_resources & {ConfigResource.broker(services.node_id), CLUSTER_DEFAULT}:
            services.follow_settings(services.image())
            yield from hosted.reconfiguring()
        for resource in sorted(change.changed_resources):
            image = services.image()
            if resource == ConfigResource.topic(resource.name) and resource.name in image.topics.by_name:
                hosted.reconfigure(image, resource.name)
                yield None
        changed = {
            topic_id: numbers
            for topic_id, numbers in change.changed_partitions.items()
            if not services.is_mounted(topic_id)
        }
        yield from hosted.following(changed)
        brokers, before = services.image().brokers, self._brokers
        self._brokers = brokers
        if services.has_peers and brokers is not before:
            yield from hosted.table.brokers_changed()

    # -- logs ------------------------------------------------------------------------------------------------------------

    async def all_open(self) -> None:
        """Wait until nothing is due to be opened. Raises what opening raises that is no fault of a single log."""
        self._waiting += 1
        try:
            while self._services.hosted.table.due:
                self._begin_opening()
                assert self._opening is not None
                await asyncio.shield(self._opening)
        finally:
            self._waiting -= 1

    async def started(self) -> None:
        """Wait until all logs of the last run are open. It ends before the controller places other ones here.

        A log that has lost records ends the registration, and with it what is due: the rest comes with the next one.
        """
        await self.all_open()
        while not self._has_roles.is_set():
            await self._has_roles.wait()
            await self.all_open()
        self._services.hosted.started()

    def _begin_opening(self) -> None:
        """Open what is due, beside, unless that is under way.

        A task that has ended is not: who waits for it goes on at once, and would wait again before the loop comes to `_opened`.
        """
        if self._opening is None or self._opening.done():
            work = self._services.slices.run(self._opening_steps())
            self._opening = asyncio.get_running_loop().create_task(work)
            self._opening.add_done_callback(self._opened)

    def _opening_steps(self) -> Steps[None]:
        """Open what is due, a few logs at a time while more commands with many partitions may come, and no one waits.

        No log is opened while too many before it wait for their sync.
        """
        loop = asyncio.get_running_loop()
        for count, _ in enumerate(self._services.hosted.opening(), 1):
            yield None
            while self._services.hosted.logs.is_behind:
                yield _pause(loop)
            if (
                count % _OPENED_TOGETHER == 0
                and not self._waiting
                and loop.time() < self._crowded_at + _CROWDED_SECONDS
            ):
                yield _pause(loop)

    def _opened(self, opening: asyncio.Task[None]) -> None:
        if self._opening is opening:
            self._opening = None
        if opening.cancelled():
            return
        if (error := opening.exception()) is not None:
            log.error("partitions were not opened; the others are", exc_info=error)
        if self._services.hosted.table.due:
            self._begin_opening()

    def registration_lost(self) -> None:
        """The controller does not know this broker's leaderships: it leads nothing, until an image says otherwise."""
        self._has_roles.clear()
        self._lost += 1
        self._owes_roles = False
        self._resigning += 1
        self._services.slices.start(self._services.hosted.resigning(), self._resigned)

    def _resigned(self, _value: object, error: Exception | None) -> None:
        self._resigning -= 1
        if error is not None:
            log.error("not every leadership could be ended", exc_info=error)
        self._take_roles()

    def caught_up_again(self) -> None:
        """The broker is registered anew: it takes the roles that the image gives it, also those that no change has named.

        They begin when those of before have ended: where the image has the same leader epoch, an old role would pass for the
        new one, and end all the same.
        """
        self._owes_roles = True
        self._take_roles()

    def _take_roles(self) -> None:
        if self._owes_roles and not self._resigning:
            self._owes_roles = False
            self._services.slices.start(self._taking_roles(), self._followed)

    def _taking_roles(self) -> Steps[bool]:
        """Returns whether they are all in place; not if the registration is lost meanwhile."""
        lost, topics = self._lost, self._services.image().topics.by_id
        every = {topic_id: tuple(topic.partitions) for topic_id, topic in topics.items()}
        for _ in self._services.hosted.following(every):
            yield None
            if self._lost != lost:
                return False
        return True

    def _followed(self, in_place: bool | None, error: Exception | None) -> None:
        if in_place is False:
            return
        self._has_roles.set()
        if error is not None:
            log.error("not every partition has got its role again", exc_info=error)
        if self._services.hosted.table.due:
            self._begin_opening()

    def close(self) -> None:
        """Open nothing more."""
        self._services.hosted.table.due.clear()


def _pause(loop: asyncio.AbstractEventLoop) -> Awaited:
    pause = Awaited(lambda error: error)
    loop.call_later(_PAUSE_SECONDS, pause.respond, None)
    return pause
