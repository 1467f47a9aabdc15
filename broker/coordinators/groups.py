"""The group coordinator of this broker: requests of members go to the shard that keeps their group."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from stratalog.broker.coordinators.ceilings import Ceiling
from stratalog.broker.coordinators.host import CoordinatorHost
from stratalog.broker.coordinators.internal_topics import GROUP_TOPIC
from stratalog.broker.coordinators.pattern_library import PatternLibrary
from stratalog.broker.coordinators.shard_driver import DriverServices, ShardDriver
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.broker.requests.context import RequestContext, ServedBroker
from stratalog.broker.requests.dispatch import PENDING, Pending
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.slices import Awaited, Steps
from stratalog.broker.runtime.tick import Tick
from stratalog.broker.settings.config import BrokerConfig
from stratalog.hot.log.log import AppendInfo
from stratalog.metadata.coordination import Action, Producer
from stratalog.metadata.groups.consumer.member import JOIN_EPOCH
from stratalog.metadata.groups.consumer.requests import said_bytes
from stratalog.metadata.groups.group import Group, GroupRequest, GroupSettings
from stratalog.metadata.groups.offsets.committed_offsets import TransactionEnded
from stratalog.metadata.groups.shard.shard import GroupShard, SettingsChanged, TopicsChanged
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.record_texts import check_text
from stratalog.tier.messages.projection import CoordinatorTerm
from stratalog.wire.compression import Codec
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from stratalog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from stratalog.wire.messages.join_group import JoinGroupRequest
from stratalog.wire.messages.offset_commit import OffsetCommitRequest
from stratalog.wire.messages.sync_group import SyncGroupRequest
from stratalog.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from stratalog.wire.topic import Uuid

__all__ = ["GroupCoordinator", "check_member_request", "group_settings"]

_MINUTE_MS = 60_000
_SHORT_NAMES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""Kafka takes its own assignors by their classes, too."""
_MAKING = frozenset({JoinGroupRequest, ConsumerGroupHeartbeatRequest, OffsetCommitRequest, TxnOffsetCommitRequest})
"""Requests that may make a group."""
_JOINING = frozenset({JoinGroupRequest, ConsumerGroupHeartbeatRequest})
"""Requests that may need a member id."""
_PLACE_BYTES = 8_192
"""A member for which more is kept counts as several; Kafka's clients send some hundred bytes, and names of topics."""


