"""The parts of a broker that its HTTP routes show and steer."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from stratalog.broker.archive.tiering import Tiering
from stratalog.broker.control.control_plane import ControlPlane
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.requests.authorizer import Authorizer
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.slices import Slices
from stratalog.broker.views.mount import Mounted
from stratalog.metadata.controller.controller import ConfigRules
from stratalog.metadata.image.image import ClusterImage

__all__ = ["HttpServices"]


class HttpServices(Struct, frozen=True, kw_only=True):
    """``image`` and ``config_rules`` are as they are now.

    ``led`` are the partitions that the broker leads, ``mounted`` those that it serves from a bucket.
    """

    bucket_url: str
    clock: Clock
    authorizer: Authorizer
    image: Callable[[], ClusterImage]
    config_rules: Callable[[], ConfigRules]
    control: ControlPlane
    led: Iterable[UnifiedLog]
    tiering: Tiering
    mounted: Iterable[Mounted]
    slices: Slices
    """The turns in which long answers are made."""
