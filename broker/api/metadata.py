"""Metadata (key 3): brokers, topics, partitions and their leaders.

Behaviour: version 0 asks for everything with an empty list, later versions with null. A topic that does not exist is
created if both the client and ``auto.create.topics.enable`` allow it, and the answer waits for that. Addresses are
those of the listener that was asked; brokers that are fenced, or have no such listener, are left out. The controller is one
of these brokers, by chance: each of them forwards what the controller decides (as in Kafka's KRaft mode). The
bytes that describe a topic are kept until it changes, or until brokers come, go, or are fenced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.api.partition_health import partition_health
from stratalog.broker.requests.authorizer import CLUSTER_NAME, Operation, ResourceType
from stratalog.broker.requests.dispatch import Api, Pending
from stratalog.broker.requests.forwarding import Forwarding
from stratalog.broker.requests.quotas import mutation_permit
from stratalog.broker.requests.topic_wishes import wish_for_topics
from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.controller.controller import Failure, create_topics
from stratalog.metadata.image.decision import charged_once
from stratalog.metadata.image.topic_names import absence_code, is_internal
from stratalog.metadata.image.topics_image import PartitionImage, TopicImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from stratalog.wire.metadata_answer import EncodedTopics, metadata_encoder, topic_bytes
from stratalog.wire.schema import Message
from stratalog.wire.topic import ZERO_UUID

__all__ = ["API", "some_node"]

_ERROR_SINCE: Final = 13
_IDS_SINCE: Final = 12
_LISTENERS_SINCE: Final = 6
"""LISTENER_NOT_FOUND is answered from this version on, LEADER_NOT_AVAILABLE before."""
_NO_CONTROLLER: Final = -1
_NEVER_STRICT: Final = 1 << 15
"""Topics that are created by being asked for are counted; no version refuses them."""
_LATER: Final = dict.fromkeys(
    (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.THROTTLING_QUOTA_EXCEEDED),
    ErrorCode.LEADER_NOT_AVAILABLE,
)
"""Errors that no client expects of a topic: it is to ask again."""
_CREATED_MAX: Final = 100
"""Topics created for one request; the others are unknown in its answer, and created when the client asks again."""


def _unknown(code: ErrorCode, name: str | None, topic_id: bytes = ZERO_UUID) -> MetadataResponseTopic:
    internal = name is not None and is_internal(name)
    return MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, is_internal=internal, partitions=[])


class _Answer:
    """One metadata request against one image."""

    def __init__(self, context: Context, request: MetadataRequest) -> None:
        self._context = context
        self._broker = context.broker
        self._image = context.broker.image
        self._version = context.api_version
        self._listener = context.connection.listener.name
        self._wanted = None if request.topics is None else {(one.name, one.topic_id): one for one in request.topics}
        self._everything = request.topics is None or (self._version == 0 and not request.topics)
        self._create = request.allow_auto_topic_creation and self._broker.config.boolean("auto.create.topics.enable")
        self._operations = request.include_topic_authorized_operations
        self._cluster_operations = request.include_cluster_authorized_operations
        directories = self._broker.directories.all
        self._passing = False
        """Whether something that this broker alone knows has been told since this was set to False."""
        self._failed_views: dict[str, ErrorCode] = {}
        self._form = (self._version, self._listener)
        offline = sum(directory.writer.offline is not None for directory in directories)
        self._failures = offline, self._broker.partitions.failure_count

    def steps(self) -> Steps[Message | Pending]:
        """The answer, or PENDING where topics have to be created, or views opened, first."""
        missing: list[str] = []
        to_open: list[str] = []
        views, known, create = self._broker.views, self._image.topics.by_name, self._create and not self._everything
        for name in self._names():
            if views.to_open(name) and self._sees(name):
                to_open.append(name)
            if create and name not in known and len(missing) < _CREATED_MAX:
                if not views.is_view(name) and self._may_create(name):
                    missing.append(name)
                yield None
        if to_open:
            return self._context.run(self.open_views(to_open, missing))
        if missing:
            return self._context.run(self.create(missing))
        return (yield from self.build({}))

    def _names(self) -> dict[str, None]:
        """The topics that are asked for by name."""
        return dict.fromkeys(name for name, topic_id in self._wanted or () if name and topic_id == ZERO_UUID)

    async def open_views(self, names: list[str], missing: list[str]) -> Steps[Message]:
        """Open views, one after the other, then go on; one that cannot be opened has an error."""
        for name in names:
            self._failed_views[name] = await self._broker.views.open(name)
        self._image = self._broker.image  # that took its time
        return await self.create(missing) if missing else self.build({})

    def _may_create(self, name: str) -> bool:
        allows = self._context.allows
        return allows(name) and (
            allows(CLUSTER_NAME, Operation.CREATE, ResourceType.CLUSTER)
            or allows(name, Operation.CREATE, ResourceType.TOPIC)
        )

    async def create(self, names: list[str]) -> Steps[Message]:
        """Create topics with the broker's defaults, then answer; one that cannot be created says why."""
        broker = self._broker
        forwarding = self._context.dispatcher.forwarding
        if forwarding is not None and forwarding.elsewhere:
            return await self._create_elsewhere(names, forwarding)
        permit = charged_once(mutation_permit(self._context, _NEVER_STRICT))
        wanted = broker.coordinators.internal_topics.wanted
        try:
            results = await broker.control.execute(
                lambda image: create_topics(
                    image,
                    [wanted(name) for name in names],
                    broker.topic_rules(),
                    new_topic_id=broker.new_topic_id,
                    next_int=broker.random_int,
                    permit=permit(),
                ),
                source=self._context.connection,
                size=len(names),
            )
        except KafkaError as error:
            return self.build(dict.fromkeys(names, _LATER.get(error.code, error.code)))
        self._image = broker.image
        failed: dict[str, ErrorCode] = {
            name: result.code
            for name, result in results
            if isinstance(result, Failure) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS
        }
        return self.build(failed)

    async def _create_elsewhere(self, names: list[str], forwarding: Forwarding) -> Steps[Message]:
        """Have topics created by the active controller; LEADER_NOT_AVAILABLE for those that have not reached this broker yet."""
        broker = self._broker
        wanted = [broker.coordinators.internal_topics.wanted(name) for name in names]
        failed = dict.fromkeys(names, ErrorCode.LEADER_NOT_AVAILABLE)
        try:
            errors = await wish_for_topics(forwarding, wanted, broker.config, self._context)
        except KafkaError as error:
            failed = dict.fromkeys(names, _LATER.get(error.code, error.code))
        else:
            failed |= {name: _LATER.get(error.code, error.code) for name, error in errors.items()}
        self._image = broker.image
        return self.build(failed)

    def build(self, failed: dict[str, ErrorCode]) -> Steps[Message]:
        """The answer. ``failed``: topics that could not be created."""
        topics = yield from (self._all() if self._everything else self._some(failed))
        brokers = self._brokers()
        answer = MetadataResponse(
            brokers=brokers,
            cluster_id=self._broker.cluster_id,
            controller_id=some_node([one.node_id for one in brokers], self._broker.random_int),
            topics=topics,
        )
        if self._cluster_operations:
            context = self._context
            sees = context.allows(CLUSTER_NAME, Operation.DESCRIBE, ResourceType.CLUSTER)
            operations = context.authorized_operations(ResourceType.CLUSTER, CLUSTER_NAME) if sees else 0
            answer.cluster_authorized_operations = operations
        return answer

    def _all(self) -> Steps[EncodedTopics]:
        image, guarded = self._image, self._context.dispatcher.guarded
        if not guarded and not self._operations:
            fragments = self._broker.metadata_fragments
            return (yield from fragments.everything(image, self._form, self._described, failures=self._failures))
        topics = []
        for topic in image.topics.by_name.values():
            if not guarded or self._sees(topic.name):
                topics.append(self._bytes(topic))
            yield None
        return EncodedTopics(topics)

    def _some(self, failed: dict[str, ErrorCode]) -> Steps[EncodedTopics]:
        topics = []
        for wanted in (self._wanted or {}).values():
            found = self._named(wanted, failed)
            topics.append(self._bytes(found) if isinstance(found, TopicImage) else topic_bytes(found, self._version))
            yield None
        return EncodedTopics(topics)

    def _bytes(self, topic: TopicImage) -> bytes:
        """The topic's bytes in the answer; kept, unless they say what the caller may do."""
        if self._operations or topic.topic_id not in self._image.topics.by_id:
            return topic_bytes(self._topic(topic), self._version)
        fragments = self._broker.metadata_fragments
        brokers = self._image.brokers
        return fragments.topic(topic, brokers, self._form, self._described, failures=self._failures)

    def _sees(self, name: str) -> bool:
        return self._context.allows(name)

    def _brokers(self) -> list[MetadataResponseBroker]:
        answer = []
        for broker in self._image.brokers.brokers.values():
            at = broker.listeners.get(self._listener)
            if at is not None and not broker.is_fenced:
                answer.append(
                    MetadataResponseBroker(node_id=broker.broker_id, host=at.host, port=at.port, rack=broker.rack)
                )
        return answer

    def _named(self, wanted: MetadataRequestTopic, failed: dict[str, ErrorCode]) -> TopicImage | MetadataResponseTopic:
        """The topic that is asked for, or the reason why it is left out."""
        if wanted.topic_id != ZERO_UUID:
            topic = self._image.topics.by_id.get(wanted.topic_id) or self._broker.views.find_by_id(wanted.topic_id)
            if topic is None:
                return _unknown(ErrorCode.UNKNOWN_TOPIC_ID, None, wanted.topic_id)
            return (
                topic
                if self._sees(topic.name)
                else _unknown(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, wanted.topic_id)
            )
        if wanted.name is None:
            return _unknown(ErrorCode.UNKNOWN_TOPIC_ID, None)
        if not self._sees(wanted.name):
            return _unknown(ErrorCode.TOPIC_AUTHORIZATION_FAILED, wanted.name)
        topic = self._image.topics.by_name.get(wanted.name) or self._broker.views.find(wanted.name)
        if topic is None:
            code = (failed | self._failed_views).get(wanted.name)
            if code is None:
                is_view = self._broker.views.is_view(wanted.name)
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_view else absence_code(wanted.name)
            absent = _unknown(code, wanted.name)
            if self._operations:
                absent.topic_authorized_operations = self._context.authorized_operations(
                    ResourceType.TOPIC, wanted.name
                )
            return absent
        return topic

    def _described(self, topic: TopicImage) -> tuple[MetadataResponseTopic, bool]:
        """The answer for a topic, and whether it holds as long as the images do."""
        self._passing = False
        return self._topic(topic), not self._passing

    def _topic(self, topic: TopicImage) -> MetadataResponseTopic:
        answer = MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=is_internal(topic.name),
            partitions=[self._partition(topic.name, number, state) for number, state in topic.partitions.items()],
        )
        if self._operations:
            answer.topic_authorized_operations = self._context.authorized_operations(ResourceType.TOPIC, topic.name)
        return answer

    def _partition(self, topic: str, number: int, state: PartitionImage) -> MetadataResponsePartition:
        leader, offline, code, passing = partition_health(
            self._broker, self._image.brokers, self._listener, topic, number, state
        )
        self._passing = self._passing or passing
        if code is ErrorCode.LISTENER_NOT_FOUND and self._version < _LISTENERS_SINCE:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        replicas, in_sync = list(state.replicas), list(state.in_sync_replicas)
        if self._version == 0:
            replicas, in_sync = self._reached(replicas), self._reached(in_sync)
            if not code and (len(replicas) < len(state.replicas) or len(in_sync) < len(state.in_sync_replicas)):
                code = ErrorCode.REPLICA_NOT_AVAILABLE
        return MetadataResponsePartition(
            error_code=code,
            partition_index=number,
            leader_id=leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=in_sync,
            offline_replicas=offline,
        )

    def _reached(self, replicas: list[int]) -> list[int]:
        """Those with an address at the listener: version 0 names no others."""
        brokers = self._image.brokers.brokers
        return [one for one in replicas if one in brokers and self._listener in brokers[one].listeners]


