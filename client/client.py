"""A small blocking Kafka client on our own codec: what the command line speaks, and what tests send requests with.

`Client` knows the cluster: it finds leaders, lists offsets and sends each request to the broker that must have it.
It asks again if a broker refused because it does not lead now. It repeats a request whose answer was lost only if the
request reads, and only if the client waits for brokers.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from msgspec import Struct, field

from stratalog.client.link import BrokerAway, BrokerLink, BrokerTimeout, BrokerUnavailable, code_words
from stratalog.client.moving import Patience, check_led
from stratalog.wire.address import parse_address
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from stratalog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from stratalog.wire.schema import Message
from stratalog.wire.topic import ZERO_UUID, TopicPartition, Uuid, base_topic

__all__ = [
    "EARLIEST_OFFSET",
    "LATEST_OFFSET",
    "REACH_SECONDS",
    "BrokerAway",
    "BrokerLink",
    "BrokerTimeout",
    "BrokerUnavailable",
    "Client",
    "ListedOffset",
    "Partition",
    "Topic",
    "by_topic",
    "in_batches",
]


R = TypeVar("R")
T = TypeVar("T")

REACH_SECONDS: Final = 3.0
"""A broker has so long to take a connection and to say what it serves, or counts as away where a command goes on without."""
RETRY_PAUSE_SECONDS: Final = 0.1
_A_REQUEST: Final = 500
"""Partitions or topics that one request names: brokers close the connection of one with too many elements."""
LATEST_OFFSET: Final = -1
EARLIEST_OFFSET: Final = -2
"""Times in ListOffsets that stand for an end of the log; under read_committed the latest is the last stable offset."""
_MISSING: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION})


class Partition(Struct, frozen=True):
    """One partition as Metadata tells it; leader -1 when there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]
    error_code: int = 0
    eligible: tuple[int, ...] | None = None
    """Replicas that may lead although they are not in sync (KIP-966); None where Metadata alone was asked."""


class Topic(Struct, frozen=True):
    """One topic as Metadata tells it."""

    name: str
    topic_id: Uuid
    internal: bool
    partitions: tuple[Partition, ...]
    """In the order of their numbers."""

    def partition(self, number: int) -> Partition | None:
        """The partition of this number, if Metadata named it."""
        place = bisect_left(self.partitions, number, key=_number)
        if place == len(self.partitions) or self.partitions[place].partition != number:
            return None
        return self.partitions[place]


def _number(partition: Partition) -> int:
    return partition.partition


