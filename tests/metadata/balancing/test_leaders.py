"""Leaders are evened out by the order of replicas, as far as that goes."""

from collections import Counter
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.balancing.leaders import even_leaders
from stratalog.wire.topic import TopicPartition

BROKERS = (1, 2, 3, 4)


@st.composite
def placements(draw):
    """A few partitions on up to four brokers."""
    orders = st.tuples(st.permutations(BROKERS), st.integers(1, 3)).map(lambda shape: tuple(shape[0][: shape[1]]))
    return {TopicPartition("t", number): held for number, held in enumerate(draw(st.lists(orders, max_size=6)))}


def spread(leaders):
    counts = Counter(dict.fromkeys(BROKERS, 0))
    counts.update(leaders)
    return sum(count * count for count in counts.values())


@given(placements())
def test_no_choice_of_leaders_is_more_even(replicas):
    """Compared with every choice there is. Only the first place changes."""
    found = even_leaders(replicas, BROKERS)
    best = min(spread(leaders) for leaders in product(*replicas.values())) if replicas else 0
    assert not replicas or spread(held[0] for held in found.values()) == best
    for one, held in found.items():
        assert sorted(held) == sorted(replicas[one])
        assert [broker for broker in replicas[one] if broker != held[0]] == list(held[1:])
    assert even_leaders(found, BROKERS) == found


def test_leaderships_go_over_a_third_broker():
    """1 gives one to 2, and 2 one to 3, which holds nothing of 1's."""
    held = [(1, 2), (1, 2), (2, 3)]
    replicas = {TopicPartition("t", number): each for number, each in enumerate(held)}
    found = even_leaders(replicas, BROKERS[:3])
    assert Counter(each[0] for each in found.values()) == {1: 1, 2: 1, 3: 1}


def test_only_the_given_partitions_and_brokers_change():
    """A broker that is away neither gives nor takes a leadership."""
    replicas = {TopicPartition("t", number): (1, 2, 3) for number in range(6)}
    changed = {TopicPartition("t", 5)}
    found = even_leaders(replicas, BROKERS, within=changed)
    assert {one for one, held in found.items() if held != replicas[one]} == changed
    assert even_leaders(replicas, (2, 3)) == replicas
