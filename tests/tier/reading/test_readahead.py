from __future__ import annotations

from stratalog.tier.reading.readahead import ReadAhead


def read_on(ahead, reader, count, start=0, now_ms=0):
    """The windows of ``count`` reads in sequence."""
    return [ahead.on_read(reader, start + i, start + i + 1, now_ms) for i in range(count)]


def test_a_sequential_reader_gets_twice_as_much_each_time():
    """No read-ahead for the first read, then one chunk, two, four ... up to the whole cache for a lone reader."""
    ahead = ReadAhead(100, first_bytes=10)
    assert read_on(ahead, "r", 7) == [0, 10, 20, 40, 80, 100, 100]


def test_read_ahead_is_bounded_however_large_the_cache():
    """A reader that is slower than its window would have most of it checked again before it gets there."""
    ahead = ReadAhead(1000, first_bytes=10, limit_bytes=35)
    assert read_on(ahead, "r", 5) == [0, 10, 20, 35, 35]


def test_readers_share_the_cache():
    """The cap is the cache's size divided by the active readers."""
    ahead = ReadAhead(100, first_bytes=10)
    read_on(ahead, "a", 6)
    read_on(ahead, "b", 1)
    assert ahead.on_read("a", 6, 7, 0) == 50
    ahead.leave("b")
    assert ahead.on_read("a", 7, 8, 0) == 100


def test_idle_readers_do_not_count():
    """A reader who has not read for 30 s leaves his share to the others."""
    ahead = ReadAhead(100, first_bytes=10)
    read_on(ahead, "b", 2, now_ms=0)
    assert read_on(ahead, "a", 5, now_ms=29_999)[-1] == 50
    assert ahead.on_read("a", 5, 6, 30_000) == 100


def test_a_jump_begins_again():
    """A seek, forward or back, proves nothing about what is read next."""
    ahead = ReadAhead(100, first_bytes=10)
    read_on(ahead, "r", 5)
    assert ahead.on_read("r", 50, 60, 0) == 0
    assert ahead.on_read("r", 60, 70, 0) == 10
    assert ahead.on_read("r", 60, 70, 0) == 0


def test_forgotten_streams_do_not_pile_up():
    """Streams that ended without a word are dropped when new ones begin."""
    ahead = ReadAhead(100, first_bytes=10, idle_ms=10)
    for number in range(100):
        ahead.on_read(number, 0, 1, number * 20)
    assert len(ahead._streams) == 1


def test_a_smaller_cache_is_shared_anew():
    """When the disk fills up readers get less ahead."""
    ahead = ReadAhead(100, first_bytes=10)
    assert read_on(ahead, "r", 7)[-1] == 100
    ahead.resize(40)
    assert ahead.on_read("r", 7, 8, 0) == 40


def test_many_readers_leave_no_room_for_whole_gets():
    """Two GETs of three chunks each is what a share must hold."""
    ahead = ReadAhead(120, first_bytes=10)
    assert ahead.roomy
    for reader in ("a", "b"):
        read_on(ahead, reader, 1)
    assert ahead.roomy
    read_on(ahead, "c", 1)
    assert not ahead.roomy