class ListedOffset(NamedTuple):
    """One answer of ListOffsets; offset -1 when there is none."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class Client(Struct):
    """A cluster, reached through any one of its brokers. Connections open on first use.

    `bootstrap` is ``HOST:PORT``, or several separated by commas; the first that answers is used.
    """

    bootstrap: str
    timeout_seconds: float = 30.0
    client_id: str = "stratalog"
    waits_for_brokers: bool = False
    """Whether requests that only read are sent again, for ``timeout_seconds``, while no broker answers."""
    monotonic: Callable[[], float] = time.monotonic  # noqa: TID251 - the edge of every program that is a client
    topics: dict[str, Topic] = field(default_factory=dict)
    cluster_id: str | None = None
    controller_id: int = -1
    brokers: dict[int, tuple[str, int]] = field(default_factory=dict)
    _links: dict[tuple[str, int], BrokerLink] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    def link(self, node_id: int | None = None) -> BrokerLink:
        """The connection to a broker, or to any.

        Any broker is one of `bootstrap`, or one that Metadata has named since if none of these is there. Raises
        `BrokerUnavailable` or `BrokerTimeout`, that of the last address of `bootstrap`.
        """
        if node_id is not None:
            return self._linked(self.brokers[node_id])
        *others, last = self._bootstrap_addresses()
        for address in others:
            with suppress(BrokerAway):
                return self._linked(address)
        try:
            return self._linked(last)
        except BrokerAway:
            for address in self.brokers.values():
                with suppress(BrokerAway):
                    return self._linked(address)
            raise

    def _bootstrap_addresses(self) -> list[tuple[str, int]]:
        return [parse_address(text, "--bootstrap-server") for text in self.bootstrap.split(",")]

    def _linked(self, address: tuple[str, int]) -> BrokerLink:
        link = self._open_link(address)
        if link is None:
            host, port = address
            link = BrokerLink(host, port, timeout_seconds=self.timeout_seconds, client_id=self.client_id)
            self._links[address] = link
        return link

    def _open_link(self, address: tuple[str, int]) -> BrokerLink | None:
        """The connection that there is. One that the broker has closed is forgotten: a request over it would be in doubt."""
        link = self._links.get(address)
        if link is None or not link.has_ended():
            return link
        del self._links[address]
        link.close()
        return None

    def reach(self, node_id: int) -> None:
        """Have a connection to a broker that has answered over it. Raises `BrokerAway` after `REACH_SECONDS` at most."""
        host, port = address = self.brokers[node_id]
        if self._open_link(address) is not None:
            return
        seconds = min(REACH_SECONDS, self.timeout_seconds)
        link = BrokerLink(host, port, timeout_seconds=seconds, client_id=self.client_id)
        try:
            link.api_ranges()
        except BrokerAway:
            link.close()
            raise
        link.wait_for(self.timeout_seconds)
        self._links[address] = link

    def call(self, request: Message, node_id: int | None = None, version: int | None = None) -> Any:
        """Send one request to a broker, or to any, and return its answer; see `BrokerLink.call`."""
        return self._call(self.link(node_id), request, version)

    def send_unanswered(self, request: Message, node_id: int) -> None:
        """Send a request that has no answer (acks=0) to a broker. Raises as `call`."""
        self._over(self.link(node_id), partial(_send_unanswered, request))

    def version_of(self, request: type[Message], node_id: int | None = None) -> int:
        """The version of a request to a broker, or to any; see `BrokerLink.version_of`."""
        return self._over(self.link(node_id), lambda link: link.version_of(request))

    def check_version(self, request: type[Message], least: int, node_id: int) -> None:
        """Raises UNSUPPORTED_VERSION where a broker does not know what a request says from version ``least`` on."""
        if (version := self.version_of(request, node_id)) < least:
            name = request.__name__.removesuffix("Request")
            words = f"node {node_id} serves {name} up to version {version}; what is asked for needs version {least}"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, words)

    def serves(self, request: type[Message], node_id: int | None = None) -> bool:
        """Whether a broker, or any, serves a request. Raises `BrokerAway`."""
        return self._over(self.link(node_id), lambda link: request.api_key in link.api_ranges())

    def _call(self, link: BrokerLink, request: Message, version: int | None = None) -> Any:
        return self._over(link, lambda link: link.call(request, version))

    def _over(self, link: BrokerLink, ask: Callable[[BrokerLink], R]) -> R:
        """The result of ``ask``. A link that fails it is dropped: an answer may still be due there, and is no later one's."""
        try:
            return ask(link)
        except BrokerAway:
            self._links.pop((link.host, link.port), None)
            link.close()
            raise

    def _call_each(self, request: Message) -> Any:
        """The answer of the first broker that gives one: connected ones, then known ones, then those of `bootstrap`."""
        known = dict.fromkeys([*self.brokers.values(), *self._bootstrap_addresses()])
        *most, last = sorted(known, key=lambda address: address not in self._links)
        for address in most:
            try:
                return self._call(self._linked(address), request)
            except BrokerAway:
                continue
        return self._call(self._linked(last), request)

    def refresh(
        self, names: Iterable[str] | None = None, *, create: bool = False, skip_missing: bool = False
    ) -> list[Topic]:
        """Ask for topics, or for all, and remember them. With `create` the broker may make those that are missing.

        Any broker may be asked, also a second one where the first does not answer. Raises `KafkaError` for a topic that
        cannot be told, UNKNOWN_TOPIC_OR_PARTITION with its name first of all; with `skip_missing` such a topic is left out.
        """
        batches: Iterable[list[str] | None] = [None] if names is None else list(in_batches(names)) or [[]]
        found = [topic for some in batches for topic in self._refreshed(some, create, skip_missing)]
        self.topics.update({topic.name: topic for topic in found})
        return found

    def _refreshed(self, names: list[str] | None, create: bool, skip_missing: bool) -> Iterator[Topic]:
        asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        answer = self._call_each(MetadataRequest(topics=asked, allow_auto_topic_creation=create))
        self.cluster_id, self.controller_id = answer.cluster_id, answer.controller_id
        self.brokers.update({broker.node_id: (broker.host, broker.port) for broker in answer.brokers})
        for topic in answer.topics:
            if skip_missing and topic.error_code in _MISSING:
                continue
            if topic.error_code:
                raise _refusal(topic.name or "", topic.error_code)
            yield _topic(topic)

    def topic(self, name: str) -> Topic:
        """A topic, asked for on first use. Raises `KafkaError`."""
        return self.topics.get(name) or self.refresh([name])[0]

    def leader(self, topic_partition: TopicPartition) -> int:
        """The node that leads a partition.

        Raises `KafkaError`: no such partition, or it has no leader now.
        """
        topic = self.topic(topic_partition.topic)
        partition = topic.partition(topic_partition.partition)
        if partition is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{topic_partition}: the topic has {len(topic.partitions)} partitions, counted from 0",
            )
        if partition.leader not in self.brokers:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic_partition} has no leader now; try again later")
        return partition.leader

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Partitions grouped by the node that leads them."""
        groups: dict[int, list[TopicPartition]] = {}
        for topic_partition in partitions:
            groups.setdefault(self.leader(topic_partition), []).append(topic_partition)
        return groups

    def in_requests(self, partitions: Iterable[TopicPartition]) -> Iterator[tuple[int, list[TopicPartition]]]:
        """The same, as many at a time as one request may name."""
        for node_id, those in self.by_leader(partitions).items():
            for some in in_batches(those):
                yield node_id, some

    def while_leaders_move(self, names: Iterable[str], attempt: Callable[[], R]) -> R:
        """The result of `attempt`, made again with fresh metadata while it raises one of `LEADERSHIP_MOVES`, or `LeaderLags`.

        Raises what the last attempt raised once ``timeout_seconds`` have passed, or a few for a leader that lags.
        """
        return self._again(names, attempt, away=False)

    def while_brokers_return(self, names: Iterable[str], attempt: Callable[[], R]) -> R:
        """As `while_leaders_move`, for an `attempt` that only reads: a client that waits for brokers makes it again, too,
        where no broker answered.
        """
        return self._again(names, attempt, away=self.waits_for_brokers)

    def _again(self, names: Iterable[str], attempt: Callable[[], R], *, away: bool) -> R:
        patience = Patience(self.monotonic(), self.timeout_seconds)
        failed = False
        while True:
            try:
                if failed:
                    self.refresh(names)
                return attempt()
            except KafkaError as error:
                if not patience.lasts(error, self.monotonic()):
                    raise
            except BrokerAway:
                if not away or not patience.lasts_without(self.monotonic()):
                    raise
            failed = True
            time.sleep(RETRY_PAUSE_SECONDS)

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset]:
        """The offset of each partition for a timestamp in ms, or one of -1 latest, -2 earliest, -3 largest timestamp,
        -4 earliest local, -5 latest in the tier, -6 earliest not yet in the tier.

        Raises `KafkaError` for the first partition whose offset cannot be found.
        """
        names = {one.topic for one in timestamps}
        return self.while_brokers_return(names, lambda: self._list_offsets(timestamps, read_committed))

    def _list_offsets(
        self, timestamps: Mapping[TopicPartition, int], read_committed: bool
    ) -> dict[TopicPartition, ListedOffset]:
        found: dict[TopicPartition, ListedOffset] = {}
        for one, code, listed in self.told_offsets(timestamps, read_committed=read_committed):
            check_led(code, f"{one}: {code_words(code)}")
            found[one] = listed
        return found

    def told_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> Iterator[tuple[TopicPartition, int, ListedOffset]]:
        """The leaders' answers of one attempt, with their error codes. Raises `BrokerAway`, `KafkaError` for no leader."""
        for node_id, partitions in self.in_requests(timestamps):
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=int(read_committed),
                topics=[
                    ListOffsetsTopic(
                        name=name,
                        partitions=[
                            ListOffsetsPartition(partition_index=one.partition, timestamp=timestamps[one])
                            for one in group
                        ],
                    )
                    for name, group in by_topic(partitions).items()
                ],
                timeout_ms=round(1000 * self.timeout_seconds),
            )
            for topic in self.call(request, node_id).topics:
                for one in topic.partitions:
                    listed = ListedOffset(one.offset, one.timestamp, one.leader_epoch)
                    yield TopicPartition(topic.name, one.partition_index), one.error_code, listed


