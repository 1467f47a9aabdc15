"""Opening a log, whatever the last stop left behind.

1. Finish what was under way: ``.deleted`` files go, ``.swap`` files of the cleaner take their place.
2. Look at the ends of frozen segments (`hot.recovery.frozen_check`). Damaged parts are set aside, and its offsets are
   missing from then on (`hot.recovery.missing`); an archive may have them.
   After a clean stop, trust sizes and indexes; read only the tail behind the active segment's last index entry.
3. Otherwise verify every batch from the recovery point's segment on, and rebuild indexes, aborted transactions,
   leader epochs and producer state from them. The part of that segment that was synced at the last orderly stop, and
   is borne out to be the same (`hot.recovery.summary_check`), is not read again. At the first batch that is not right the log ends:

   * a torn tail of the last segment, above the recovery point, is cut off: a stop in the middle of a write leaves one,
     never acknowledged. Bits that changed on the disk may look the same, so the tail is kept in quarantine;
   * of a frozen segment, where there is an archive and anything from there on was synced, the rest is a missing range;
   * anything else (a later good batch, a later segment, an offset that had been flushed) is damage: what would
     be lost goes to quarantine first, and if flushed offsets are lost the log goes on above them, so that no
     offset ever names two records.

4. Everything that was verified or changed is synced before the log is served: a page that is only in the cache
   must not be read by a consumer and then vanish (KAFKA-10101). That is the log's first sync cycle, which the owner
   runs beside those of other logs; until then ``flushed_offset`` is no higher than the recovery point.

Offsets are dense: a batch begins where the one before it ends. Only the cleaner leaves gaps, and never in the active
segment. So a log knows below which offset it may have been (`OpenRequest.gaps_below`); a gap above that is damage, as
are base offsets and epochs, which no CRC covers, beyond the borders of their segment and partition.

Arbitrary bytes lead to one of these ends, never to an error; an `OSError` of the disk itself is raised.
"""

from __future__ import annotations

from stratalog.hot.recovery.clean_tail import trust_active
from stratalog.hot.recovery.damage import Placing, empty_batch, keep_damaged, misplaced, refusal
from stratalog.hot.recovery.epoch_recovery import load_epochs
from stratalog.hot.recovery.frozen_check import lost_logs
from stratalog.hot.recovery.frozen_damage import FrozenDamage
from stratalog.hot.recovery.interrupted import finish_interrupted
from stratalog.hot.recovery.listing import listed_segments, listed_snapshots, noted_ranges
from stratalog.hot.recovery.opening import LoadedLog, OpenRequest, RecoveryReport
from stratalog.hot.recovery.quarantine import Quarantine
from stratalog.hot.recovery.replay import apply_stored_batch, to_the_end
from stratalog.hot.recovery.set_aside import SoundPart, sound_part
from stratalog.hot.recovery.snapshots import SNAPSHOT, first_unflushed, restore_steps, stray_snapshots
from stratalog.hot.recovery.summary_check import KnownPart, known_part, load_summarised
from stratalog.hot.segments.scan import Damage, scan_checked
from stratalog.hot.segments.segment import RELATIVE_OFFSET_MAX, SUFFIXES, Segment, segment_path
from stratalog.hot.segments.segment_indexes import SegmentIndexes
from stratalog.hot.state.epoch_spans import EpochSpans
from stratalog.hot.state.leader_epochs import UNDEFINED_EPOCH, LeaderEpochCache
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.hot.storage.checkpoint import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    TRUNCATION,
    read_truncation,
    topic_id_to_bytes,
    write_topic_id,
)
from stratalog.hot.storage.filesystem import Entry, File, append_all
from stratalog.wire.batch import NO_TIMESTAMP

__all__ = ["load_log"]


