"""The controller of a node: its commands, its sessions and duties while it is active, and the listener at which it is asked.

.. code-block:: text

    ControllerListener -- requests --> handlers --> ControlPlane, BrokerSessions --> Quorum.propose
    Quorum -- images --> ClusterIndex, BrokerSessions, ControllerDuties, Enrolment
    Quorum -- leaders --> BrokerSessions, ControllerDuties

Every controller follows the images, so that it can decide as soon as it is active. A node that is broker and controller at
once has one of these beside its broker's half.
"""

from __future__ import annotations

from functools import partial

from stratalog.broker import decision_rules
from stratalog.broker.control.broker_sessions import BrokerSessions, SessionServices
from stratalog.broker.control.cluster_index import ClusterIndex
from stratalog.broker.control.control_plane import ControlPlane, new_topic_id
from stratalog.broker.control.controller_duties import ControllerDuties, DutyServices, DutySettings
from stratalog.broker.control.controller_metrics import ControllerParts, add_controller_metrics
from stratalog.broker.controller_listener import ControllerListener
from stratalog.broker.lifecycle.controller_channel import ControllerChannel
from stratalog.broker.lifecycle.enrolment import ControllerSelf, Enrolment
from stratalog.broker.node_quorum import NodeQuorum
from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.broker.quorum.quorum import Quorum
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.tick import Tick
from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.controller.cluster_view import ClusterView
from stratalog.metadata.controller.controller import ConfigRules, TopicRules
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource
from stratalog.metadata.image.difference import ImageChange
from stratalog.metadata.image.features import NODE_FEATURES
from stratalog.metadata.image.image import ClusterImage, ImageDelta
from stratalog.metadata.raft.messages import NO_LEADER
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.wire.topic import Uuid

__all__ = ["ControllerRole"]


class _PlainNames:
    """A controller has no views of topics: each name is its own."""

    def access_name(self, name: str, /) -> str:
        """The name itself."""
        return name