def _send_unanswered(request: Message, link: BrokerLink) -> None:
    link.send(request, link.version_of(type(request)))
    link.forget()


def in_batches(things: Iterable[T]) -> Iterator[list[T]]:
    """As many at a time as one request may name."""
    left = iter(things)
    while some := list(islice(left, _A_REQUEST)):
        yield some


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Partitions grouped by topic, in the order given."""
    groups: dict[str, list[TopicPartition]] = {}
    for topic_partition in partitions:
        groups.setdefault(topic_partition.topic, []).append(topic_partition)
    return groups


def _refusal(name: str, error_code: int) -> KafkaError:
    """Why a topic cannot be described; of a view the broker knows more than a code can say."""
    more = "" if base_topic(name) == name else ". The log of the broker says why it cannot be shown"
    return KafkaError(ErrorCode(error_code), f"topic {name}: {code_words(error_code)}{more}")


def _topic(answer: Any) -> Topic:
    partitions = sorted(answer.partitions, key=lambda one: int(one.partition_index))
    return Topic(
        answer.name,
        answer.topic_id or ZERO_UUID,
        answer.is_internal,
        tuple(
            Partition(
                one.partition_index,
                one.leader_id,
                one.leader_epoch,
                tuple(one.replica_nodes),
                tuple(one.isr_nodes),
                tuple(one.offline_replicas),
                one.error_code,
            )
            for one in partitions
        ),
    )
