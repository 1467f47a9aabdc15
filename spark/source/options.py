"""Every option of ``format("stratalog")``, parsed and checked once, on the driver.

Names, defaults and precedence are those of Spark's Kafka source (its structured streaming guide); what is ours is
marked so below. Option names are case-insensitive. Everything refused is an `Invalid` that names the option.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from stratalog.spark.rows.schema import COLUMNS, HEADERS
from stratalog.spark.source.option_values import choice, flag, integer, is_int, json_object, positive, size
from stratalog.spark.source.stream_options import STARTING_NAMES, STREAM_NAMES
from stratalog.spark.values.options import ERROR_COLUMNS, VALUE_OPTIONS, ValueOptions, parse_value_options
from stratalog.tier.manifests.leases import LEASE_MS_MAX
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

__all__ = ["EARLIEST", "LATEST", "TOPIC_NAMES", "OffsetBound", "ReadOptions", "Subscription", "parse_options"]

EARLIEST: Final = -2
LATEST: Final = -1
"""The two offsets that stand for an end of the log, as in Spark's JSON and in Kafka's ListOffsets."""

_STRATEGIES: Final = ("assign", "subscribe", "subscribePattern")
TOPIC_NAMES: Final = frozenset(name.lower() for name in _STRATEGIES)
"""The options that say what is read, in lower case."""
_OWN: Final = (
    "archive",
    "path",
    "columns",
    "maxPartitionBytes",
    "batchBytes",
    "strictOffsets",
    "lease",
    "leaseSeconds",
    "badRecords",
    "badRecordsPath",
    "hotTail",
    "prefer",
    "converted",
)
_STORE: Final = (
    "s3.endpoint",
    "s3.region",
    "s3.access-key",
    "s3.secret-key",
    "s3.session-token",
    "s3.ca-bundle",
    "s3.addressing-style",
)
_CONNECTOR: Final = (
    "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp",
    "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "minPartitions", "maxRecordsPerPartition", "failOnDataLoss", "includeHeaders",
)  # fmt: skip
_WITHOUT_EFFECT: Final = (
    # They steer a consumer of brokers, or a streaming query; a batch read of a bucket has neither.
    "groupIdPrefix", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs",
    "useDeprecatedOffsetFetching", *STREAM_NAMES,
)  # fmt: skip
_KNOWN: Final = {
    name.lower(): name for name in (*_STRATEGIES, *_OWN, *VALUE_OPTIONS, *_STORE, *_CONNECTOR, *_WITHOUT_EFFECT)
}
_ALIASES: Final = {"schema.registry.url": "schemaregistry"}
"""Names that other readers of Kafka's records give the same thing, in lower case."""
_REFUSED: Final = {
    "kafka.auto.offset.reset": "set the source option 'startingOffsets' to 'earliest' or to offsets instead",
    "kafka.key.deserializer": "keys are read as binary; decode them with DataFrame functions",
    "kafka.value.deserializer": "values are read as binary; decode them with DataFrame functions",
    "kafka.enable.auto.commit": "this source commits no offsets",
    "kafka.interceptor.classes": "rows reach Spark as they were written",
}
_LEASE_SECONDS: Final = 6 * 3600


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions to read: exactly one field is set."""

    topics: tuple[str, ...] | None = None
    pattern: re.Pattern[str] | None = None
    assignment: Mapping[str, tuple[int, ...]] | None = None

    def wants_topic(self, topic: str) -> bool:
        """Whether any partition of ``topic`` is asked for; a pattern need only be found in its name, as in Kafka's source."""
        if self.topics is not None:
            return topic in self.topics
        if self.assignment is not None:
            return topic in self.assignment
        return self.pattern is not None and self.pattern.search(topic) is not None

    def check_one_topic(self) -> None:
        """The only topic, for callers that tell partitions apart by number alone. Raises `Invalid` unless exactly one topic is named."""
        named = self.topics or tuple(self.assignment or ())
        if len(named) != 1:
            asked = ", ".join(named) or (f"the pattern {self.pattern.pattern}" if self.pattern else "none")
            raise Invalid(f"one topic at a time: {asked} was asked for")


