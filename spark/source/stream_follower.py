"""A growing archive as its driver sees it: manifests read again and again, and the lease under which they were read.

With a `StreamTail` brokers are asked, after the manifests, how far the logs go on behind the archive.

The bucket is listed at first, and then only every ``discoveryInterval``, or when a manifest that was known is gone;
in between each partition costs one GET per look. A look is never older than half of its lease: then a new lease is
written before the manifests are read again, so that a stream of years holds back the trash of some hours only. The
lease before is ended when the micro-batch that was planned under it is done.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from typing import Final, TypeVar

from msgspec import Struct

from stratalog.spark.source.archive import check_found, find_manifests, is_assigned, load_unarchived
from stratalog.spark.source.options import Subscription
from stratalog.spark.source.read_lease import LeaseTicket, give_back, has_topics, take_lease
from stratalog.spark.source.stream_offsets import Offsets, behind
from stratalog.spark.source.stream_options import StreamOptions
from stratalog.spark.source.stream_plan import Span, Spans, record_end
from stratalog.spark.source.stream_tail import StreamTail
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.json import from_bytes
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.planning.slices import OffsetRange, PartitionArchive
from stratalog.tier.stores.checked_read import read_checked
from stratalog.tier.stores.store import NotFound, ObjectStore, Version
from stratalog.wire.topic import TopicPartition

__all__ = ["ArchiveFollower", "Look"]

_THREADS: Final = 16
_Given = TypeVar("_Given")
_Found = TypeVar("_Found")

_logger = logging.getLogger("stratalog.spark")


class Look(Struct, frozen=True):
    """The manifests as they were at ``read_ms``, all of them read under ``lease``, and how far the logs go."""

    manifests: dict[TopicPartition, Manifest]
    lease: LeaseTicket | None
    read_ms: int
    spans: Spans
    """The offsets that each partition has."""
    borders: Offsets
    """Up to where each is read from the archive; from there on brokers are asked."""

    @property
    def ends(self) -> Offsets:
        """Where each partition ends."""
        return {partition: span.end_offset for partition, span in self.spans.items()}


class ArchiveFollower:
    """Looks at the partitions of ``subscription`` in ``store``, and asks ``tail`` for the rest; for one thread."""

    def __init__(
        self,
        store: ObjectStore,
        subscription: Subscription,
        options: StreamOptions,
        lease_ms: int,
        tail: StreamTail | None = None,
    ) -> None:
        self._store = store
        self._subscription = subscription
        self._options = options
        self._lease_ms = lease_ms
        self._tail = tail
        self._old_leases: list[LeaseTicket] = []
        self._look: Look | None = None
        self._only_read = False
        """Whether the bucket has refused a lease, which was reported once."""
        self._versions: dict[PartitionId, tuple[Version, Manifest]] = {}
        self._listed_ms = 0
        self._archived: set[TopicPartition] = set()
        self._pool: ThreadPoolExecutor | None = None

    @property
    def last(self) -> Look | None:
        """The last state seen, without a request to the store."""
        return self._look

    def look(self, *, fresh: bool = False, must_exist: bool = False) -> Look:
        """Contents of the archive, no older than ``manifestRefresh``, or now if ``fresh``; and the logs of brokers.

        Raises `Invalid` for topics and assigned partitions that are not there where they ``must_exist``, what the
        store raises, and `Retriable` for brokers that do not answer.
        """
        now_ms, last = _now_ms(), self._look
        if last and not fresh and not must_exist and self._is_recent(last, now_ms):
            if self._tail is not None and self._tail.is_old(now_ms):
                self._look = self._joined(last.manifests, last.lease, last.read_ms, now_ms)
            return self._look or last
        lease = self._lease(now_ms)
        manifests = None if last is None or must_exist else self._read_known(last, now_ms)
        if manifests is None:
            manifests = self._find()
            self._listed_ms = now_ms
        self._look = self._joined({_name(each): each for each in manifests}, lease, now_ms, now_ms)
        if must_exist:
            self._check_found(self._look)
        return self._look

    def _joined(
        self, manifests: dict[TopicPartition, Manifest], lease: LeaseTicket | None, read_ms: int, now_ms: int
    ) -> Look:
        """A look at ``manifests`` and, after they were read, at the logs of brokers."""
        spans = {partition: _span(manifest) for partition, manifest in manifests.items()}
        borders: Offsets = {partition: span.end_offset for partition, span in spans.items()}
        if self._tail is not None:
            archives = [
                PartitionArchive(partition, *span, (), manifests[partition].partition.topic_id)
                for partition, span in spans.items()
            ]
            spans, borders = self._tail.extend(archives, now_ms)
        return Look(manifests, lease, read_ms, spans, borders)

    def look_at(self, end: Offsets) -> Look:
        """The last look if it reaches ``end`` and its lease is young, else a new one."""
        last = self._look
        short = last is None or behind(last.ends, end) or not end.keys() <= last.spans.keys()
        return self.look(fresh=True) if short or last is None or self._is_old(last, _now_ms()) else last

    def archives(self, look: Look, ranges: Mapping[TopicPartition, OffsetRange]) -> list[PartitionArchive]:
        """The partitions of ``ranges`` with the entries that lie in them; only the pages of those are read."""

        def read(item: tuple[TopicPartition, OffsetRange]) -> PartitionArchive:
            partition, offsets = item
            manifest = look.manifests.get(partition)
            if manifest is None:  # only brokers have anything of it
                return PartitionArchive(partition, *look.spans[partition], ())
            entries = _entries(self._store, manifest, offsets)
            return PartitionArchive(partition, *_span(manifest), entries, manifest.partition.topic_id)

        return list(self._each(read, list(ranges.items())))

    def unarchived(self, look: Look, named: Collection[TopicPartition]) -> list[PartitionArchive]:
        """Those of ``named`` that the subscription asks for, and that have no archive yet."""
        return load_unarchived(self._store, self._subscription, named, look.manifests.values())

    def record_end(self, look: Look, partition: TopicPartition, begin: int, count: int) -> int:
        """Where ``count`` records of ``partition`` from ``begin`` on end; without holes no entry is looked at."""
        manifest = look.manifests.get(partition)
        if manifest is None or manifest.totals.records >= manifest.remote_end - manifest.remote_start:
            return begin + count
        return record_end(iter_entries(self._store, manifest, begin), begin, count)

    def batch_done(self) -> None:
        """Rows planned before the last look are read: end the leases that only it needed."""
        for lease in self._old_leases:
            give_back(self._store, lease)
        self._old_leases.clear()

    def close(self) -> None:
        """Reading pauses: end the leases. A look from here on is a first one."""
        self.batch_done()
        if self._look and self._look.lease:
            give_back(self._store, self._look.lease)
        self._look = None
        if self._pool:
            self._pool.shutdown()
            self._pool = None
        if self._tail:
            self._tail.close()

    def _is_recent(self, look: Look, now_ms: int) -> bool:
        # A clock that was put back does not say how long ago the look was.
        return 0 <= now_ms - look.read_ms < self._options.refresh_ms and not self._is_old(look, now_ms)

    def _is_old(self, look: Look, now_ms: int) -> bool:
        return look.lease is not None and now_ms >= look.lease.created_ms + look.lease.duration_ms // 2

    def _lease(self, now_ms: int) -> LeaseTicket | None:
        """The lease for the next look: that of the last one while it is young. An empty bucket needs none yet."""
        last = self._look
        if not self._lease_ms or self._only_read:
            return None
        if last is not None and last.lease is not None:
            if not self._is_old(last, now_ms):
                return last.lease
            self._old_leases.append(last.lease)
        elif not has_topics(self._store):
            return None
        lease = take_lease(self._store, self._lease_ms, "spark stream")
        self._only_read = lease is None
        return lease

    def _find(self) -> list[Manifest]:
        manifests = find_manifests(self._store, self._subscription)
        self._archived = {_name(each) for each in manifests}
        return [each for each in manifests if is_assigned(self._subscription, each.partition)]

    def _check_found(self, look: Look) -> None:
        check_found(self._store, self._subscription, self._archived | look.spans.keys())

    def _read_known(self, last: Look, now_ms: int) -> list[Manifest] | None:
        """The manifests that are known, as they are now; None if it is time to list, or one of them is gone."""
        assigned = self._subscription.assignment
        complete = assigned is not None and len(last.manifests) == sum(map(len, assigned.values()))
        if not complete and not 0 <= now_ms - self._listed_ms < self._options.discovery_ms:
            return None
        found = list(self._each(self._read, [each.partition for each in last.manifests.values()]))
        manifests = [each for each in found if each is not None]
        return manifests if len(manifests) == len(found) else None

    def _read(self, partition: PartitionId) -> Manifest | None:
        """One manifest; one that has the version of the last time is not parsed again. None if it is gone."""
        try:
            manifest = read_checked(lambda: self._read_once(partition))
        except NotFound:
            return None
        return manifest if manifest.deleted_ms < 0 else None

    def _read_once(self, partition: PartitionId) -> Manifest:
        data, version = self._store.get(partition.manifest_key)
        known = self._versions.get(partition)
        if known is None or known[0] != version:
            known = version, from_bytes(data, partition.manifest_key)
            self._versions[partition] = known
        return known[1]

    def _each(self, call: Callable[[_Given], _Found], given: Sequence[_Given]) -> Iterator[_Found]:
        if len(given) <= 1:
            return map(call, given)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="stratalog-follow")
        return self._pool.map(call, given)


def _entries(store: ObjectStore, manifest: Manifest, offsets: OffsetRange) -> tuple[Entry, ...]:
    return tuple(takewhile(lambda entry: entry.base < offsets.end, iter_entries(store, manifest, offsets.start)))


def _name(manifest: Manifest) -> TopicPartition:
    return TopicPartition(manifest.partition.topic, manifest.partition.partition)


def _span(manifest: Manifest) -> Span:
    # A log start moved beyond all that was ever uploaded leaves an archive that begins where it ends.
    return Span(manifest.log_start_offset, max(manifest.remote_end, manifest.log_start_offset))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
