"""Runs: one at a time, renewed while they last, and nothing is swapped in for one that is not listed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stratalog.tier.manifests.jobs import JOBS_MAX, JobRefused
from stratalog.tier.manifests.leases import SKEW_MS
from stratalog.tier.manifests.manifest import Claimant, Manifest, Uploaded, claim, commit
from stratalog.tier.manifests.parts import Job
from stratalog.tier.manifests.runs import (
    JobsFull,
    RunStruckOff,
    RunUnderWay,
    begin_run,
    end_run,
    is_run_listed,
    list_part,
    renew_run,
    swap_part,
)

US = Claimant(0, 1, bytes([1] * 16))
RUN = Job(b"r" * 16, "compact", 100, 200)
OTHER = Job(b"o" * 16, "erase", 150, 250)


@pytest.fixture
def manifest(make_entry, log_bytes):
    """Four entries of ten offsets."""
    entries = [make_entry(10 * n, 10 * n + 10) for n in range(4)]
    claimed = claim(Manifest(log_bytes.partition), US, now_ms=1)
    return commit(claimed, US, [Uploaded(entry, US) for entry in entries], now_ms=2)


def part_of(manifest, *numbers):
    """A job with these inputs."""
    return Job(bytes([numbers[0] + 1] * 16), "compact", 100, 200, tuple(manifest.entries[n].uuid for n in numbers))


def test_there_is_one_run_at_a_time(manifest):
    """Compaction or erasure; a job of another kind is no run, and listing twice is listing once."""
    merge = Job(b"m" * 16, "merge", 1, 2, (manifest.entries[0].uuid,))
    listed = begin_run(replace(manifest, jobs=(merge,)), RUN, now_ms=100)
    assert (listed.jobs, listed.seq) == ((merge, RUN), manifest.seq + 1)
    assert begin_run(listed, RUN, now_ms=101) is listed
    assert (is_run_listed(listed), is_run_listed(replace(manifest, jobs=(merge,)))) == (True, False)
    with pytest.raises(RunUnderWay, match="compact is under way here, listed 20 s ago"):
        begin_run(listed, OTHER, now_ms=20_100)


def test_a_run_that_ran_out_is_struck_off_with_its_parts(manifest):
    """The clocks' skew later; at once with `take_over`. Both by the one change that lists the new run."""
    listed = list_part(begin_run(manifest, RUN, now_ms=100), RUN.uuid, part_of(manifest, 1), now_ms=101)
    with pytest.raises(RunUnderWay):
        begin_run(listed, OTHER, now_ms=200 + SKEW_MS)
    for options in ({"now_ms": 201 + SKEW_MS}, {"now_ms": 150, "take_over": True}):
        after = begin_run(listed, OTHER, **options)
        assert (after.jobs, after.seq) == ((OTHER,), listed.seq + 1)


def test_no_run_begins_in_a_deleted_archive_or_beside_too_many_jobs(manifest):
    """It says which."""
    with pytest.raises(JobRefused, match="its topic was deleted"):
        begin_run(replace(manifest, deleted_ms=5), RUN, now_ms=100)
    merges = tuple(Job(bytes([n] * 16), "merge", 1, 2, (bytes([n] * 16),)) for n in range(JOBS_MAX - 1))
    with pytest.raises(JobsFull):
        begin_run(replace(manifest, jobs=merges), RUN, now_ms=100)


def test_parts_wait_for_each_other_when_the_list_is_full(manifest):
    """One that is listed already is listed."""
    listed = begin_run(manifest, RUN, now_ms=100)
    more = tuple(Job(bytes([99, n] * 8), "merge", 1, 2, (bytes([99, n] * 8),)) for n in range(JOBS_MAX - 2))
    full = list_part(replace(listed, jobs=(*listed.jobs, *more)), RUN.uuid, part_of(manifest, 1), now_ms=101)
    assert len(full.jobs) == JOBS_MAX
    assert list_part(full, RUN.uuid, part_of(manifest, 1), now_ms=102) is full
    with pytest.raises(JobsFull):
        list_part(full, RUN.uuid, part_of(manifest, 2), now_ms=102)