def some_node(told: Sequence[int], random_int: Callable[[int], int]) -> int:
    """The controller for clients: one of the brokers in the answer, or -1 where there is none."""
    return told[random_int(len(told))] if told else _NO_CONTROLLER


def handle(context: Context, request: MetadataRequest) -> Pending:
    """Answer at once, unless a topic has to be created first."""
    if context.api_version < _IDS_SINCE:
        _refuse_ids(request, context.api_version)
    return context.sliced(_Answer(context, request).steps())


def _refuse_ids(request: MetadataRequest, version: int) -> None:
    """Versions 10 and 11 have a field for topic ids that Kafka does not serve. Raises `KafkaError` INVALID_REQUEST."""
    for topic in request.topics or ():
        if topic.name is None or topic.topic_id != ZERO_UUID:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"version {version} of a metadata request asks by topic name, only from {_IDS_SINCE} on by topic id",
            )


def _failure(request: MetadataRequest, version: int, error: KafkaError) -> Message | None:
    """An error by topic before version 13; a request for everything cannot
    carry one then, and no cluster looks empty for it.
    """
    topics = [_unknown(error.code, topic.name or "", topic.topic_id) for topic in request.topics or ()]
    if not topics and version < _ERROR_SINCE:
        return None
    return MetadataResponse(error_code=error.code, brokers=[], topics=topics)


API = Api(
    key=3,
    versions=(0, 13),
    request=MetadataRequest,
    response=MetadataResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.TOPIC,
    failure=_failure,
    encoder=metadata_encoder,
)
