"""Plans of moves, over random clusters: what has to hold of every plan, whatever the brokers, racks and sizes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.balancing.replica_planner import Placed, plan_moves
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

KB = 1024


@st.composite
def clusters(draw, with_racks=True):
    """Racks by broker, partitions that lie as they happen to, and brokers that leave; enough stay for every partition."""
    brokers = list(range(1, draw(st.integers(2, 7)) + 1))
    names = st.sampled_from(["a", "b", "c", None]) if with_racks else st.none()
    racks = {broker: draw(names) for broker in brokers}
    leaving = draw(st.sets(st.sampled_from(brokers), max_size=len(brokers) - 1))
    widest = len(brokers) - len(leaving)
    shapes = st.tuples(st.permutations(brokers), st.integers(1, widest), st.integers(0, 9))
    placed = {
        TopicPartition("t", number): Placed(tuple(order[:factor]), size * KB)
        for number, (order, factor, size) in enumerate(draw(st.lists(shapes, max_size=25)))
    }
    return placed, racks, leaving


def after(partitions, moves):
    return {one: moves.get(one, placed.replicas) for one, placed in partitions.items()}


def counted(replicas, brokers):
    counts = Counter(dict.fromkeys(brokers, 0))
    counts.update(broker for held in replicas.values() for broker in held if broker in counts)
    return counts


def rack_count(replicas, racks):
    return len({racks[broker] for broker in replicas})


@given(clusters(), st.booleans(), st.data())
def test_partitions_get_as_many_replicas_as_they_are_to_have(cluster, spread, data):
    """Those that are named; racks are kept apart, brokers that leave hold none, and a leader that stays is not taken away."""
    partitions, racks, leaving = cluster
    receivers = set(racks) - leaving
    wanted = st.sampled_from([None, *range(1, len(receivers) + 1)])
    factors = {one: factor for one in partitions if (factor := data.draw(wanted)) is not None}
    moves = plan_moves(partitions, racks, receivers=receivers, leaving=leaving, spread=spread, factors=factors)
    open_racks = len({racks[broker] for broker in receivers})
    for one, replicas in after(partitions, moves).items():
        before = partitions[one].replicas
        assert len(set(replicas)) == len(replicas) == factors.get(one, len(before))
        assert not leaving.intersection(replicas)
        assert rack_count(replicas, racks) >= min(rack_count(before, racks), open_racks, len(replicas))
        if not spread and before[0] not in leaving:
            assert before[0] in replicas
        if not leaving.intersection(before) and one in factors and not spread:
            assert set(before) <= set(replicas) or set(replicas) <= set(before)
    if spread and len(set(racks.values())) == 1:
        counts = counted(after(partitions, moves), receivers).values()
        assert max(counts) - min(counts) <= 1


def test_a_rack_is_kept_when_its_only_replica_leaves_and_one_less_is_wanted():
    """Taking the leaving replica away alone would leave both others in one rack."""
    one = TopicPartition("t", 0)
    racks = {1: "a", 2: "b", 3: "a", 4: "b"}
    moves = plan_moves(
        {one: Placed((1, 2, 3))}, racks, receivers={1, 3, 4}, leaving={2}, spread=False, factors={one: 2}
    )
    assert set(moves[one]) == {1, 4}


@pytest.mark.parametrize("factor", [1, 2])
def test_fewer_replicas_are_those_of_brokers_that_are_there(factor):
    """The move would wait for a broker that is away, which may be gone for good; also where that one is the preferred leader."""
    partitions = {TopicPartition("t", n): Placed(held) for n, held in enumerate(((1, 2, 3), (2, 3, 1), (3, 1, 2)))}
    moves = plan_moves(
        partitions, dict.fromkeys((1, 2, 3)), receivers={1, 2}, factors=dict.fromkeys(partitions, factor)
    )
    assert all(len(target) == factor and 3 not in target for target in moves.values())
    assert len(moves) == 3


def test_more_replicas_than_brokers_are_refused():
    """With the partition and the number of brokers."""
    with pytest.raises(Invalid, match="t-0 cannot have 3 replicas: there are 2 brokers to hold them"):
        plan_moves(
            {TopicPartition("t", 0): Placed((1,))},
            {1: None, 2: None},
            receivers={1, 2},
            factors={TopicPartition("t", 0): 3},
        )


@given(clusters(), st.booleans())
def test_every_plan_keeps_what_has_to_hold(cluster, spread):
    """No two replicas on a broker, as many as before, none on a broker that leaves, racks apart at least as before."""
    partitions, racks, leaving = cluster
    receivers = set(racks) - leaving
    moves = plan_moves(partitions, racks, receivers=receivers, leaving=leaving, spread=spread)
    open_racks = len({racks[broker] for broker in receivers})
    for one, replicas in after(partitions, moves).items():
        before = partitions[one].replicas
        assert len(set(replicas)) == len(replicas) == len(before)
        assert not leaving.intersection(replicas)
        assert rack_count(replicas, racks) >= min(rack_count(before, racks), open_racks)
    assert all(target != partitions[one].replicas for one, target in moves.items())
    assert not plan_moves(
        {one: Placed(replicas) for one, replicas in after(partitions, moves).items()},
        racks, receivers=receivers, leaving=leaving, spread=spread,
    ), "a plan that was carried out leaves nothing to do"  # fmt: skip


@given(clusters(with_racks=False))
def test_without_racks_replicas_end_within_one(cluster):
    """On all brokers that stay."""
    partitions, racks, leaving = cluster
    receivers = set(racks) - leaving
    moves = plan_moves(partitions, racks, receivers=receivers, leaving=leaving)
    counts = counted(after(partitions, moves), receivers)
    assert max(counts.values()) - min(counts.values()) <= 1


@given(clusters())
def test_replicas_of_a_rack_end_within_one(cluster):
    """Its brokers can stand in for each other; and each partition is in as many racks as it can be."""
    partitions, racks, leaving = cluster
    receivers = set(racks) - leaving
    planned = after(partitions, plan_moves(partitions, racks, receivers=receivers, leaving=leaving))
    counts = counted(planned, receivers)
    for rack in set(racks.values()):
        those = [counts[broker] for broker in receivers if racks[broker] == rack]
        assert not those or max(those) - min(those) <= 1
    open_racks = len({racks[broker] for broker in receivers})
    assert all(rack_count(replicas, racks) == min(len(replicas), open_racks) for replicas in planned.values())


@given(clusters())
def test_a_decommission_moves_only_what_is_on_the_brokers_that_leave(cluster):
    """Every other replica stays where it is."""
    partitions, racks, leaving = cluster
    moves = plan_moves(partitions, racks, receivers=set(racks) - leaving, leaving=leaving, spread=False)
    for one, target in moves.items():
        assert set(partitions[one].replicas) - set(target) == leaving.intersection(partitions[one].replicas) != set()


def test_the_smallest_replicas_go_and_no_more_than_needed():
    """A fourth broker takes its share; a broker that is away neither gives nor takes."""
    partitions = {TopicPartition("t", number): Placed((1, 2, 3), (9 - number) * KB) for number in range(8)}
    racks = dict.fromkeys((1, 2, 3, 4, 5))
    moves = plan_moves(partitions, racks, receivers=(1, 2, 3, 4))
    gained = [one.partition for one, target in moves.items() if 4 in target]
    assert sorted(gained) == [2, 3, 4, 5, 6, 7]
    assert counted(after(partitions, moves), racks) == {1: 6, 2: 6, 3: 6, 4: 6, 5: 0}
    away = {TopicPartition("u", 0): Placed((5, 1)), TopicPartition("u", 1): Placed((5, 2))}
    assert all(5 in target for target in plan_moves(away, racks, receivers=(1, 2, 3, 4)).values())


def test_too_few_brokers_are_refused_with_the_partition():
    """Before anything moves."""
    partitions = {TopicPartition("t", 3): Placed((1, 2, 3))}
    with pytest.raises(Invalid, match="t-3 has 3 replicas, which is more than there are brokers"):
        plan_moves(partitions, dict.fromkeys((1, 2, 3)), receivers=(1, 2), leaving=(3,))


def test_a_plan_for_many_partitions_takes_a_moment():
    """5,000 of three replicas, from four brokers to six."""
    partitions = {TopicPartition("t", n): Placed(tuple((n + k) % 4 for k in range(3)), n % 97) for n in range(5000)}
    moves = plan_moves(partitions, {n: f"r{n % 3}" for n in range(6)}, receivers=range(6))
    counts = counted(after(partitions, moves), range(6))
    assert max(counts.values()) - min(counts.values()) <= 1
