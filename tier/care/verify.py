"""Verifies a bucket without a broker: every partition of every topic, several side by side, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Final

from stratalog.tier.bucket.walk import PartitionFolder, TopicFolder, iter_partitions, iter_topics, read_topic_document
from stratalog.tier.care.verify_partition import PartitionReport, VerifyOptions, verify_partition
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.anomaly import Anomaly, AnomalyKind
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.errors import Unknown
from stratalog.wire.topic import ZERO_UUID

__all__ = ["iter_folders", "verify_bucket"]

_AHEAD: Final = 2
"""Partitions for each thread that may be under way or waiting to be told."""


def verify_bucket(
    store: ObjectStore,
    options: VerifyOptions,
    *,
    topics: Collection[str] = (),
    threads: int = 8,
    readers: Executor | None = None,
    on_object: Callable[[int], object] = lambda _: None,
) -> Iterator[PartitionReport]:
    """A report for each partition, in key order; ``topics`` are the names to look at, all if empty.

    ``readers`` carries out what reads objects; by default as many threads as look at partitions. ``on_object`` hears, in
    any thread, of the bytes of each object that was looked at. Keys that belong to no topic or partition come last, under
    an empty name. Raises `Unknown` for a topic that is not there, `NewerManifest`, and what the store raises.
    """
    foreign: list[str] = []
    pending: deque[Future[PartitionReport]] = deque()
    with ThreadPoolExecutor(threads, "verify") as partitions, ThreadPoolExecutor(threads, "verify-read") as own:
        try:
            for folder, name in iter_folders(store, topics, foreign.append):
                pending.append(
                    partitions.submit(
                        verify_partition, store, folder, name, options, readers=readers or own, on_object=on_object
                    )
                )
                while len(pending) > _AHEAD * threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
    if foreign:
        stray = PartitionReport(PartitionId("", ZERO_UUID, -1))
        stray.add(
            Anomaly(AnomalyKind.FOREIGN_KEY, "", -1, key, -1, "the key is none of this format") for key in foreign
        )
        yield stray


def iter_folders(
    store: ObjectStore, topics: Collection[str] = (), on_foreign: Callable[[str], object] = lambda _: None
) -> Iterator[tuple[PartitionFolder, str]]:
    """Every partition's folder with the name of its topic, in key order; of ``topics``, or of all if there are none.

    ``on_foreign`` hears of keys that belong to no topic, if all topics are asked for, or to no partition. Raises
    `Unknown` for a topic that is not there, and what the store raises.
    """
    wanted = set(topics)
    topics_there = iter_topics(store, None if wanted else on_foreign)
    named: Iterable[tuple[TopicFolder, str]] = ((each, read_topic_document(store, each).name) for each in topics_there)
    if wanted:
        named = [(topic, name) for topic, name in named if name in wanted]
        if missing := sorted(wanted - {name for _, name in named}):
            raise Unknown(f"topic {missing[0]} is not in the bucket {store.url}")
    for topic, name in named:
        for folder in iter_partitions(store, topic, on_foreign):
            yield folder, name