class _Loading:
    """The log while it is being opened."""

    __slots__ = (
        "base", "border_gaps_below", "changed", "created", "end_offset", "epoch_max", "epochs", "files", "frozen", "gaps_below",
        "known", "quarantine", "report", "request", "segments", "snapshots", "state", "unsynced",
    )  # fmt: skip

    def __init__(self, request: OpenRequest) -> None:
        self.request = request
        self.files = request.files
        self.base = request.directory
        self.report = RecoveryReport()
        self.quarantine = Quarantine(request.files, request.directory, request.now_ms)
        self.frozen = FrozenDamage(request, self.quarantine, self.report, request.gaps_below, request.border_gaps_below)
        self.segments: list[Segment] = []
        self.snapshots: list[int] = []
        self.epochs = LeaderEpochCache()
        self.state = ProducerStateManager(str(request.topic_partition))
        self.end_offset = 0
        self.gaps_below, self.border_gaps_below = request.gaps_below, request.border_gaps_below
        self.epoch_max = request.leader_epoch_max
        self.known: KnownPart | None = None
        """The part of the last segment that did not have to be verified; its indexes on the disk are as they should be."""
        self.unsynced: list[str] = []
        self.created: list[File] = []
        self.changed = False
        """Whether names in the directory were added or removed."""


def load_log(request: OpenRequest) -> LoadedLog:
    """Open and recover one log; what has to be synced is in the result.

    Raises `OSError`, and `Corrupt` for damage where the request wants that.
    """
    if request.clean and request.summary is not None:
        loaded = load_summarised(request, request.summary)
        if loaded is not None:
            return loaded
    loading = _Loading(request)
    entries = _scan(loading)
    is_cut = any(entry.name == TRUNCATION for entry in entries)
    truncated_to = read_truncation(request.files, request.directory) if is_cut else None
    if truncated_to is not None:
        loading.request = request.cut_at(truncated_to)
    lost = lost_logs(loading.request, entries)
    loading.changed = finish_interrupted(loading.files, loading.base, entries, lost)
    names = _scan(loading) if loading.changed else entries
    loading.segments, loading.snapshots = listed_segments(loading.request, names, lost), listed_snapshots(names)
    trusted = request.clean and bool(loading.segments) and trust_active(loading.request, loading.segments[-1])
    loading.frozen.lost, loading.frozen.noted = lost, noted_ranges(names)
    _check_frozen(loading, trusted=trusted)
    named = any(entry.name == LEADER_EPOCHS for entry in names)
    loading.epochs = load_epochs(loading.request, loading.segments, loading.quarantine, named=named)
    loading.epoch_max = max(loading.epoch_max, loading.epochs.latest_epoch)
    if not loading.segments:
        _create(loading)
    elif trusted:
        loading.end_offset = loading.segments[-1].next_offset
        loading.state = _restore(loading, loading.segments, loading.end_offset)
    else:
        _recover(loading)
    _settle(loading, names)
    return LoadedLog(
        loading.segments,
        loading.epochs,
        loading.state,
        loading.snapshots,
        _log_start(loading),
        loading.end_offset,
        loading.report,
        loading.created,
        _flushed(loading),
        loading.unsynced,
        loading.changed,
        min(loading.gaps_below, loading.end_offset),
        min(loading.border_gaps_below, loading.end_offset),
        request.row_border_below,
        truncated_to,
    )


def _flushed(loading: _Loading) -> int:
    """Verified bytes become durable no further than before: up to the recovery point or the log's start."""
    if not loading.report.segments_checked:
        return loading.end_offset
    known = max(loading.request.recovery_point, _log_start(loading), loading.segments[0].base_offset)
    return min(known, loading.end_offset)


def _log_start(loading: _Loading) -> int:
    return loading.request.log_start(loading.segments[0].base_offset)


# -- 1. names --------------------------------------------------------------------------------------------------


def _scan(loading: _Loading) -> list[Entry]:
    try:
        found = loading.files.scan(loading.base, sized=(SUFFIXES[0], PARTITION_METADATA))
        return [entry for entry in found if not entry.is_directory]
    except FileNotFoundError:
        loading.files.make_directory(loading.base)
        return []