@dataclass(frozen=True, slots=True)
class OffsetBound:
    """Where reading begins or ends. A timestamp is in ms since 1970; an offset may be `EARLIEST` or `LATEST`.

    For one partition the order is: its own timestamp, the common timestamp, its own offset, `edge`.
    """

    edge: int
    offsets: Mapping[TopicPartition, int]
    timestamps: Mapping[TopicPartition, int]
    timestamp_ms: int | None

    def timestamp_of(self, partition: TopicPartition) -> int | None:
        """The time that bounds ``partition``, or None where an offset does."""
        return self.timestamps.get(partition, self.timestamp_ms)

    def offset_of(self, partition: TopicPartition) -> int:
        """The offset that bounds ``partition`` where no time does."""
        return self.offsets.get(partition, self.edge)

    def named(self) -> frozenset[TopicPartition]:
        """The partitions that the option spells out."""
        return frozenset(self.offsets) | frozenset(self.timestamps)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """One batch read, checked. Sizes in bytes, times in ms since 1970."""

    archive: str
    subscription: Subscription
    starting: OffsetBound
    ending: OffsetBound
    start_beyond_last_is_latest: bool
    partitions_min: int | None
    partition_records_max: int | None
    partition_bytes_max: int
    batch_bytes: int
    fail_on_data_loss: bool
    strict_offsets: bool
    read_committed: bool
    lease_ms: int
    """How long what was planned must stay in the bucket after the last renewal; 0 writes no lease."""
    bad_records_url: str | None
    """Where damage is reported and left out; None to fail on damage."""
    hot_tail: str | None
    """The brokers that are asked for records not archived yet; None to ask none."""
    converted: str | None
    """The target of a backfill, whose files are read instead of the objects that they were converted from."""
    converted_required: bool
    """Whether it is an error if they cannot be."""
    columns: tuple[str, ...]
    values: ValueOptions
    store_options: Mapping[str, str] = field(repr=False)


def parse_options(
    options: Mapping[str, str], *, streaming: bool = False, subscription: Subscription | None = None
) -> ReadOptions:
    """The options of one read, or of a stream as far as a read has them too; `stream_options` parses the others.

    A ``subscription`` that is given stands for the options that say what is read. Raises `Invalid` for an unknown, refused, missing or malformed one.
    """
    given = _renamed({name.lower(): value for name, value in options.items()})
    _check_names(given)
    archive = given.get("archive") or given.get("path")
    if not archive:
        raise Invalid(
            "option 'archive' must be specified: the bucket URL, for example .load('s3://bucket/prefix') or "
            ".load('file:///srv/archive')"
        )
    subscription = subscription or _subscription(given)
    starting, ending = _bound(given, "starting", EARLIEST), _bound(given, "ending", LATEST)
    if not streaming:
        _check_bounds(given, starting, ending)
    elif not any(name in given for name in STARTING_NAMES):
        starting = OffsetBound(LATEST, {}, {}, None)
    isolation = given.get("kafka.isolation.level", "read_committed")
    values = parse_value_options(given, subscription.topics or tuple(subscription.assignment or ()))
    return ReadOptions(
        archive=archive,
        subscription=subscription,
        starting=starting,
        ending=ending,
        start_beyond_last_is_latest=choice(given, "startingOffsetsByTimestampStrategy", ("error", "latest"))
        == "latest",
        partitions_min=positive(given, "minPartitions"),
        partition_records_max=positive(given, "maxRecordsPerPartition"),
        partition_bytes_max=size(given, "maxPartitionBytes", 256 << 20),
        batch_bytes=size(given, "batchBytes", 2 << 20, highest=256 << 20),
        fail_on_data_loss=flag(given, "failOnDataLoss", default=True),
        strict_offsets=flag(given, "strictOffsets", default=False),
        read_committed=_isolation(isolation),
        lease_ms=_lease_ms(given),
        bad_records_url=_bad_records_url(given),
        hot_tail=_hot_tail(given),
        converted=None if streaming else _converted(given),
        converted_required=given.get("prefer", "").strip().lower() == "parquet",
        columns=_columns(given, values),
        values=values,
        store_options={name: given[name] for name in _STORE if name in given},
    )


