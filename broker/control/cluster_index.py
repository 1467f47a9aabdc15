"""The index of partitions that the controller decides with, kept beside the image as images are published.

Each image costs what has changed. To fence a broker is then to look at its own partitions, and to count the partitions
without a leader is to look at none.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from msgspec.structs import replace

from stratalog.metadata.controller.cluster_view import ClusterView, topic_settings
from stratalog.metadata.image.decision import at_once
from stratalog.metadata.image.image import EMPTY_IMAGE, ClusterImage, ImageDelta
from stratalog.metadata.image.partition_index import EMPTY_INDEX, PartitionIndex
from stratalog.metadata.settings.resolution import ConfigResolver

__all__ = ["ClusterIndex"]


class ClusterIndex:
    """Follows images from an empty one on. ``resolver_of`` gives the settings of topics by an image's defaults."""

    def __init__(self, resolver_of: Callable[[ClusterImage], ConfigResolver]) -> None:
        self._resolver_of = resolver_of
        self.index: PartitionIndex = EMPTY_INDEX
        """The index of the last image."""
        self._view = ClusterView(
            image=EMPTY_IMAGE, settings=topic_settings(EMPTY_IMAGE, resolver_of(EMPTY_IMAGE)), index=EMPTY_INDEX
        )

    @property
    def image(self) -> ClusterImage:
        """The last image."""
        return self._view.image

    def follow(self, image: ClusterImage, delta: ImageDelta | None) -> None:
        """The next image, and what made it. An image from a snapshot comes without, and costs all its partitions."""
        at_once(self.following)(image, delta)

    def following(self, image: ClusterImage, delta: ImageDelta | None) -> Generator[None, None, None]:
        """The same in steps; until the last the view is that of the image before."""
        before, index = self._view, self.index
        if delta is not None and delta.base is before.image:
            index = yield from index.following(before.image, delta, image)
        elif image is not before.image:
            index = yield from PartitionIndex.making(image)
        self.index = index
        settings = before.settings
        if image.configs is not before.image.configs:
            settings = topic_settings(image, self._resolver_of(image))
        self._view = ClusterView(image=image, settings=settings, index=self.index)

    def view(self, image: ClusterImage) -> ClusterView:
        """The view of a decision on ``image``; one that is not the last has to be searched for its partitions."""
        if image is self._view.image:
            return self._view
        return replace(self._view, image=image, settings=topic_settings(image, self._resolver_of(image)), index=None)