def _create(loading: _Loading) -> None:
    """A new log: its first segment begins at the log start. The first cycle syncs it."""
    request = loading.request
    start = max(request.log_start_offset, 0)
    segment = Segment(loading.files, loading.base, start, request.config, request.cache)
    segment.take_stored_aborted([])
    identity = loading.files.open_append(f"{loading.base}/{PARTITION_METADATA}")
    identity.truncate(0)
    append_all(identity, [topic_id_to_bytes(request.topic_id)])
    loading.created += [identity, segment.file]
    loading.segments.append(segment)
    loading.end_offset = loading.state.end_offset = start


def _check_frozen(loading: _Loading, *, trusted: bool) -> None:
    """Find what is missing of segments that will not be verified."""
    if not loading.segments:
        return
    segments = loading.segments
    verified_from = None if trusted else segments[first_unflushed(loading.request, segments)].base_offset
    loading.segments = loading.frozen.checked(segments, verified_from)
    loading.frozen.drop_orphans(loading.segments)


# -- 3. any other stop -----------------------------------------------------------------------------------------


def _recover(loading: _Loading) -> None:
    segments, point = loading.segments, loading.request.recovery_point
    first = first_unflushed(loading.request, segments)
    loading.known = known = known_part(loading.request, segments[first])
    if known is None:
        loading.state = _restore(loading, segments[:first], segments[first].base_offset)
        loading.end_offset = segments[first].base_offset
    else:
        loading.state, loading.end_offset = known.producers, known.end_offset
    before = loading.epochs.until(loading.end_offset)
    spans = EpochSpans(before[-1].epoch if before else UNDEFINED_EPOCH)
    number = first
    while number < len(segments):
        damage = None
        if segments[number].missing is not None:
            _pass_missing(loading, number)
        else:
            damage = _recover_segment(loading, number, spans, known if number == first else None)
        if damage is not None and not _cut_out(loading, number, damage):
            loading.epochs = spans.recovered(loading.epochs, loading.end_offset)
            _set_aside(loading, number, damage)
            break
        number += 1
    else:
        loading.epochs = spans.recovered(loading.epochs, loading.end_offset)
        if loading.end_offset < point:
            reason = f"the log ends at offset {loading.end_offset}, it had been flushed up to {point}"
            if loading.request.refuse_damage:
                raise refusal(f"{loading.base}: {reason}")
            loading.report.damaged_offset, loading.report.reason = loading.end_offset, reason
            loading.report.has_lost_flushed, loading.report.resume_offset = True, point
            _resume_above(loading, point)


def _cut_out(loading: _Loading, number: int, damage: Damage) -> bool:
    """Where there is an archive: what is damaged of a synced, frozen segment is missing, and what follows it stays."""
    segment = loading.segments[number]
    torn = loading.end_offset >= loading.request.durable_end  # sent again, it must not be taken for a duplicate
    if torn or number + 1 == len(loading.segments) or not loading.request.config.remote_storage_enable:
        return False
    segment.next_offset = loading.segments[number + 1].base_offset
    sound = sound_part(segment.file, segment.size_bytes, segment, loading.gaps_below)
    if not sound.why or sound.end_position >= damage.position:  # else a batch before it has moved
        sound = SoundPart(damage.position, max(loading.end_offset, segment.base_offset), damage.reason)
    why = f"{segment.path()} is damaged at position {damage.position}: {damage.reason}"
    loading.segments[number : number + 1] = loading.frozen.cut_out(segment, sound, why)
    _pass_missing(loading, number)
    return True


def _pass_missing(loading: _Loading, number: int) -> None:
    """Go on behind a missing range. The snapshot that was written there knows the producers."""
    loading.end_offset = loading.segments[number].next_offset
    loading.state = _restore(loading, loading.segments[: number + 1], loading.end_offset)