def _renamed(given: Mapping[str, str]) -> dict[str, str]:
    """The options under their own names. Raises `Invalid` for one that is given by two names, with two values."""
    found = {name: value for name, value in given.items() if name not in _ALIASES}
    for alias, name in _ALIASES.items():
        if alias in given and found.setdefault(name, given[alias]) != given[alias]:
            raise Invalid(f"options '{alias}' and '{_KNOWN[name]}' are the same, and have two values: leave one out")
    return found


def _check_names(given: Mapping[str, str]) -> None:
    for name in given:
        if name in _REFUSED:
            raise Invalid(f"Kafka option '{name.removeprefix('kafka.')}' is not supported: {_REFUSED[name]}")
        if name in _KNOWN or name.startswith("kafka."):
            continue
        near = difflib.get_close_matches(name, _KNOWN, n=1)
        hint = f"; did you mean '{_KNOWN[near[0]]}'?" if near else f": there are {', '.join(sorted(_KNOWN.values()))}"
        raise Invalid(f"unknown option '{name}'{hint}")


def _subscription(given: Mapping[str, str]) -> Subscription:
    chosen = [name for name in _STRATEGIES if name.lower() in given]
    if not chosen:
        raise Invalid(f"one of the following options must be specified: {', '.join(_STRATEGIES)}")
    if len(chosen) > 1:
        raise Invalid(f"only one of the following options can be specified: {', '.join(chosen)}")
    name = chosen[0]
    value = given[name.lower()].strip()
    if name == "assign":
        return Subscription(assignment=_assignment(value))
    if name == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in value.split(",") if topic.strip()))
        if not topics:
            raise Invalid(f"no topics to subscribe to in the value '{value}' of option 'subscribe'")
        return Subscription(topics=topics)
    if not value:
        raise Invalid("the pattern to subscribe to, option 'subscribePattern', is empty")
    try:
        return Subscription(pattern=re.compile(value))
    except re.error as error:
        raise Invalid(f"option 'subscribePattern' is no regular expression: '{value}': {error}") from error


def _assignment(value: str) -> dict[str, tuple[int, ...]]:
    parsed = json_object("assign", value)
    assignment = {}
    for topic, partitions in parsed.items():
        if not isinstance(partitions, list) or not all(is_int(p) and p >= 0 for p in partitions) or not partitions:
            raise Invalid(f"option 'assign' must be like {{\"topic\": [0, 1]}}, got '{value}'")
        assignment[topic] = tuple(sorted(set(partitions)))
    if not assignment:
        raise Invalid(f"no topic partitions to assign in the value '{value}' of option 'assign'")
    return assignment


def _bound(given: Mapping[str, str], side: str, edge: int) -> OffsetBound:
    """``side`` is 'starting' or 'ending'. A timestamp option beats a by-timestamp option beats an offsets option."""
    if (value := given.get(f"{side}timestamp")) is not None:
        timestamp_ms = integer(f"{side}Timestamp", value, lowest=EARLIEST)
        return OffsetBound(edge, {}, {}, timestamp_ms) if timestamp_ms >= 0 else OffsetBound(timestamp_ms, {}, {}, None)
    if (value := given.get(f"{side}offsetsbytimestamp")) is not None:
        places = _per_partition(f"{side}OffsetsByTimestamp", value, lowest=EARLIEST)
        # To Kafka, whose source hands times on as they are, these two are an end of the log and no time.
        ends = {partition: place for partition, place in places.items() if place < 0}
        times = {partition: place for partition, place in places.items() if place >= 0}
        return OffsetBound(edge, ends, times, None)
    name = f"{side}Offsets"
    value = given.get(name.lower(), "").strip()
    if value.lower() in {"earliest", "latest"}:
        return OffsetBound(EARLIEST if value.lower() == "earliest" else LATEST, {}, {}, None)
    if not value:
        return OffsetBound(edge, {}, {}, None)
    if not value.startswith("{"):
        raise Invalid(
            f"option '{name}' must be 'earliest', 'latest' or JSON like {{\"topic\": {{\"0\": 23}}}}, got '{value}'"
        )
    return OffsetBound(edge, _per_partition(name, value, lowest=EARLIEST), {}, None)


