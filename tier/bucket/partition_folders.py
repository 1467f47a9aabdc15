"""Finds the partitions of a bucket by listing it: the bucket alone must be enough. It writes nothing.

Folders with many objects are jumped over, so that finding a partition does not cost a listing of all it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from stratalog.tier.documents.keys import TOPICS_PREFIX, PartitionId, TopicKey, parse_key, topic_prefix
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import ZERO_UUID, uuid_text

__all__ = ["WHOLE_NAME_MAX", "is_topic_name", "partition_folders", "topic_folders"]

WHOLE_NAME_MAX: Final = 200
"""Topic names are cut to this in keys: a name of exactly this length may stand for a longer one."""
KEYS_PER_LISTING: Final = 1000
"""Keys that one LIST request brings: beyond that a jump is cheaper than going on."""
_AFTER_SLASH: Final = "0"
"""The character that follows the slash: a folder with it for its slash sorts behind all that the folder holds."""
_TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Whether a topic may be called so, by Kafka's rules; only then the name may stand in a key."""
    return _TOPIC_NAME.fullmatch(name) is not None and name not in {".", ".."}


def topic_folders(store: ObjectStore, topics: Iterable[str]) -> Iterator[PartitionId]:
    """The partition folders of these topics; ``topic`` in what is yielded is cut as it is in keys.

    Topics deleted and created again under one name all count; folders whose name no topic can have do not.
    Raises what the store raises.
    """
    for cut in sorted({name[:WHOLE_NAME_MAX] for name in topics if is_topic_name(name)}):
        prefix = topic_prefix(cut, ZERO_UUID).removesuffix(f"{uuid_text(ZERO_UUID)}/")
        yield from (folder for folder in partition_folders(store, prefix) if folder.topic == cut)


def partition_folders(store: ObjectStore, prefix: str = TOPICS_PREFIX) -> Iterator[PartitionId]:
    """Every partition folder under ``prefix``; a folder of more than one listing is left by a jump behind it.

    Raises what the store raises.
    """
    after = ""
    while True:
        folder: PartitionId | None = None
        seen = 0
        for info in store.list(prefix, after):
            found = _partition_of(info.key)
            if found is None:
                continue
            if found != folder:
                folder, seen = found, 0
                yield found
            seen += 1
            if seen > KEYS_PER_LISTING:
                after = found.prefix[:-1] + _AFTER_SLASH
                break
        else:
            return


def _partition_of(key: str) -> PartitionId | None:
    try:
        parsed = parse_key(key)
    except Invalid:
        return None
    if isinstance(parsed, TopicKey) and parsed.partition is None:
        return None
    return PartitionId(parsed.topic, parsed.topic_id, parsed.partition or 0)