def _set_aside(loading: _Loading, number: int, damage: Damage) -> None:
    """End the log before the damage in segment ``number``, or go on above what is lost."""
    place = Placing(loading.end_offset, loading.gaps_below, _limit(loading, number))
    request, point = loading.request, loading.request.recovery_point
    refuse = request.refuse_damage and not (request.unsynced_may_go and loading.end_offset >= point)
    where = loading.segments, number, damage, place
    resume = keep_damaged(loading.quarantine, loading.report, *where, point, refuse=refuse)
    _end_log_at(loading, number, damage.position)
    if resume > loading.end_offset:
        _resume_above(loading, resume)


def _recover_segment(loading: _Loading, number: int, spans: EpochSpans, known: KnownPart | None) -> Damage | None:
    """Verify one segment behind its known part and rebuild what it implies; the damage that ends it, if any."""
    segment = loading.segments[number]
    last, limit = number + 1 == len(loading.segments), _limit(loading, number)
    indexes = SegmentIndexes.empty(segment.base_offset, loading.request.config.index_interval_bytes)
    aborted = []
    damage = None
    start, next_offset = 0, segment.base_offset
    if known is not None:
        indexes, aborted, start, next_offset = known.indexes, known.aborted, known.position, known.end_offset
        segment.roll_timestamp_ms = known.roll_timestamp_ms
    checked = known is None or start < segment.size_bytes or next_offset < loading.request.recovery_point
    loading.report.segments_checked += checked
    for batch in scan_checked(segment.file, start, segment.size_bytes, next_offset, gaps_below=loading.gaps_below):
        if isinstance(batch, Damage):
            damage = batch
            break
        header = batch.header
        reason = misplaced(header, limit, spans.latest_epoch, loading.epoch_max)
        if reason:
            damage = Damage(batch.position, reason)
            break
        if batch.position == 0:
            segment.roll_timestamp_ms = header.max_timestamp
        indexes.add_batch(batch.position, header.size_bytes, header.last_offset, header.max_timestamp)
        spans.note(header.partition_leader_epoch, header.base_offset, header.last_offset)
        void = apply_stored_batch(loading.state, header, batch.data)
        if void is not None:
            aborted.append(void)
        loading.end_offset = header.next_offset
    segment.indexes = indexes
    segment.replace_aborted(aborted)
    segment.next_offset = max(loading.end_offset, segment.base_offset)
    if not last and damage is None and loading.end_offset < limit + 1 > loading.border_gaps_below:
        damage = Damage(segment.size_bytes, f"the next segment begins at offset {limit + 1}")
    if not last and damage is None:
        segment.next_offset = loading.end_offset = loading.segments[number + 1].base_offset
        loading.state.end_offset = loading.end_offset
        _seal(loading, segment)
    return damage


def _limit(loading: _Loading, number: int) -> int:
    """The last offset that segment ``number`` can hold."""
    if number + 1 < len(loading.segments):
        return loading.segments[number + 1].base_offset - 1
    return loading.segments[number].base_offset + RELATIVE_OFFSET_MAX


def _seal(loading: _Loading, segment: Segment) -> None:
    """Store a recovered frozen segment's indexes and the producers at its end."""
    _store(loading, segment, final=True)
    _store_snapshot(loading, segment.next_offset)


def _store(loading: _Loading, segment: Segment, *, final: bool) -> None:
    loading.report.indexes_rebuilt.append(segment.base_offset)
    loading.changed = True
    segment.store_indexes(final=final)
    loading.unsynced += [segment.path(suffix) for suffix in SUFFIXES]


def _store_snapshot(loading: _Loading, offset: int) -> None:
    path = segment_path(loading.base, offset, SNAPSHOT)
    file = loading.files.open_append(path)
    file.truncate(0)
    append_all(file, [loading.state.to_bytes()])
    loading.unsynced.append(path)
    loading.changed = True
    if offset not in loading.snapshots:
        loading.snapshots.append(offset)
        loading.snapshots.sort()


