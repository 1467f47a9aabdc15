"""The fetches of a broker that registers anew in the middle of a session (KIP-903)."""

from math import inf

from stratalog.broker.replication.fetching_events import Failed, Followed, Refused, Taken, Ticked
from stratalog.wire.messages.fetch import FetchResponse
from tests.broker.replication.stand_ins import Links, Role, turns
from tests.broker.replication.test_fetching import answer, at, data, following, key, machine, named, request_of
from tests.broker.replication.test_leader_fetcher import fetcher_of


def registered_as(request):
    return request.replica_state.replica_epoch


def test_every_partition_is_named_again_under_another_registration():
    """Else the leader knows an idle copy under the old one for ever, and the controller never lets it in."""
    one, request = following(0, 1)
    assert (named(request), registered_as(request)) == ({}, 40)
    one.broker_epoch = 77
    request = request_of(one.step(answer(), 10))
    assert named(request) == {0: 0, 1: 0}
    assert (request.session_id, request.session_epoch, registered_as(request)) == (0, 0, 77)


def test_an_answer_to_a_request_of_an_earlier_registration_is_dropped():
    """With its session: that one counts under the registration that began it. So is a failure, but for its pause."""
    one, _ = following(0)
    one.broker_epoch = 77
    assert one.step(Ticked(), 5) == []
    actions = one.step(answer(data(0, records=b"abc")), 10)
    assert len(actions) == 1
    assert named(request_of(actions)) == {0: 0}
    one.broker_epoch = 78
    assert one.step(Failed(), 20) == []
    request = request_of(one.step(Ticked(), one.wake_at_ms))
    assert (named(request), registered_as(request), request.session_id) == ({0: 0}, 78, 0)
    assert request_of(one.step(answer(), 100)).session_id == 77  # answers count again


def test_copies_wait_for_a_registration_and_go_on_with_it():
    """An image may give a copy its role before the answer to the registration: it would stand under -1 for ever."""
    one = machine()
    one.broker_epoch = -1
    assert one.step(Followed(key(), 5, at(3)), 0) == []
    assert one.wake_at_ms == inf
    one.broker_epoch = 77
    request = request_of(one.step(Ticked(), 5))
    assert (named(request), registered_as(request)) == ({0: 3}, 77)


def test_a_copy_that_rests_wakes_no_one_without_a_registration():
    """The loop would turn for nothing until there is one."""
    one, _ = following(0)
    one.step(answer(data(0, records=b"abc")), 10)
    one.broker_epoch = -1
    assert one.step(Refused(key(), 5, at(0)), 11) == []
    assert one.wake_at_ms == inf
    assert one.step(Ticked(), 5000) == []
    one.broker_epoch = 77
    assert named(request_of(one.step(Ticked(), 6000))) == {0: 0}


def test_a_copy_that_has_grown_meanwhile_is_named_from_its_end():
    """The log has it, whatever the registration under which it was asked for."""
    one, _ = following(0)
    one.step(answer(data(0, records=b"abc")), 10)
    one.broker_epoch = 77
    assert named(request_of(one.step(Taken(key(), 5, at(3)), 11))) == {0: 3}


async def test_the_driver_goes_on_when_it_hears_of_the_registration():
    """A broker that waits for its registration copies again as soon as it has one."""
    links, epoch = Links(), [-1]
    fetcher, role = fetcher_of(links, broker_epoch=lambda: epoch[0]), Role()
    fetcher.follow(role.key, role)
    await turns()
    assert links.asked == []
    epoch[0] = 77
    fetcher.registered()
    assert [registered_as(request) for request in links.fetches()] == [77]
    links.newest()[2].set_result(FetchResponse(session_id=9, responses=[]))
    await turns()
    assert [request.session_id for request in links.fetches()] == [0, 9]
