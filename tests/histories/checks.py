"""The checks that follow the steps of a random history."""

from __future__ import annotations

import asyncio

from stratalog.hot.segments.batch_search import BatchSearch
from stratalog.tier.care.verify import verify_bucket
from stratalog.tier.care.verify_partition import VerifyOptions
from stratalog.wire.batch import iter_records
from stratalog.wire.errors import ErrorCode, KafkaError
from tests.histories.oracle import COMMIT, DATA, Wrong, effective, fates, is_same, producers, records_of, seen


class StartMoved(Exception):
    """The log start went up meanwhile: a leader has heard of its archive."""


def check_local(world, node) -> None:
    """A disk has the records that leaders put there, less those that a cleaner took."""
    log = node.log
    first = log.local_log_start_offset
    state = (
        first,
        log.written_offset,
        [(one.base_offset, one.size_bytes, id(one)) for one in log._segments],
        len(node.gone),
    )
    if node.looked_at == (id(log), state):
        return
    node.looked_at = id(log), state
    found = {offset: one for offset, one in world.local_offsets(node).items() if offset >= first}
    for offset, one in found.items():
        if not is_same(one, node.full.get(offset)):
            raise Wrong(f"{node.number} has {one} where {node.full.get(offset)} was copied")
    for offset, rec in node.full.items():
        if (
            first <= offset < log.written_offset
            and rec.kind == DATA
            and offset not in found
            and offset not in node.gone
        ):
            raise Wrong(f"{node.number} lacks {rec} at {offset}, disk from {first} to {log.written_offset}")


def check_producers(world, node) -> None:
    """The log knows each of its producers: epoch, last sequence and open transaction.

    A copy that began behind batches knows none of them, and of what was open there the rest, until they are behind its log start.
    """
    log = node.log
    if node.gone and (node.partition.leader is None or not world.strict):
        return  # a copy of a cleaned log knows a producer from its last batch on, which may not have come yet
    state, start = log.producer_state, log.log_start_offset
    open_ = {entry.producer_id: first for first, entry in state.open_transactions()}
    for producer, (epoch, sequence, first) in producers(node.full).items():
        entry = state.entries.get(producer)
        last = max(o for o, rec in node.full.items() if rec.producer == producer)
        if entry is None:
            if last >= start:
                raise Wrong(f"{node.number} has forgotten producer {producer}, whose last offset is {last}")
            continue
        data = {o: rec.batch for o, rec in node.full.items() if rec.producer == producer and rec.kind == DATA}
        is_behind = not any(o >= start for o in data)
        if (entry.producer_epoch, entry.last_sequence) not in ((epoch, sequence), (epoch, -1) if is_behind else ()):
            raise Wrong(
                f"{node.number}: producer {producer} is at {entry.producer_epoch, entry.last_sequence}, "
                f"its log says {epoch, sequence}"
            )
        begins = open_.get(producer, -1)
        known_late = begins in data.values() if begins >= 0 else is_behind
        if begins != first and not (0 <= first < start and known_late):
            raise Wrong(f"{node.number}: producer {producer} is open from {begins}, its log says {first}")
    for producer in state.entries.keys() - producers(node.full).keys():
        raise Wrong(f"{node.number} knows producer {producer}, which wrote nothing there")


def check_epochs(world, node) -> None:
    """Each epoch that has records here ends where the first record of a later one stands."""
    log = node.log
    spans: dict[int, int] = {}
    for offset in sorted(node.full):
        if offset < log.log_end_offset:
            spans.setdefault(node.full[offset].epoch, offset)
    starts = sorted((offset, epoch) for epoch, offset in spans.items())
    for (start, epoch), following in zip(
        starts, [*starts[1:], *([(log.log_end_offset, 0)] if starts else [])], strict=True
    ):
        if following[0] <= log.local_log_start_offset:
            continue
        found, end = node.unified.offset_for_leader_epoch(epoch)
        if found != epoch:
            raise Wrong(f"{node.number}: epoch {epoch} is found as {found}, it has [{start}, {following[0]})")
        if end != following[0] and following[0] == log.log_end_offset:
            if end > log.log_end_offset or any(o >= end for o, r in node.full.items() if r.epoch == epoch):
                raise Wrong(f"{node.number}: epoch {epoch} ends at {end}, not {following[0]}")
        elif end != following[0]:
            raise Wrong(f"{node.number}: epoch {epoch} ends at {end}, not {following[0]}")


