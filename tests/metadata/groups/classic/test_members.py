"""Members of a classic group by themselves."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.groups.classic.members import ClassicMember, ClassicMembers
from stratalog.wire.errors import KafkaError

PROTOCOLS = st.lists(st.sampled_from(["range", "roundrobin", "sticky"]), min_size=1, unique=True)


def member(member_id, *protocols, instance_id=None, rebalance_timeout_ms=1):
    return ClassicMember(
        member_id=member_id,
        instance_id=instance_id,
        rebalance_timeout_ms=rebalance_timeout_ms,
        session_timeout_ms=1,
        protocols=dict.fromkeys(protocols or ("range",), b""),
    )


def members(*ones):
    group = ClassicMembers()
    for one in ones:
        group.add(one)
    return group


def test_the_protocol_is_chosen_by_votes():
    """[range, roundrobin], [roundrobin, range] twice: roundrobin."""
    group = members(
        member("a", "range", "roundrobin"), member("b", "roundrobin", "range"), member("c", "roundrobin", "range")
    )
    assert group.chosen_protocol() == "roundrobin"


def test_a_protocol_that_one_does_not_support_is_no_candidate():
    """Two of three members like the protocol best; the one that all support is chosen."""
    group = members(member("a", "sticky", "range"), member("b", "sticky", "range"), member("c", "range"))
    assert group.chosen_protocol() == "range"
    assert not group.supports_any({"sticky": b""})


@given(st.lists(PROTOCOLS, min_size=1, max_size=5))
def test_the_vote_against_a_plain_count(lists):
    """Each member votes for its first protocol that all have; the most votes win."""
    group = members(*(member(str(number), *names) for number, names in enumerate(lists)))
    common = set.intersection(*map(set, lists))
    for name in ("range", "roundrobin", "sticky"):
        assert group.supports_any({name: b""}) == (name in common)
    if common:
        votes = Counter(next(name for name in names if name in common) for names in lists)
        assert votes[group.chosen_protocol()] == max(votes.values())


def test_the_first_leads_and_is_replaced():
    """When the leader goes another leads, at the end none."""
    group = members(member("a"), member("b"))
    assert group.leader_id == "a"
    group.remove("a")
    assert group.leader_id == "b"
    group.remove("b")
    assert group.leader_id is None


def test_a_leader_that_has_joined():
    """A leader that has not joined gives way to a member that has; if there is none, none is elected."""
    group = members(member("a"), member("b"))
    assert not group.elect_joined_leader()
    group.await_join(group.by_id["b"], "token", 5)
    assert group.elect_joined_leader()
    assert group.leader_id == "b"
    assert not ClassicMembers().elect_joined_leader()


def test_waiting_members_are_counted():
    """A second JoinGroup of the same member takes the place of the first."""
    group = members(member("a"), member("b"))
    assert group.await_join(group.by_id["a"], 1, 5) is None
    assert group.await_join(group.by_id["a"], 2, 5) == 1
    assert (group.joined, group.all_joined) == (1, False)
    group.await_join(group.by_id["b"], 3, 5)
    assert group.all_joined
    assert group.take_join(group.by_id["a"]) == 2
    assert group.take_join(group.by_id["a"]) is None
    assert group.joined == 1


def test_a_static_member_is_renamed_in_its_place():
    """It keeps order, leadership and instance id."""
    group = members(member("a", instance_id="i"), member("b"))
    group.rename(group.by_id["a"], "z")
    assert list(group.by_id) == ["z", "b"]
    assert (group.leader_id, group.static_ids) == ("z", {"i": "z"})
    assert group.check("z", "i").member_id == "z"


@pytest.mark.parametrize(
    ("member_id", "instance_id", "code"),
    [("b", "i", "FENCED_INSTANCE_ID"), ("a", "j", "UNKNOWN_MEMBER_ID"), ("c", None, "UNKNOWN_MEMBER_ID")],
)
def test_requests_of_unknown_members(member_id, instance_id, code):
    """An instance that another process has become is fenced, anybody else unknown."""
    group = members(member("a", instance_id="i"), member("b"))
    with pytest.raises(KafkaError, match=code):
        group.check(member_id, instance_id)


def test_the_longest_rebalance_timeout():
    """The longest of all members; 0 without any."""
    assert members(member("a"), member("b", rebalance_timeout_ms=7)).rebalance_timeout_ms == 7
    assert ClassicMembers().rebalance_timeout_ms == 0


def test_the_same_protocols():
    """The order is part of what a member says."""
    one = member("a", "range", "sticky")
    assert one.matches({"range": b"", "sticky": b""})
    assert not one.matches({"sticky": b"", "range": b""})
    assert not one.matches({"range": b"", "sticky": b"x"})


def test_the_bytes_that_are_kept_are_counted():
    """Subscriptions and assignments, until they change or the member goes."""
    one, other = member("a", "range"), member("b", "range", instance_id="i")
    group = members(one, other)
    empty = group.held_bytes
    group.support(one, {"range": bytes(1_000)})
    group.assign(other, bytes(500))
    assert group.held_bytes == empty + 1_500
    group.support(one, {"range": bytes(10)})
    group.rename(other, "c")
    group.assign(other, bytes(100))
    assert group.held_bytes == empty + 110
    group.remove("a")
    group.remove("c")
    assert group.held_bytes == 0
