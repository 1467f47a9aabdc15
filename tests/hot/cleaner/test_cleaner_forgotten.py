"""Up to where a cleaning has dropped tombstones and markers."""

from msgspec.structs import replace

from tests.hot.cleaner.test_cleaner import CONFIG, RETENTION_MS, put, work  # noqa: F401 - a fixture


def test_the_marker_that_is_left_of_a_group_is_not_counted_as_gone(work):  # noqa: F811
    """A segment is never empty: the marker stays, and ends the transaction of each copy."""
    put(work, 10)
    put(work, 4, producer=2, roll=False)
    work.end(2, commit=False)
    work.log.roll()
    put(work, 4, producer=2, roll=False)
    work.end(2, commit=True)
    work.log.roll()
    put(work, 8)
    work.log.update_config(replace(CONFIG, segment_bytes=100))
    for _ in range(5):
        work.compactor.cleaned_offset = 0
        done = work.compactor.clean(work.log, now_ms=work.now_ms)
        assert [one.counts.forgotten_below for one in done] == [0, 0, 0, 0]
        work.now_ms += RETENTION_MS
    assert next(header.base_offset for header, _ in work.batches(0, 3) if header.is_control) == 2
