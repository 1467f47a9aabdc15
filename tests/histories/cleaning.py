"""A cleaning of a log in a random history, as the broker drives it: other things happen between its steps."""

from __future__ import annotations

from stratalog.hot.cleaner.cleaner import Cleaning
from stratalog.hot.cleaner.plan import cleanable_section
from stratalog.hot.cleaner_offsets import note_cleaner_offset
from tests.histories.disk import NAME


def cleaning(node):
    """One cleaning as `Compaction._clean_log` does it; it yields where other things may happen."""
    log, unified = node.log, node.unified
    section = cleanable_section(
        log.compaction.cleanable_segments(), log.compaction.policy,
        cleaned_offset=node.directory.cleaner_offsets.get(NAME), log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset, limit_offset=unified.cleanable_below, now_ms=node.world.now_ms,
    )  # fmt: skip
    if section is None:
        return
    job = log.compaction.clean_job(
        section, now_ms=node.world.now_ms, forgettable_below=unified.forgettable_below, map_bytes=1 << 14,
        map_load_factor=0.9,
    )  # fmt: skip
    cleaning = Cleaning(job, node.files, lambda _: None)
    built = cleaning.build_map()
    yield
    if not may_clean(node, job):
        return
    if log.compaction.expect_gaps(section.end_offset, unified.cleanable_below):
        node.keep_bounds()
    if not log.compaction.cleaned_before:
        note_cleaner_offset(node.directory, NAME, section.first_dirty_offset)()
    yield
    for number in range(len(built.groups)):
        if not may_clean(node, job):
            return
        cleaned = cleaning.clean_group(number)
        yield
        if not may_clean(node, job):
            return
        if cleaned.changed and not (yield from swap(node, cleaned, job)):
            return
    if may_clean(node, job):
        note_cleaner_offset(node.directory, NAME, built.end_offset)()
        node.world.count["cleaned"] += 1


def may_clean(node, job) -> bool:
    """Whether the log is as it was when the job was made, and not compared with its archive."""
    return node.partition.held_back is None and node.log.compaction.is_as_it_was(job)


def swap(node, cleaned, job):
    """Put a cleaned segment in; False if the cleaning is to be given up."""
    compaction, forgotten_below = node.log.compaction, cleaned.counts.forgotten_below
    if forgotten_below:
        if forgotten_below > node.unified.forgettable_below:
            return False
        node.log.forgotten.noting(forgotten_below)()
        yield
        if not may_clean(node, job):
            return False
    swap_ = compaction.begin_replace(cleaned)
    if swap_ is None:
        return False
    if not (yield from carried_out(compaction, swap_, swap_.stage())):
        return False
    before = node.world.local_offsets(node)
    ok = may_clean(node, job) and cleaned.end_offset <= node.unified.cleanable_below
    ok = ok and forgotten_below <= node.unified.forgettable_below and compaction.put_in(swap_)
    if not ok:
        if (yield from carried_out(compaction, swap_, swap_.withdraw())):
            compaction.withdrawn()
        return False
    node.log.forgotten.dropped(forgotten_below)
    node.world.count["forgotten"] += forgotten_below > 0
    node.world.judge_cleaning(node, before)
    return (yield from carried_out(compaction, swap_, compaction.retire(swap_)))


def carried_out(compaction, swap_, steps):
    """Do the steps, each with its sync; False if a cut has ended the swap_ meanwhile."""
    for _ in steps:
        swap_.sync()
        yield
        if not compaction.is_pending(swap_):
            return False
    return True