def _check_bounds(given: Mapping[str, str], starting: OffsetBound, ending: OffsetBound) -> None:
    """A batch read cannot begin at the end or end at the beginning, unless times say so: then it has no rows."""
    if not _by_time(given, "starting"):
        if starting.edge == LATEST:
            raise Invalid("option 'startingOffsets' can't be 'latest' for batch queries")
        for (topic, partition), offset in starting.offsets.items():
            if offset == LATEST:
                raise Invalid(f"option 'startingOffsets' for {topic}-{partition} can't be latest (-1)")
    if not _by_time(given, "ending"):
        if ending.edge == EARLIEST:
            raise Invalid("option 'endingOffsets' can't be 'earliest' for batch queries")
        for (topic, partition), offset in ending.offsets.items():
            if offset == EARLIEST:
                raise Invalid(f"option 'endingOffsets' for {topic}-{partition} can't be earliest (-2)")


def _by_time(given: Mapping[str, str], side: str) -> bool:
    return f"{side}timestamp" in given or f"{side}offsetsbytimestamp" in given


def _per_partition(name: str, value: str, lowest: int) -> dict[TopicPartition, int]:
    result = {}
    for topic, partitions in json_object(name, value).items():
        if not isinstance(partitions, dict):
            raise Invalid(f"option '{name}' must be like {{\"topic\": {{\"0\": 23}}}}, got '{value}'")
        for partition, number in partitions.items():
            if not partition.isdecimal() or not is_int(number) or number < lowest:
                raise Invalid(f"option '{name}': '{partition}': {number!r} of topic '{topic}' is not valid")
            result[TopicPartition(topic, int(partition))] = number
    return result


def _isolation(value: str) -> bool:
    if value not in {"read_committed", "read_uncommitted"}:
        raise Invalid(f"option 'kafka.isolation.level' must be read_committed or read_uncommitted, got '{value}'")
    return value == "read_committed"


def _lease_ms(given: Mapping[str, str]) -> int:
    seconds = positive(given, "leaseSeconds") or _LEASE_SECONDS
    if seconds * 1000 > LEASE_MS_MAX:
        raise Invalid(f"option 'leaseSeconds' must be at most {LEASE_MS_MAX // 1000}, got {seconds}; tasks renew it")
    return seconds * 1000 if flag(given, "lease", default=True) else 0


def _bad_records_url(given: Mapping[str, str]) -> str | None:
    url = given.get("badrecordspath", "").strip()
    quarantined = choice(given, "badRecords", ("fail", "quarantine")) == "quarantine"
    if quarantined and not url:
        raise Invalid(
            "option 'badRecords' is quarantine: option 'badRecordsPath' must say where omissions are reported, a "
            "directory that all executors share (file:///mnt/bad) or s3://bucket/prefix"
        )
    if url and not quarantined:
        raise Invalid("option 'badRecordsPath' is given, but 'badRecords' is not quarantine: damage ends the query")
    return url or None


def _hot_tail(given: Mapping[str, str]) -> str | None:
    wanted = choice(given, "hotTail", ("auto", "true", "false"))
    servers = given.get("kafka.bootstrap.servers", "").strip()
    protocol = given.get("kafka.security.protocol", "PLAINTEXT").strip().upper()
    if wanted == "true" and not servers:
        raise Invalid("option 'hotTail' is true: option 'kafka.bootstrap.servers' must name the brokers to ask")
    if wanted == "true" and protocol != "PLAINTEXT":
        raise Invalid(f"option 'hotTail' is true: brokers are asked by PLAINTEXT only, not by {protocol}")
    return servers if servers and protocol == "PLAINTEXT" and wanted != "false" else None


def _converted(given: Mapping[str, str]) -> str | None:
    prefer = choice(given, "prefer", ("auto", "segments", "parquet"))
    url = given.get("converted", "").strip() or None
    if prefer == "parquet" and url is None:
        raise Invalid("option 'prefer' is parquet: option 'converted' must name the target of the backfill")
    return None if prefer == "segments" else url


def _columns(given: Mapping[str, str], values: ValueOptions) -> tuple[str, ...]:
    with_headers = flag(given, "includeHeaders", default=False)
    value = given.get("columns")
    there = (*COLUMNS, *(ERROR_COLUMNS[name] for name in values.decoded()))
    if value is None:
        return there if with_headers else tuple(name for name in there if name != HEADERS)
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    unknown = [name for name in names if name not in there]
    if unknown or not names:
        raise Invalid(f"option 'columns' names no column of {', '.join(there)}: '{', '.join(unknown) or value}'")
    return names