def consume(world, node, unified, start: int, *, committed: bool, limit: int, max_bytes: int, timed=None):
    """A consumer from an offset on: the records that it shows, and all that it gets. ``timed`` gets (offset, time, epoch)."""
    shown, offset, raw = [], start, []
    for _ in range(10_000):
        if offset >= limit:
            return shown, raw
        found = read_once(world, node, unified, offset, committed=committed, limit=limit, max_bytes=max_bytes)
        if found.pending:
            node.drain_reads()
        elif not found.size_bytes:
            if found.next_offset <= offset:
                raise Wrong(f"a reader at {offset} of {limit} gets nothing")
            offset = found.next_offset
        else:
            data = b"".join(part.file.pread(part.length, part.position) for part in found.parts)
            records, batches = seen(data)
            raw += [one for one in records if one.offset >= offset]
            shown += [one for one in visible(data, batches, found.aborted, committed=committed) if one.offset >= offset]
            for header, position in batches if timed is not None else ():
                stamps = iter_records(data, position)
                timed += [(one.offset, one.timestamp_ms, header.partition_leader_epoch) for one in stamps]
            following = batches[-1][0].last_offset + 1
            if found.next_offset < min(following, limit) or following <= offset:
                raise Wrong(f"a read at {offset} goes on at {found.next_offset}, its last batch ends at {following}")
            offset = following
    raise Wrong("a consumer never ends")


def read_once(world, node, unified, offset: int, *, committed: bool, limit: int, max_bytes: int):
    """One fetch. Raises `StartMoved`."""
    if offset < node.log.log_start_offset:
        raise StartMoved
    try:
        return unified.read("r", offset, limit=limit, max_bytes=max_bytes, committed=committed, min_one_batch=True)
    except KafkaError as error:
        if world.tiered or error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            raise
        raise StartMoved from error  # tiering is being switched off: the log is about to begin where its disk does


def visible(data: bytes, batches, aborted, *, committed: bool):
    """As Kafka's consumer: an entry hides its producer's records until the producer's next abort marker."""
    coming = sorted(aborted, key=lambda one: one[1])
    void: set[int] = set()
    for header, position in batches:
        while coming and coming[0][1] <= header.last_offset:
            void.add(coming.pop(0)[0])
        if header.is_control:
            if header.record_count and not next(iter_records(data, position)).key[3]:
                void.discard(header.producer_id)
        elif not (committed and header.is_transactional and header.producer_id in void):
            yield from records_of(bytes(data[position : position + header.size_bytes]))


def check_reads(world, node, unified, starts) -> None:
    """Consumers of both kinds, from these offsets."""
    log, partition = node.log, node.partition
    high, stable = partition.high_watermark, partition.last_stable_offset
    fate = fates(node.full)
    for start in starts:
        if start < log.log_start_offset:
            continue  # the manifest told of a later one
        for max_bytes in (world.dice.choice([1, 200, 600]), 1 << 20):
            shown, raw = consume(world, node, unified, start, committed=False, limit=high, max_bytes=max_bytes)
            offsets = [one.offset for one in raw]
            if offsets != sorted(set(offsets)):
                raise Wrong(f"a consumer from {start} got offsets {offsets}")
            for one in raw:
                if not is_same(one, node.full.get(one.offset)):
                    raise Wrong(f"a consumer from {start} got {one}, there is {node.full.get(one.offset)}")
            check_missing(world, node, start, set(offsets), high)
            shown, raw = consume(world, node, unified, start, committed=True, limit=stable, max_bytes=max_bytes)
            for one in raw:
                if not is_same(one, node.full.get(one.offset)):
                    raise Wrong(f"a committed consumer from {start} got {one}, there is {node.full.get(one.offset)}")
            due = [one.offset for one in raw if fate.get(one.offset, COMMIT) == COMMIT]
            got = [one.offset for one in shown]
            if got != due:
                raise Wrong(
                    f"a read_committed consumer from {start} by {max_bytes} shows {got}, of {due} that are committed; "
                    f"fates {[(o, fate[o]) for o in sorted(fate)]}"
                )


