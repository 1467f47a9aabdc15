"""Readers that come before the cache knows what an earlier run left."""

from tests.broker.cold.chunk_cache_rig import Cache, ref


def test_a_fetch_of_many_partitions_is_woken_once_when_the_cache_is_known(tmp_path):
    """It is a reader for each, and asks for all of them whenever it is woken: 500 partitions would be 250,000 questions."""
    cache = Cache(tmp_path / "cache", limit_bytes=1000, scanned=False)

    def ask():
        for number in range(50):
            cache.want(ref(number), reader=("c", number))

    def wake(reader):
        cache.woken.append(reader)
        if reader != "alone":
            ask()

    ask()
    ask()
    cache.want(ref(60), reader="alone")
    cache.admission.wake = wake
    cache.scan()
    assert cache.woken == [("c", 0), "alone"]
