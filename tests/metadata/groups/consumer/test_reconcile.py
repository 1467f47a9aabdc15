"""The steps of a member towards its target."""

import pytest

from stratalog.metadata.groups.consumer.member import ConsumerMember, MemberState
from stratalog.metadata.groups.consumer.reconcile import Reconciliation

A, B = b"a" * 16, b"b" * 16
STABLE, UNREVOKED, UNRELEASED = list(MemberState)[:3]


def _member(epoch, assigned=None, revoking=None, state=STABLE):
    return ConsumerMember("x", epoch=epoch, state=state, assigned=assigned or {}, revoking=revoking or {})


def _step(member, target, *, epoch=5, owned=None, owners=(), subscribed=(A, B)):
    held = dict(owners)
    target = {topic: frozenset(partitions) for topic, partitions in target.items()}
    return Reconciliation(epoch, target, frozenset(subscribed), lambda *one: held.get(one), owned).step(member)


def test_a_member_at_its_target_stays_as_it_is():
    """A stable member in the epoch of its target stays the very object it was."""
    member = _member(5, {A: {0: 3}})
    assert _step(member, {A: {0}}) is member


def test_free_partitions_are_given():
    """Free partitions are given, in the epoch of the target; partitions
    that the member has keep the epoch that they have.
    """
    after = _step(_member(4, {A: {0: 3}}), {A: {0, 1}, B: {2}})
    assert (after.epoch, after.previous_epoch, after.state) == (5, 4, STABLE)
    assert after.assigned == {A: {0: 3, 1: 5}, B: {2: 5}}


def test_first_give_up():
    """Partitions that are to go keep the member in its epoch; it is given nothing new meanwhile."""
    after = _step(_member(4, {A: {0: 3, 1: 3}}), {A: {1, 2}})
    assert (after.epoch, after.state) == (4, UNREVOKED)
    assert after.assigned == {A: {1: 3}}
    assert after.revoking == {A: {0: 3}}


def test_given_up_already():
    """Partitions that the member says it does not own need not be given up."""
    after = _step(_member(4, {A: {0: 3, 1: 3}}), {A: {1, 2}}, owned={A: {1}})
    assert (after.epoch, after.state, after.assigned, after.revoking) == (5, STABLE, {A: {1: 3, 2: 5}}, {})


@pytest.mark.parametrize("owned", [None, {A: {0, 1}}])
def test_a_member_waits_until_it_has_given_partitions_up(owned):
    """As long as the member does not say that it has given them up, it waits."""
    member = _member(4, {A: {1: 3}}, {A: {0: 3}}, UNREVOKED)
    assert _step(member, {A: {1, 2}}, owned=owned, owners={(A, 0): "x"}.items()) is member


def test_partitions_to_give_up_may_stay():
    """A partition that a newer target gives back is kept, in the epoch in which it was given."""
    member = _member(4, {A: {1: 3}}, {A: {0: 3}}, UNREVOKED)
    after = _step(member, {A: {0, 1}}, owned={A: {1}}, owners={(A, 0): "x", (A, 1): "x"}.items())
    assert (after.epoch, after.state, after.revoking) == (5, STABLE, {})
    assert after.assigned == {A: {0: 3, 1: 3}}


def test_waits_for_others():
    """Partitions that another holds are waited for, in the new epoch and with all the rest."""
    after = _step(_member(4), {A: {0, 1}}, owners={(A, 1): "y"}.items())
    assert (after.epoch, after.state, after.assigned) == (5, UNRELEASED, {A: {0: 5}})
    assert _step(after, {A: {0, 1}}, owners={(A, 0): "x", (A, 1): "y"}.items()) is after
    done = _step(after, {A: {0, 1}}, owners={(A, 0): "x"}.items())
    assert (done.epoch, done.state, done.assigned) == (5, STABLE, {A: {0: 5, 1: 5}})


def test_a_member_that_waits_for_all_its_partitions_changes_epoch():
    """A member whose whole target is held by others goes to the epoch all the same."""
    after = _step(_member(4), {A: {1}}, owners={(A, 1): "y"}.items())
    assert (after.epoch, after.state, after.assigned) == (5, UNRELEASED, {})


def test_partitions_of_an_unsubscribed_topic_go_at_once():
    """Topics that are no longer subscribed to go at once, even in the epoch of the target."""
    after = _step(_member(5, {A: {0: 3}, B: {1: 3}}), {A: {0}, B: {1}}, subscribed=[B])
    assert (after.epoch, after.state, after.assigned, after.revoking) == (5, UNREVOKED, {B: {1: 3}}, {A: {0: 3}})
    gone = _step(_member(5, {A: {0: 3}, B: {1: 3}}), {A: {0}, B: {1}}, subscribed=[B], owned={B: {1}})
    assert (gone.state, gone.assigned, gone.revoking) == (STABLE, {B: {1: 3}}, {})
    more = _step(after, {A: {0}, B: {1}}, subscribed=[], owned={A: {0}, B: {1}})
    assert (more.assigned, more.revoking) == ({}, {A: {0: 3}, B: {1: 3}})


def test_unsubscribed_topic_is_not_given():
    """A target that is older than the subscription gives nothing of what is no longer wanted."""
    assert _step(_member(4), {A: {0}, B: {0}}, subscribed=[B]).assigned == {B: {0: 5}}


def test_an_unknown_state_is_left_for_the_target():
    """A state of a later Kafka is left by going to the target."""
    assert _step(_member(3, state=MemberState.UNKNOWN), {A: {0}}, owned={}).state is STABLE