class ControllerRole:
    """One controller; `ControllerView` for its handlers. Lives on the event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        opened: NodeQuorum,
        *,
        metrics: Metrics,
        tick: Tick,
    ) -> None:
        """No port is taken before `start`."""
        quorum, links = opened.quorum, opened.links
        clock = links.clock
        self.config = config
        self.quorum: Quorum = quorum
        self._links = links
        self.clock = clock
        self.metrics = metrics
        self.node_id = config.node_id
        self.cluster_id = quorum.cluster_id
        self.views = _PlainNames()
        self._dice = links.dice
        self.cluster = ClusterIndex(self._resolver)
        self.listener = ControllerListener(self, tick)
        slices = self.listener.dispatcher.slices
        self._in_slices = partial(slices.run, urgent=True)
        activate = opened.activation(config.static, draw=partial(links.dice.getrandbits, 64))
        self.control = ControlPlane(quorum, activate=activate, in_slices=self._in_slices, aside=slices.run)
        settings = config.roles.quorum
        self.sessions = BrokerSessions(
            SessionServices(
                control=self.control,
                cluster=self.cluster,
                clock=clock,
                dialer=links.dialer(),
                cluster_id=self.cluster_id,
                next_offset=lambda: quorum.log_end_offset,
                session_timeout_ms=settings.session_timeout_ms,
                heartbeat_timeout_ms=settings.heartbeat_interval_ms // 2,
            )
        )
        self._duties = ControllerDuties(
            DutyServices(
                control=self.control,
                cluster=self.cluster,
                clock=clock,
                settings=DutySettings.of(config.values),
            )
        )
        self._last_leader_id = NO_LEADER
        self._enrolment: Enrolment | None = None
        self._channel: ControllerChannel | None = None
        self._known_leader = (-1, -1)
        self._new_leaders = 0
        add_controller_metrics(metrics, self._measured())

    def _measured(self) -> ControllerParts:
        """The parts that have figures."""
        publisher = self.quorum.publisher
        return ControllerParts(
            office=self.quorum,
            cluster=self.cluster,
            sessions=self.sessions,
            control=self.control,
            clock=self.clock,
            new_leaders=lambda: self._new_leaders,
            metadata_errors=lambda: publisher.load_errors + publisher.apply_errors,
        )

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self, incarnation_id: Uuid) -> None:
        """Take the ports and let others in, follow the quorum, and have the active controller know of this one.

        Raises `OSError`.
        """
        await self.listener.bind()
        roles = self.config.roles
        self._channel = channel = ControllerChannel(
            self.quorum,
            listener=roles.controller_listeners[0],
            new_link=self._links.link_to("controller"),
            monotonic=self.clock.monotonic,
        )
        self._enrolment = Enrolment(
            ControllerSelf(
                controller_id=self.node_id,
                incarnation_id=incarnation_id,
                listeners=self.listener.told,
                features=NODE_FEATURES,
            ),
            channel=channel,
            quorum=self.quorum,
            monotonic=self.clock.monotonic,
            draw=self._dice.random,
            timeout_ms=roles.quorum.request_timeout_ms,
        )
        # Before this controller can be elected: a quorum of many partitions would wait a second for the index.
        await self._in_slices(self.cluster.following(self.quorum.image, None))
        self.quorum.publisher.follow(self._follow)
        self.quorum.on_leader_change(self._leader_changed)
        await self.listener.accept()

    def close_office(self) -> None:
        """End timers and what they have begun."""
        self.sessions.close()
        self._duties.close()
        if self._enrolment is not None:
            self._enrolment.close()
        if self._channel is not None:
            self._channel.close()

    async def close(self, grace_seconds: float = 5.0) -> None:
        """Answer what is being answered, then close everything."""
        self.close_office()
        await self.listener.close(grace_seconds)

    # -- what the quorum says ------------------------------------------------------------------------------------------

    async def _follow(self, image: ClusterImage, change: ImageChange) -> None:
        delta = change if isinstance(change, ImageDelta) else None
        await self._in_slices(self.cluster.following(image, delta))
        self.sessions.follow(image, delta)
        self._duties.follow(image, delta)
        self.listener.follow(image, self.config)
        if self._enrolment is not None:
            self._enrolment.image_applied(image)

    def _leader_changed(self, leader: LeaderAndEpoch, is_active: bool) -> None:
        if leader.leader_id != NO_LEADER:
            self._last_leader_id = leader.leader_id
        if leader.leader_id >= 0 and self._known_leader != (leader.leader_id, leader.epoch):
            self._known_leader = leader.leader_id, leader.epoch
            self._new_leaders += 1
        self.sessions.leader_changed(leader, is_active)
        self._duties.leader_changed(leader, is_active)

    # -- what handlers ask ---------------------------------------------------------------------------------------------

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        return self.quorum.image

    @property
    def last_leader_id(self) -> int:
        """The leader of the metadata quorum; while none is known, the one before it; -1 before the first."""
        return self._last_leader_id

    def cluster_view(self, image: ClusterImage) -> ClusterView:
        """The view that a decision about partitions is made on."""
        return self.cluster.view(image)

    def topic_rules(self) -> TopicRules:
        """The rules that new topics must keep."""
        return decision_rules.topic_rules(self.config, self._resolver(self.image))

    def config_rules(self) -> ConfigRules:
        """The rules that new settings must keep."""
        return decision_rules.config_rules(self.config, self._resolver(self.image))

    new_topic_id = staticmethod(new_topic_id)

    def random_int(self, bound: int) -> int:
        """A number in ``[0, bound)``."""
        return self._dice.randrange(bound)

    def _resolver(self, image: ClusterImage) -> ConfigResolver:
        mine = image.configs.of(ConfigResource.broker(self.node_id))  # Kafka's controllers heed them, too
        return ConfigResolver.for_topics(self.config.static, mine, image.configs.of(CLUSTER_DEFAULT))
