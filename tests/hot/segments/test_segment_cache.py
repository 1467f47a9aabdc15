"""Tests of hot/segments/segment_cache.py."""

from stratalog.hot.segments.segment_cache import SegmentCache


def test_the_cache_bounds_files_and_indexes(make_segment, make_batch):
    """The least recently used segment leaves first."""
    cache = SegmentCache(open_max=2)
    segments = []
    for base in (0, 10, 20):
        segment = make_segment(base, [(base + n, make_batch(base + n)) for n in range(5)], cache=cache)
        segment.freeze()
        segments.append(segment)
    assert cache.held_count == 2
    assert [segment.has_indexes for segment in segments] == [False, True, True]
    segments[1].locate(12)
    segments[0].locate(2)
    assert [segment.has_indexes for segment in segments] == [True, True, False]
    small = SegmentCache(index_bytes_max=1)
    for base in (30, 40):
        segment = make_segment(base, [(base + n, make_batch(base + n)) for n in range(5)], cache=small)
        segment.freeze()
    assert small.held_count == 1
    small.drop(segment)
    assert small.held_count == 0


def test_an_active_segment_counts_as_used_again_after_others_and_after_it_was_dropped(make_segment):
    """Using its file again makes it the latest, although the file was used before and never closed."""
    cache = SegmentCache(open_max=1)
    first, second = make_segment(0, [], cache=cache), make_segment(10, [], cache=cache)
    files = [one.file for one in (first, first, second, first)]
    assert files[0] is files[1] is files[3]  # this test has kept it open
    assert (cache.latest, cache.held_count) == (first, 1)
    cache.drop(first)
    assert (cache.latest, cache.held_count) == (None, 0)
    assert first.file is first.file
    assert (cache.latest, cache.held_count) == (first, 1)