def check_missing(world, node, start, offsets, high) -> None:
    """Records that a reader of the whole log does not find have gone for a reason; each key ends with its last record."""
    border = node.log.local_log_start_offset
    for offset, rec in node.full.items():
        if start <= offset < high and rec.kind == DATA and offset not in offsets:
            # An object may reach across the border, and readers come from there.
            is_gone = offset in world.archive_gone or (offset >= border and offset in node.gone)
            if not is_gone:
                raise Wrong(f"no reader finds {rec}; disk from {border}")
    if not world.strict or start != node.log.log_start_offset or node.partition.is_behind:
        return  # with a mark that is behind, what supersedes a record may not be seen yet
    stable, fate = node.partition.last_stable_offset, fates(node.full)
    counting = [offset for offset in sorted(offsets) if offset < stable and fate.get(offset, COMMIT) == COMMIT]
    ends = {node.full[offset].key: offset for offset in counting}
    for key, all_ in effective({o: rec for o, rec in node.full.items() if o >= start}, stable).items():
        last = node.full[all_[-1]]
        if ends.get(key, last.offset) != last.offset:
            raise Wrong(f"key {key} ends with {node.full[ends[key]]}, not with {last}")
        if key not in ends and last.value is not None:
            raise Wrong(f"key {key} is gone, its last record is {last}")


async def check_times(world, node, unified) -> None:
    """A look-up finds the first record or marker at or after a time."""
    log, high = node.log, node.partition.high_watermark
    if node.partition.is_behind:
        return  # the archive's records above the mark are committed, and are found
    log, high = node.log, node.partition.high_watermark
    if node.remote is not None:  # readers go on with what they have: a compaction may have come since
        node.remote.refresh()
        node.drain_reads()
    all_ = []
    start = log.log_start_offset
    consume(world, node, unified, start, committed=False, limit=high, max_bytes=1 << 20, timed=all_)
    border, local = log.local_log_start_offset, []
    if border < high:  # an object may reach across it
        consume(world, node, unified, border, committed=False, limit=high, max_bytes=1 << 20, timed=local)
    all_ = [one for one in all_ if log.log_start_offset <= one[0] < border] + [one for one in local if one[0] >= border]
    times = sorted({one[1] for one in all_})
    if not times:
        return
    for time_ms in sorted({world.dice.choice(times), times[0], times[-1] + 1, world.dice.choice(times) - 1}):
        due = next((one for one in all_ if one[1] >= time_ms), None)

        async def search(step: BatchSearch):
            return step.find()

        found = await drained(node, unified.find_timestamp(time_ms, committed=False, search=search))
        told = None if found is None else (found.offset, found.timestamp_ms, found.leader_epoch)
        if told != due:
            raise Wrong(f"time {time_ms} is found at {told}, not {due}; disk from {log.local_log_start_offset}")


async def drained(node, work):
    task = asyncio.ensure_future(work)
    for _ in range(2000):
        if task.done():
            return task.result()
        node.drain_reads()
        await asyncio.sleep(0)
    task.cancel()
    raise Wrong("a look-up by time never ends")


def check_archive(world) -> None:
    """Each archived record is what a leader put there, and what is missing has a reason; the bucket is whole."""
    found = world.archived()
    for offset, one in found.items():
        if not is_same(one, world.archive_full.get(offset)):
            raise Wrong(f"the archive has {one}, there is {world.archive_full.get(offset)}")
    for offset, rec in world.archive_full.items():
        inside = world.archive_start <= offset < world.archive_end and rec.kind == DATA
        if inside and offset not in found and offset not in world.archive_gone:
            raise Wrong(f"the archive lacks {rec}")
    for report in verify_bucket(world.store, VerifyOptions(world.now_ms, 10**9, deep=True), threads=1):
        if report.anomalies:
            raise Wrong(f"tier verify: {report.anomalies}")