class GroupCoordinator:
    """All groups whose partitions of ``__consumer_offsets`` are led here."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        tick: Tick,
        image: Callable[[], ClusterImage],
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._settings = group_settings(config)
        self._config = config
        maximum = self._maximum
        self._groups = Ceiling("stratalog.groups.max", maximum("stratalog.groups.max"), self._count_groups, clock)
        self._members = Ceiling(
            "stratalog.group.members.max",
            maximum("stratalog.group.members.max"),
            self._count_members,
            clock,
            looked_at=self._count_groups,
        )
        self.ceilings = (self._groups, self._members)
        self._image = image
        self._random_bytes = random_bytes
        self.patterns = PatternLibrary(clock.monotonic)
        """The matches of the expressions of all groups."""
        services = DriverServices(
            clock=clock,
            tick=tick,
            perform=_unknown_action,
            on_active=self._tell_topics,
            codec=Codec(config.integer("offsets.topic.compression.codec")),
        )
        self.host = CoordinatorHost(GROUP_TOPIC, self._new_shard, services, image)

    def _new_shard(self, unified: UnifiedLog) -> GroupShard:
        return GroupShard(unified.topic_partition.partition, self._settings, self._image(), self.patterns)

    def _tell_topics(self, driver: ShardDriver) -> None:
        driver.ask(SettingsChanged(self._settings))
        driver.ask(TopicsChanged(self._image(), {}))

    # -- requests -----------------------------------------------------------------------------------------------------

    def submit(self, context: RequestContext[ServedBroker], group_id: str | None, request: Any) -> Pending:
        """Give a member's request to its group; the answer follows.

        Raises INVALID_GROUP_ID, and what `CoordinatorHost.of` raises.
        """
        driver = self.host.of(_named(group_id))
        self._make_room(driver, group_id or "", request)
        driver.ask(self.event(context, context, group_id or "", request))
        return PENDING

    def submit_matched(self, context: RequestContext[ServedBroker], request: ConsumerGroupHeartbeatRequest) -> Pending:
        """The same for a heartbeat with an expression that is new: what it matches is found out first.

        Requests behind it on its connection wait: a member that leaves would leave before it has joined.
        """
        return context.sliced(self._matched_steps(context, request))

    def _matched_steps(
        self, context: RequestContext[ServedBroker], request: ConsumerGroupHeartbeatRequest
    ) -> Steps[Pending]:
        learned = Awaited(lambda error: error)
        learning = context.dispatcher.spawn(self._learn(request.subscribed_topic_regex or "", learned))
        context.on_abandon = learning.cancel
        try:
            yield learned
        finally:
            learning.cancel()
        if learned.answer is not None:
            raise learned.answer
        return self.submit(context, request.group_id, request)

    async def _learn(self, pattern: str, learned: Awaited) -> None:
        try:
            await self.patterns.learn(pattern, self._image().topics)
        except Exception as error:  # noqa: BLE001 - whatever is raised becomes an answer
            learned.respond(error)
        else:
            learned.respond(None)

    def heartbeat(
        self, context: RequestContext[ServedBroker], request: HeartbeatRequest
    ) -> HeartbeatResponse | Pending:
        """A classic member's heartbeat, which is answered at once where it concerns only that member.

        Raises as `submit`.
        """
        driver = self.host.of(request.group_id)
        shard = driver.shard
        assert isinstance(shard, GroupShard)
        code = shard.heartbeat(request, driver.now())
        return self.submit(context, request.group_id, request) if code is None else HeartbeatResponse(error_code=code)

    def ask(self, token: Any, context: RequestContext[ServedBroker], group_id: str | None, request: Any) -> None:
        """The same for one group of many: ``token`` hears of every error."""
        try:
            driver = self.host.of(_named(group_id))
            self._make_room(driver, group_id or "", request)
            driver.ask(self.event(token, context, group_id or "", request))
        except KafkaError as error:
            token.fail(error)

    def event(self, token: Any, context: RequestContext[ServedBroker], group_id: str, request: Any) -> GroupRequest:
        """A request as its group's shard hears it."""
        may_see = None
        if type(request) is ConsumerGroupHeartbeatRequest:
            may_see = partial(context.allows, operation=Operation.DESCRIBE, resource=ResourceType.TOPIC)
        return GroupRequest(
            token=token,
            group_id=group_id,
            api_version=context.api_version,
            request=request,
            client_id=context.client_id or "",
            client_host=f"/{context.connection.host}",
            fresh_id=self.fresh_id() if type(request) in _JOINING and not request.member_id else "",
            may_see=may_see,
        )

    def fresh_id(self) -> str:
        """The text of a random UUID."""
        return str(uuid.UUID(bytes=self._random_bytes(16), version=4))

    def drivers(self) -> list[ShardDriver]:
        """The shards that take events now."""
        return [driver for driver in self.host if driver.active]

    def shards(self) -> list[tuple[GroupShard, CoordinatorTerm]]:
        """The groups of the shards that take events now, and since when this broker coordinates them."""
        return [
            (driver.shard, CoordinatorTerm(driver.unified.topic_id, driver.partition_number, driver.epoch))
            for driver in self.drivers()
            if isinstance(driver.shard, GroupShard)
        ]

    @property
    def loading(self) -> bool:
        """Whether a list of all groups would be incomplete for now."""
        return self.host.loading

    # -- ceilings -----------------------------------------------------------------------------------------------------

    def _make_room(self, driver: ShardDriver, group_id: str, request: Any) -> None:
        """Raises GROUP_MAX_SIZE_REACHED for a request that would make a group or a member beyond the maximum."""
        kind = type(request)
        if kind is SyncGroupRequest:
            self._make_room_for_assignments(driver, request)
        if kind not in _MAKING:
            return
        shard = driver.shard
        assert isinstance(shard, GroupShard)
        group = shard.groups.get(group_id)
        if group is None:
            self._groups.admit(group_id, ErrorCode.GROUP_MAX_SIZE_REACHED)
        if kind is JoinGroupRequest:
            instance_id = request.group_instance_id
        elif kind is ConsumerGroupHeartbeatRequest and _says_something(request):
            instance_id = request.instance_id
        else:
            return
        held = None if group is None else group.bytes_held_of(request.member_id, instance_id)
        places = max(1, _said_bytes(request) // _PLACE_BYTES)
        if held is not None:
            places -= max(1, held // _PLACE_BYTES)
        if places > 0:
            self._members.admit(request.member_id, ErrorCode.GROUP_MAX_SIZE_REACHED, places)

    def _make_room_for_assignments(self, driver: ShardDriver, request: SyncGroupRequest) -> None:
        """Raises GROUP_MAX_SIZE_REACHED for assignments that need more room than the group has, less those that they replace."""
        if not request.assignments:
            return
        shard = driver.shard
        assert isinstance(shard, GroupShard)
        group = shard.groups.get(request.group_id)
        if group is None:
            return
        held_bytes = group.held_bytes - group.assigned_bytes + sum([len(one.assignment) for one in request.assignments])
        places = held_bytes // _PLACE_BYTES - _places_of(group)
        if places > 0:
            self._members.admit("", ErrorCode.GROUP_MAX_SIZE_REACHED, places)

    def _count_groups(self) -> int:
        return sum(len(shard.groups) for shard, _ in self.shards())

    def _count_members(self) -> int:
        groups = (group for shard, _ in self.shards() for group in shard.groups.values())
        return sum(_places_of(group) for group in groups)

    def _maximum(self, name: str) -> Callable[[], int]:
        return lambda: self._config.integer(name)

    # -- transactions -------------------------------------------------------------------------------------------------

    def complete_transaction(
        self,
        partition_number: int,
        batch: bytearray,
        producer: Producer,
        done: Callable[[AppendInfo | KafkaError], None],
        *,
        commit: bool,
        transaction_version: int,
    ) -> None:
        """End a producer's transaction in one partition of the offsets topic: ``batch`` is the marker.

        ``done`` is called once the marker is committed and the offsets are what it says, or with what failed.
        """
        try:
            driver = self.host.driver(partition_number)
            ended = TransactionEnded(producer, commit)
            driver.end_transaction(batch, ended, done, transaction_version=transaction_version)
        except KafkaError as error:
            done(error)

    # -- following the image ------------------------------------------------------------------------------------------

    def follow_settings(self, config: BrokerConfig) -> None:
        """Settings that change while the broker runs hold for all groups at once."""
        self._config = config
        settings = group_settings(config)
        if settings != self._settings:
            self._settings = settings
            for driver in self.drivers():
                driver.ask(SettingsChanged(settings))

    def topics_changed(self, image: ClusterImage, removed: Mapping[Uuid, str]) -> None:
        """Topics came, went or grew: subscriptions by pattern, assignments and offsets follow."""
        for driver in self.drivers():
            driver.ask(TopicsChanged(image, removed))


def check_member_request(context: RequestContext[ServedBroker], group_id: str) -> None:
    """Check the rules for every request of a classic member. Raises INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    if not context.allows(group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _places_of(group: Group) -> int:
    """The places that a group takes."""
    return max(group.member_count, group.held_bytes // _PLACE_BYTES)


def _says_something(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a heartbeat may make a member, or have more kept for one."""
    said = (request.subscribed_topic_names, request.subscribed_topic_regex, request.rack_id)
    return request.member_epoch == JOIN_EPOCH or said != (None, None, None)


def _said_bytes(request: JoinGroupRequest | ConsumerGroupHeartbeatRequest) -> int:
    """The bytes of a request that are kept for its member."""
    if isinstance(request, JoinGroupRequest):
        sizes = [len(protocol.name) + len(protocol.metadata) for protocol in request.protocols]
        return sum(sizes) + len(request.group_instance_id or "")
    return said_bytes(request)


def _named(group_id: str | None) -> str:
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is missing.")
    try:
        check_text("GroupId", group_id)
    except KafkaError as error:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, error.message) from error
    return group_id


def _unknown_action(driver: ShardDriver, action: Action) -> None:
    raise AssertionError(f"{driver.unified.topic_partition}: groups have no action {action!r}")


def group_settings(config: BrokerConfig) -> GroupSettings:
    """The broker settings that groups obey."""
    integer = config.integer
    assignors = config.texts("group.consumer.assignors")
    return GroupSettings(
        min_session_timeout_ms=integer("group.min.session.timeout.ms"),
        max_session_timeout_ms=integer("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=integer("group.initial.rebalance.delay.ms"),
        max_size=integer("group.max.size"),
        offset_metadata_max_bytes=integer("offset.metadata.max.bytes"),
        offsets_retention_ms=integer("offsets.retention.minutes") * _MINUTE_MS,
        offsets_retention_check_interval_ms=integer("offsets.retention.check.interval.ms"),
        consumer_session_timeout_ms=integer("group.consumer.session.timeout.ms"),
        consumer_min_session_timeout_ms=integer("group.consumer.min.session.timeout.ms"),
        consumer_max_session_timeout_ms=integer("group.consumer.max.session.timeout.ms"),
        consumer_heartbeat_interval_ms=integer("group.consumer.heartbeat.interval.ms"),
        consumer_min_heartbeat_interval_ms=integer("group.consumer.min.heartbeat.interval.ms"),
        consumer_max_heartbeat_interval_ms=integer("group.consumer.max.heartbeat.interval.ms"),
        consumer_assignment_interval_ms=integer("group.consumer.assignment.interval.ms"),
        consumer_min_assignment_interval_ms=integer("group.consumer.min.assignment.interval.ms"),
        consumer_max_assignment_interval_ms=integer("group.consumer.max.assignment.interval.ms"),
        consumer_max_size=integer("group.consumer.max.size"),
        consumer_assignors=tuple(_SHORT_NAMES.get(str(name), str(name)) for name in assignors),
        consumer_migration_policy=(config.text("group.consumer.migration.policy") or "bidirectional").lower(),
        consumer_regex_refresh_interval_ms=integer("group.consumer.regex.refresh.interval.ms"),
    )
