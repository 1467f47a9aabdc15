"""How many aborted transactions of archived objects stay in memory."""

from stratalog.tier.objects.aborted_ranges import AbortedRanges
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.reading.aborted_cache import AbortedCache


def ranges(count):
    return AbortedRanges.of(AbortedTransaction(1, n, n, n) for n in range(count))


def test_those_used_longest_ago_go():
    """By the number of transactions, whatever the number of objects; one that is read again counts once."""
    cache = AbortedCache(10)
    for uuid in (b"a", b"b", b"b"):
        cache.keep(uuid, ranges(5))
    assert cache.transaction_count == 10
    assert len(cache.get(b"a")) == 5
    cache.keep(b"c", ranges(1))
    assert cache.get(b"b") is None
    assert cache.get(b"a") is not None
    assert cache.transaction_count == 6
    cache.keep(b"d", ranges(50))
    assert [one for one in (b"a", b"c", b"d") if cache.get(one)] == [b"d"]


def test_objects_with_very_many_do_not_stay_together():
    """Sixty-four objects of a gigabyte may name some hundred million."""
    cache = AbortedCache(10)
    for number in range(64):
        cache.keep(bytes([number]), ranges(100))
        assert cache.transaction_count == 100
        assert cache.get(bytes([number])) is not None
