"""Where replicas go."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.controller.placement import place_replicas
from stratalog.metadata.image.brokers_image import BrokerImage
from stratalog.wire.errors import ErrorCode, KafkaError


def _brokers(*ids, racks=None, fenced=()):
    return [BrokerImage(each, 1, b"i" * 16, {}, rack=(racks or {}).get(each), is_fenced=each in fenced) for each in ids]


def _first(_bound):
    return 0


def test_partitions_are_striped_over_the_brokers():
    """Each partition begins one broker further: leaders take turns, followers too."""
    assert place_replicas(_brokers(0, 1, 2, 3), 4, 2, _first) == [(0, 1), (1, 2), (2, 3), (3, 0)]


def test_the_start_is_left_to_chance():
    """The random number shifts the whole stripe."""
    assert place_replicas(_brokers(0, 1, 2), 1, 1, lambda bound: bound - 1) == [(2,)]


def test_replicas_of_a_partition_lie_in_different_racks():
    """Two racks of two brokers: leader and follower never share one."""
    racks = {0: "a", 1: "a", 2: "b", 3: "b"}
    for replicas in place_replicas(_brokers(0, 1, 2, 3, racks=racks), 4, 2, _first):
        assert len({racks[replica] for replica in replicas}) == 2


def test_a_fenced_broker_may_follow_but_never_leads():
    """It comes last, and only where its place is needed."""
    placed = place_replicas(_brokers(0, 1, 2, fenced=(0,)), 6, 3, _first)
    assert all(replicas[0] != 0 and replicas[-1] == 0 for replicas in placed)
    assert all(0 not in replicas for replicas in place_replicas(_brokers(0, 1, 2, fenced=(0,)), 6, 2, _first))


@pytest.mark.parametrize(
    ("brokers", "factor", "sentence"),
    [
        (
            _brokers(1),
            3,
            (
                "The target replication factor of 3 cannot be reached because only 1 broker(s) are registered "
                "or some brokers have all their log directories cordoned."
            ),
        ),
        (_brokers(1, fenced=(1,)), 1, "All brokers are currently fenced, or have all their log directories cordoned."),
        ([], 1, "All brokers are currently fenced, or have all their log directories cordoned."),
        (_brokers(1), 0, "Invalid replication factor 0: the replication factor must be positive."),
    ],
)
def test_a_factor_that_cannot_be_reached_is_refused(brokers, factor, sentence):
    """INVALID_REPLICATION_FACTOR with Kafka's sentence."""
    with pytest.raises(KafkaError) as caught:
        place_replicas(brokers, 1, factor, _first)
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_REPLICATION_FACTOR, sentence)


@given(
    st.integers(1, 9).flatmap(lambda count: st.tuples(st.just(count), st.integers(1, count))),
    st.integers(1, 60),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_replicas_differ_and_leaderships_are_even(shape, partitions, rack_count, random):
    """No random draw puts a broker twice into a partition, and without racks leaderships differ by at most one."""
    broker_count, factor = shape
    for racks in ({}, {each: str(each % rack_count) for each in range(broker_count)}):
        placed = place_replicas(_brokers(*range(broker_count), racks=racks), partitions, factor, random.randrange)
        assert len(placed) == partitions
        assert all(len(set(replicas)) == factor for replicas in placed)
        leaders = Counter(replicas[0] for replicas in placed)
        if not racks:
            assert max(leaders.values()) - min(leaders[each] for each in range(broker_count)) <= 1