def _end_log_at(loading: _Loading, number: int, position: int) -> None:
    """The log ends inside segment ``number``: it becomes the active one, later ones are in quarantine already."""
    for segment in loading.segments[number + 1 :]:
        loading.request.cache.drop(segment)
    del loading.segments[number + 1 :]
    segment = loading.segments[number]
    indexes, aborted = segment.indexes, segment.aborted
    loading.known = None
    loading.request.cache.drop(segment)  # it may have been opened for reading only
    segment.frozen = False
    segment.file.truncate(position)
    segment.file.fdatasync()  # what is appended next must not mix with what was cut
    segment.size_bytes = segment.written_bytes = position
    segment.indexes = indexes
    segment.replace_aborted(aborted)
    if position == 0:
        segment.first_append_ms = segment.roll_timestamp_ms = -1


def _resume_above(loading: _Loading, offset: int) -> None:
    """Flushed offsets were lost: an empty batch takes their place, as the cleaner leaves them, and the log goes on.

    More than a segment can hold begin a new one. Where other replicas have them the log ends here: an own batch would
    stand in the leader's epoch, and no cut by epochs would find it.
    """
    if loading.request.others_have_it:
        loading.report.resume_offset = loading.end_offset
        return
    segment, request = loading.segments[-1], loading.request
    epoch = max(loading.epochs.latest_epoch, 0)
    if offset - 1 - segment.base_offset > RELATIVE_OFFSET_MAX:
        segment.next_offset = offset
        _store(loading, segment, final=True)
        segment.freeze()
        segment = Segment(loading.files, loading.base, offset, request.config, request.cache)
        segment.take_stored_aborted([])
        loading.created.append(segment.file)
        loading.segments.append(segment)
        loading.gaps_below = loading.border_gaps_below = offset
    else:
        batch = empty_batch(loading.end_offset, offset, epoch)
        segment.queue(batch, offset - 1, NO_TIMESTAMP, request.now_ms)
        segment.write_pending()
    if epoch > loading.epochs.latest_epoch:
        loading.epochs.assign(epoch, loading.end_offset)
    loading.end_offset = loading.state.end_offset = offset


# -- states and syncs ------------------------------------------------------------------------------------------


def _restore(loading: _Loading, segments: list[Segment], end_offset: int) -> ProducerStateManager:
    start, name = min(loading.segments[0].base_offset, end_offset), str(loading.request.topic_partition)
    files, snapshots = loading.files, loading.snapshots
    return to_the_end(
        restore_steps(files, loading.base, snapshots, segments, start_offset=start, end_offset=end_offset, name=name)
    )


def _settle(loading: _Loading, entries: list[Entry]) -> None:
    """Write what recovery changed; the epochs are written by the log's first sync cycle."""
    request, files = loading.request, loading.files
    loading.unsynced += loading.frozen.unsynced
    loading.changed |= loading.frozen.changed
    loading.epochs.truncate_from_end(loading.end_offset)
    loading.epochs.truncate_from_start(_log_start(loading))
    for offset in stray_snapshots(loading.snapshots, [one.base_offset for one in loading.segments], loading.end_offset):
        files.unlink(segment_path(loading.base, offset, SNAPSHOT))
        loading.snapshots.remove(offset)
    active = loading.segments[-1]
    if loading.known is not None and loading.known.base_offset == active.base_offset:
        loading.unsynced += [active.path()] * (loading.report.segments_checked > 0)  # its indexes lack what will come
    elif loading.report.segments_checked:
        _store(loading, active, final=False)
    identity = PARTITION_METADATA, len(topic_id_to_bytes(request.topic_id))
    if not loading.created and not any(entry[:2] == identity for entry in entries):
        write_topic_id(files, loading.base, request.topic_id)
    loading.report.quarantine = loading.quarantine.directory
