"""Brokers and controllers as handlers of both listeners see them: what a request about the cluster's metadata needs.

A handler that serves the listeners of clients and of controllers asks for a `MetadataView` and not for more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from stratalog.broker.control.control_plane import ControlPlane
from stratalog.broker.quorum.leadership import QuorumView
from stratalog.broker.requests.context import RequestContext, TopicNames
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.controller.controller import ClusterView, ConfigRules, TopicRules
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.topic import Uuid

__all__ = ["Context", "MetadataView"]


class MetadataView(Protocol):
    """The attributes and methods that a broker and a controller both offer to handlers."""

    @property
    def node_id(self) -> int:
        """Its ``node.id``."""

    @property
    def cluster_id(self) -> str:
        """The id of its cluster."""

    @property
    def config(self) -> BrokerConfig:
        """Its settings, as they are now."""

    @property
    def clock(self) -> Clock:
        """Its time."""

    @property
    def metrics(self) -> Metrics:
        """Its figures."""

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""

    @property
    def control(self) -> ControlPlane:
        """Carries commands out that change the cluster."""

    def cluster_view(self, image: ClusterImage, /) -> ClusterView:
        """The view that a decision about partitions is made on."""

    @property
    def quorum(self) -> QuorumView:
        """Its part in the metadata quorum."""

    def topic_rules(self) -> TopicRules:
        """The rules for new topics."""

    def config_rules(self) -> ConfigRules:
        """The rules for new settings."""

    @property
    def new_topic_id(self) -> Callable[[], Uuid]:
        """Makes a random id."""

    def random_int(self, bound: int, /) -> int:
        """A number in ``[0, bound)``."""

    @property
    def views(self) -> TopicNames:
        """Topics as they were."""


Context = RequestContext[MetadataView]
"""A request as handlers of both listeners get it."""
