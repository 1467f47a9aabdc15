"""Answers as plain values, with aliases for what two brokers cannot have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from stratalog.wire.batch import iter_headers, iter_records
from stratalog.wire.schema import Struct
from stratalog.wire.topic import ZERO_UUID, uuid_text

RANDOM_TEXT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Kafka's classic member ids end with one of these."""
SHORT_MEMBER_ID = re.compile(r"[\w-]{22}")
"""Member ids of consumer groups that the coordinator draws; a story gives ids of one letter."""
TIME_RANGE = re.compile(r"within \[-?\d+, -?\d+\]")
"""The reference for a record's time depends on the broker's clock."""
TIMES = frozenset(
    {
        "last_caught_up_timestamp",
        "last_fetch_timestamp",
        "last_timestamp",
        "log_append_time_ms",
        "transaction_start_time_ms",
    }
)
"""Times of the broker's own clock; -1 says that there is none and is compared."""
ALIASED = frozenset({"producer_id", "session_id"})
"""Numbers that each broker draws for itself."""
GIVEN_PRODUCER_IDS = range(100_000, 1_000_000)
"""Stories give producer ids of this range. A new Kafka draws smaller ones, and the first era of ours begins at 2**20 or above."""
IGNORED = frozenset({"finalized_features_epoch", "throttle_time_ms", "total_bytes", "usable_bytes"})
KEYS = {
    "AlterUserScramCredentialsResult": "user",
    "ApiVersion": "api_key",
    "ConfigResource": "resource_name",
    "Coordinator": "key",
    "CreatableTopicConfigs": "name",
    "CreatableTopicResult": "name",
    "DeletableGroupResult": "group_id",
    "DeletableTopicResult": "name",
    "DescribableLogDirTopic": "topic",
    "DescribeConfigsResourceResult": "name",
    "DescribeLogDirsResult": "log_dir",
    "DescribeLogDirsTopic": "name",
    "DescribedGroupMember": "member_id",
    "FinalizedFeatureKey": "name",
    "JoinGroupResponseMember": "member_id",
    "ListedGroup": "group_id",
    "MetadataResponseTopic": "name",
    "PartitionProduceResponse": "index",
    "ProducerState": "producer_id",
    "SupportedFeatureKey": "name",
    "TransactionState": "transactional_id",
}
"""Lists in which order means nothing to a client, with the field that tells their elements apart."""
UNORDERED = frozenset({"AclDescription", "DescribeAclsResource", "EntityData", "EntryData"})
"""Lists in which order means nothing to a client, and no one field tells their elements apart."""


class Aliases:
    """An alias for a value that only one broker has: equal values get equal aliases, numbered by first sight."""

    def __init__(self, texts: dict[str, str], port: int) -> None:
        self._texts = dict(texts)
        self._numbers: dict[tuple[str, object], str] = {}
        self.port = port

    def of(self, kind: str, value: object) -> str:
        """The alias of a value among those of its kind."""
        found = self._numbers.get((kind, value))
        if found is None:
            count = sum(1 for seen, _ in self._numbers if seen == kind)
            found = self._numbers[kind, value] = f"<{kind} {count + 1}>"
        return found

    def name(self, value: str, alias: str) -> None:
        """Give a text that may stand inside others an alias."""
        self._texts.setdefault(value, alias)

    def text(self, value: str) -> str:
        """A text with aliases in it."""
        for known, alias in self._texts.items():
            value = value.replace(known, alias)
        value = TIME_RANGE.sub("within [<time>, <time>]", value)
        return RANDOM_TEXT.sub(lambda found: self.of("random", found[0]), value)


def plain(value: Any, version: int, aliases: Aliases, topic_ids: dict[str, bytes]) -> Any:
    """An answer as dictionaries, lists and scalars; topic ids that it names are noted on the way."""
    for name, topic_id in _named_ids(value):
        topic_ids[name] = topic_id
        aliases.name(uuid_text(topic_id), f"<id of {name}>")
    return _plain(value, version, aliases)


def _named_ids(value: Any) -> Iterator[tuple[str, bytes]]:
    if isinstance(value, list):
        for each in value:
            yield from _named_ids(each)
    elif isinstance(value, Struct):
        topic_id = getattr(value, "topic_id", ZERO_UUID)
        name = getattr(value, "name", None) or getattr(value, "topic_name", None)
        if topic_id != ZERO_UUID and name:
            yield name, topic_id
        for spec in value.fields_declared:
            yield from _named_ids(getattr(value, spec.name))


def _plain(value: Any, version: int, aliases: Aliases) -> Any:
    if isinstance(value, Struct):
        refused = getattr(value, "error_code", 0) != 0
        said = {}
        for spec in value.fields_declared:
            if spec.present(version) and spec.name not in IGNORED:
                field = getattr(value, spec.name)
                left_out = refused and spec.name in ALIASED and field == 0  # Kafka draws 0 for its first producer, too
                said[spec.name] = 0 if left_out else _field(spec.name, field, version, aliases)
        return said
    if isinstance(value, list):
        return _list(value, version, aliases)
    if isinstance(value, str):
        return aliases.text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value


def _list(values: list[Any], version: int, aliases: Aliases) -> Any:
    kind = type(values[0]).__name__ if values else ""
    said = [_plain(each, version, aliases) for each in values]
    if kind in UNORDERED:
        return sorted(said, key=repr)
    if kind not in KEYS:
        return said
    found: dict[str, list[Any]] = {}
    for each in said:
        found.setdefault(str(each[KEYS[kind]]), []).append(each)
    return {name: each[0] if len(each) == 1 else sorted(each, key=repr) for name, each in found.items()}


def _field(name: str, value: Any, version: int, aliases: Aliases) -> Any:
    if name in TIMES:
        return value if value == -1 else "<time>"
    if name in ALIASED:
        return _drawn(name, value, aliases)
    if name == "port" and value == aliases.port:
        return "<port>"
    if name.endswith(("topic_id", "directory_id")):
        return "zero" if value == ZERO_UUID else aliases.text(uuid_text(value))
    if name == "member_id" and value and SHORT_MEMBER_ID.fullmatch(value) and len(set(value)) > 1:
        return aliases.of("random", value)
    if name == "cluster_id" and value:
        return "<cluster>"
    if name == "records":
        return None if value is None else [_batch(value, at, aliases) for at, _ in iter_headers(value)]
    return _plain(value, version, aliases)


def _given(name: str, value: int) -> bool:
    return name == "producer_id" and value in GIVEN_PRODUCER_IDS


def _drawn(name: str, value: int, aliases: Aliases) -> Any:
    if value == -1 or (value == 0 and name == "session_id") or _given(name, value):
        return value
    return aliases.of(name, value)


def _batch(buffer: Any, position: int, aliases: Aliases) -> dict[str, Any]:
    """A batch as Fetch answers it; control batches have the broker's own time."""
    (_, header), *_ = iter_headers(buffer, position)
    is_control = bool(header.attributes & 0x20)
    return {
        "base_offset": header.base_offset,
        "attributes": header.attributes,
        "last_offset_delta": header.last_offset_delta,
        "partition_leader_epoch": header.partition_leader_epoch,
        "producer_id": _drawn("producer_id", header.producer_id, aliases),
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "records": [
            {
                "offset": record.offset,
                "timestamp": "<time>" if is_control else record.timestamp_ms,
                "key": None if record.key is None else record.key.hex(),
                "value": None if record.value is None else record.value.hex(),
                "headers": [(name, None if value is None else value.hex()) for name, value in record.headers],
            }
            for record in iter_records(buffer, position)
        ],
    }