def check_agreement(world, node) -> None:
    """A leader that serves has all that is archived, and all that is committed."""
    log = node.log
    if world.tiered and node.archive is not None and not node.archive.fenced:
        for offset, rec in world.archive_full.items():
            inside = log.log_start_offset <= offset < min(world.archive_end, log.log_end_offset)
            if inside and node.full.get(offset) != rec:
                raise Wrong(f"leader {node.number} has {node.full.get(offset)}, its archive {rec}")
    parted = next(
        (o for o in sorted(world.truth) if o >= log.log_start_offset and node.full.get(o) != world.truth[o]), None
    )
    if world.strict:
        if parted is not None:
            raise Wrong(f"committed {world.truth[parted]} is {node.full.get(parted)} at leader {node.number}")
        if log.log_end_offset < world.truth_end:
            raise Wrong(f"leader {node.number} ends at {log.log_end_offset}, committed is {world.truth_end}")
    elif parted is not None:
        world.truth = {offset: rec for offset, rec in world.truth.items() if offset < parted}
        world.truth_end = parted
    high = node.partition.high_watermark
    world.truth |= {offset: rec for offset, rec in node.full.items() if world.truth_end <= offset < high}
    world.truth_end = max(high, world.truth_end if world.strict else 0)
    check_acknowledged(world, log.log_start_offset)


def check_acknowledged(world, start: int) -> None:
    """Each record is there once, and each that was acknowledged is there.

    One that was deleted before its producer had an answer may come again: copies that began behind it do not know it.
    """
    values: dict[bytes, int] = {}
    for offset, rec in world.truth.items():
        if offset >= start and rec.value is not None and values.setdefault(rec.value, offset) != offset:
            raise Wrong(f"{rec.value} stands at {values[rec.value]} and at {offset}")
    for value, offset in world.acked.items() if world.strict else ():
        rec = world.truth.get(offset)
        if rec is None or rec.value != value:
            raise Wrong(f"{value} was acknowledged at {offset}, where there is {rec}")


def check_copies(world) -> None:
    """Replicas are one log below the high watermark that both know."""
    for node in world.up() if world.strict else ():
        high = node.partition.high_watermark
        for offset in range(node.log.log_start_offset, min(high, world.truth_end)):
            if node.full.get(offset) != world.truth.get(offset):
                raise Wrong(
                    f"replica {node.number} has {node.full.get(offset)}, committed is {world.truth.get(offset)}"
                )


def check_deletions(world, node) -> None:
    """No replica has a record that a committed one had deleted, or replaced, without that one: it may lead next."""
    if not world.strict or world.tiered or node.log.missing_ranges():
        return
    fate = fates(world.truth)
    undecided = (offset for offset, how in fate.items() if not how)
    high = min([node.partition.high_watermark, world.truth_end, *undecided])
    found = [offset for offset in sorted(world.local_offsets(node)) if node.log.log_start_offset <= offset < high]
    ends = {world.truth[one].key: one for one in found if fate.get(one, COMMIT) == COMMIT}
    last = {key: offsets[-1] for key, offsets in effective(world.truth, world.truth_end, fate).items()}
    for key, offset in ends.items():
        if key is not None and offset != last[key] < high:  # a copy that lags may not have the last one yet
            raise Wrong(f"{node.number} ends key {key} with offset {offset}, the log with {world.truth[last[key]]}")


def starts_of(world, node) -> list[int]:
    """The log start, borders, and some offsets."""
    log = node.log
    first, last = log.log_start_offset, node.partition.high_watermark
    some = {first, min(max(log.local_log_start_offset, first), last)}
    some |= {world.dice.randint(first, max(first, last)) for _ in range(2)}
    return sorted(one for one in some if first <= one <= last)