def test_a_run_is_renewed_and_never_shortened(manifest):
    """Its parts stay as they are."""
    listed = begin_run(manifest, RUN, now_ms=100)
    renewed = renew_run(listed, RUN.uuid, 500, now_ms=150)
    assert renewed.jobs == (replace(RUN, expires_ms=500),)
    assert renew_run(renewed, RUN.uuid, 400, now_ms=160) is renewed
    with pytest.raises(RunStruckOff):
        renew_run(manifest, RUN.uuid, 500, now_ms=150)


def test_a_part_without_its_run_is_neither_listed_nor_swapped_in(manifest, make_entry):
    """Another run took this one for dead: its later attempts come too late."""
    part = part_of(manifest, 0, 1)
    output = make_entry(0, 20, uuid=part.uuid)
    with pytest.raises(RunStruckOff, match="run it again"):
        list_part(manifest, RUN.uuid, part, now_ms=100)
    listed = list_part(begin_run(manifest, RUN, now_ms=100), RUN.uuid, part, now_ms=101)
    alone = replace(listed, jobs=(part,))
    with pytest.raises(RunStruckOff):
        swap_part(alone, part.uuid, manifest.entries[:2], output, run_uuid=RUN.uuid, now_ms=102)
    swapped = swap_part(listed, part.uuid, manifest.entries[:2], output, run_uuid=RUN.uuid, now_ms=102)
    assert swapped.entries == (output, *manifest.entries[2:])
    assert swapped.jobs == (RUN,)


def test_the_end_raises_the_clean_offset_if_all_below_is_clean(manifest):
    """Otherwise it is refused, and nothing has changed; ending twice is ending once."""
    listed = list_part(begin_run(manifest, RUN, now_ms=100), RUN.uuid, part_of(manifest, 3), now_ms=101)
    clean = {entry.uuid for entry in manifest.entries[:3]}
    ended = end_run(listed, RUN.uuid, now_ms=102, clean_offset=30, live=manifest.entries, clean=clean)
    assert (ended.archive_clean_offset, ended.jobs, ended.seq) == (30, (), listed.seq + 1)
    assert end_run(ended, RUN.uuid, now_ms=103, clean_offset=30, live=manifest.entries, clean=clean) is ended
    with pytest.raises(JobRefused, match=r"\[20, 30\) is not one that this run has looked at"):
        end_run(
            listed,
            RUN.uuid,
            now_ms=102,
            clean_offset=31,
            live=manifest.entries,
            clean=clean - {manifest.entries[2].uuid},
        )
    with pytest.raises(JobRefused, match=r"\[30, 40\)"):
        end_run(listed, RUN.uuid, now_ms=102, clean_offset=40, live=manifest.entries, clean=clean)
    with pytest.raises(RunStruckOff):
        end_run(manifest, RUN.uuid, now_ms=102, clean_offset=30, live=manifest.entries, clean=clean)


def test_the_end_believes_nothing_of_an_archive_that_ends_earlier_by_now(manifest):
    """It was rewound or begun again: the records that follow are others than those the run has looked at."""
    listed = begin_run(manifest, RUN, now_ms=100)
    clean = {entry.uuid for entry in manifest.entries}
    shorter = replace(listed, entries=manifest.entries[:3], remote_end=30)
    with pytest.raises(JobRefused, match="ends at offset 30 by now, this run has looked at it up to 40"):
        end_run(shorter, RUN.uuid, now_ms=102, clean_offset=40, live=shorter.entries, clean=clean)
    assert end_run(shorter, RUN.uuid, now_ms=102, clean_offset=30, live=shorter.entries, clean=clean).jobs == ()


def test_the_end_never_lowers_the_clean_offset(manifest):
    """An erasure, or a run that could not do everything, leaves it where it was."""
    listed = replace(begin_run(manifest, RUN, now_ms=100), archive_clean_offset=20)
    assert end_run(listed, RUN.uuid, now_ms=102).archive_clean_offset == 20
    assert end_run(listed, RUN.uuid, now_ms=102, clean_offset=10, live=manifest.entries).archive_clean_offset == 20
