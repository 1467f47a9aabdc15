"""The cache of fetch sessions beside a model that sorts everything anew each time."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from stratalog.metadata.fetch_sessions.cache import EVICTION_MS, FetchSessionCache
from stratalog.metadata.fetch_sessions.fetch_session import FetchSession
from stratalog.wire.messages.fetch import FetchPartition

SLOTS = 3


def session(session_id, now_ms, count, *, privileged=False):
    """A session with so many partitions."""
    one = FetchSession(session_id, now_ms, by_id=False, privileged=privileged, isolation_level=0)
    resize(one, count)
    return one


def resize(one, count):
    """Give a session so many partitions."""
    one.partitions.clear()
    for number in range(count):
        one.want("t", FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1))


class Caches(RuleBasedStateMachine):
    """Sessions come, are used and go; the model keeps (last use, evictable by all since its last use, size) of each."""

    def __init__(self):
        super().__init__()
        self.cache = FetchSessionCache(SLOTS, 100)
        self.now_ms = 0
        self.next_id = 1
        self.model = {}

    @rule(ms=st.sampled_from([1, EVICTION_MS // 2, EVICTION_MS, EVICTION_MS + 1]))
    def wait(self, ms):
        """Time goes by."""
        self.now_ms += ms

    @rule(count=st.integers(1, 4), privileged=st.booleans())
    def begin(self, count, privileged):
        """A newcomer finds room, takes a place, or is turned away."""
        expected = self.expected_victim(privileged, count)
        room, victim = self.cache.make_room(self.now_ms, privileged=privileged, partition_count=count)
        assert (room, victim and victim.id) == expected
        if victim is not None:
            del self.model[victim.id]
        if room:
            one = session(self.next_id, self.now_ms, count, privileged=privileged)
            self.cache.add(one, self.now_ms)
            self.model[one.id] = [self.now_ms, False, one]
            self.next_id += 1
        self.check()

    def expected_victim(self, privileged, count):
        """Kafka's rules, by looking at everything."""
        if len(self.model) < SLOTS:
            return True, None
        oldest, (used_ms, _, _) = min(self.model.items(), key=lambda item: (item[1][0], self.order(item[0])))
        if self.now_ms - used_ms > EVICTION_MS:
            return True, oldest
        ranked = [
            (one.privileged, one.cached_size, one_id)
            for one_id, (_, aged, one) in self.model.items()
            if aged or (privileged and not one.privileged)
        ]
        if not ranked or (privileged, count, 0) < min(ranked):
            return False, None
        return True, min(ranked)[2]

    def order(self, session_id):
        """Sessions used in the same millisecond go in the order of their use."""
        return list(self.model).index(session_id)

    @rule(data=st.data(), count=st.integers(1, 4))
    def use(self, data, count):
        """A session is used and has so many partitions now."""
        if not self.model:
            return
        chosen = data.draw(st.sampled_from(sorted(self.model)))
        entry = self.model.pop(chosen)
        resize(entry[2], count)
        self.cache.touch(entry[2], self.now_ms)
        self.model[chosen] = [self.now_ms, self.now_ms - entry[2].created_ms > EVICTION_MS, entry[2]]
        self.check()

    @rule(data=st.data())
    def close(self, data):
        """A session ends."""
        if not self.model:
            return
        chosen = data.draw(st.sampled_from(sorted(self.model)))
        assert self.cache.remove(chosen) is self.model.pop(chosen)[2]
        assert self.cache.remove(chosen) is None
        self.check()

    def check(self):
        """Numbers and look-ups agree."""
        assert len(self.cache) == len(self.model)
        assert self.cache.partition_count == sum(len(one) for _, _, one in self.model.values())
        for one_id, (_, _, one) in self.model.items():
            assert self.cache.get(one_id) is one
            assert one_id in self.cache


TestCaches = Caches.TestCase
TestCaches.settings = settings(stateful_step_count=40)


def test_no_slots_mean_no_sessions():
    """Every fetch is a full one then."""
    cache = FetchSessionCache(0, 100)
    assert cache.make_room(0, privileged=True, partition_count=9) == (False, None)


@pytest.mark.parametrize(("privileged", "victim"), [(False, None), (True, 1)])
def test_replicas_take_the_place_of_consumers_at_once(privileged, victim):
    """A consumer has to wait until the others are old or unused."""
    cache = FetchSessionCache(1, 100)
    cache.add(session(1, 0, 100), 0)
    room, found = cache.make_room(1, privileged=privileged, partition_count=1)
    assert (room, found and found.id) == (victim is not None, victim)
    assert cache.eviction_count == (victim is not None)


def grown(cache, counts, *, privileged=False, now_ms=0):
    """Sessions with so many partitions each, that are all kept."""
    for session_id, count in enumerate(counts, 1):
        cache.add(session(session_id, now_ms, count, privileged=privileged), now_ms)
    return cache


def ids(victims):
    return [one.id for one in victims]


def test_partitions_of_all_consumers_are_limited():
    """The largest session gives way to a smaller one, and to none as large as itself; a newcomer above the limit of one finds no room."""
    cache = grown(FetchSessionCache(9, 5, partitions_max=10), [3, 4, 2])
    room, victims = cache.make_room_for_partitions(0, 1)
    assert (room, ids(victims)) == (True, [])
    assert cache.make_room_for_partitions(0, 4) == (False, [])
    assert cache.make_room_for_partitions(0, 6) == (False, [])
    room, victims = cache.make_room_for_partitions(0, 3)
    assert (room, ids(victims), cache.partition_count, cache.eviction_count) == (True, [2], 5, 1)


def test_partitions_of_sessions_that_are_not_used_make_room_first():
    """Also small ones, for a newcomer that is larger, and as many as it takes."""
    cache = grown(FetchSessionCache(9, 5, partitions_max=10), [1, 1, 3, 5])
    room, victims = cache.make_room_for_partitions(EVICTION_MS + 1, 4)
    assert (room, ids(victims)) == (True, [1, 2, 3])


def test_partitions_of_replicas_are_not_limited():
    """Their number is that of the cluster, whatever consumers have; none of them gives way for a consumer's."""
    cache = grown(FetchSessionCache(9, 5, partitions_max=10), [30, 40], privileged=True)
    room, victims = cache.make_room_for_partitions(EVICTION_MS + 1, 5)
    assert (room, ids(victims)) == (True, [])
    one = cache.get(1)
    resize(one, 50)
    assert cache.may_keep(one)


@pytest.mark.parametrize(("count", "kept"), [(3, True), (5, True), (6, False)])
@pytest.mark.parametrize("others", [[], [4], [5]])
def test_a_session_that_grows_keeps_to_both_limits(count, kept, others):
    """Its own, and that of all; one that has not grown goes on."""
    cache = grown(FetchSessionCache(9, 5, partitions_max=9), [3, *others])
    one = cache.get(1)
    resize(one, count)
    assert cache.may_keep(one) == (kept and count + sum(others) <= 9)
    resize(one, 3)
    cache.touch(one, 0)
    assert cache.may_keep(one)
