"""A broker's copies, leader by leader."""

import time
from types import SimpleNamespace

import pytest
from msgspec import structs

from stratalog.broker.replication.replication import Replication, ReplicationServices
from tests.broker.replication.stand_ins import Links, Role


@pytest.fixture
def links():
    """The ways to all leaders."""
    return Links()


@pytest.fixture
def replication(links):
    """The copies of broker 2."""
    settings = {
        "replica.socket.timeout.ms": 1000,
        "replica.fetch.wait.max.ms": 500,
        "replica.fetch.min.bytes": 1,
        "replica.fetch.response.max.bytes": 100,
        "replica.fetch.max.bytes": 10,
        "replica.fetch.backoff.ms": 1000,
    }
    asking = SimpleNamespace(close=lambda: None)
    services = ReplicationServices(
        config=lambda: SimpleNamespace(node_id=2, integer=settings.__getitem__),
        links=links,
        asking=asking,
        leader_ends=links,
        broker_epoch=lambda: 40,
        monotonic=time.monotonic,
        draw=lambda: 0.0,
        leader_throttle=None,
        follower_throttle=None,
    )
    return Replication(services)


async def test_each_leader_has_requests_of_its_own(replication, links):
    """One that is slow holds up no other; sizes and times are the settings'."""
    for role in (Role(0, leader_id=7), Role(1, leader_id=8)):
        replication.follow(role)
    assert [broker_id for broker_id, _, _ in links.asked] == [7, 8]
    request = links.fetches()[0]
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 100)
    assert request.topics[0].partitions[0].partition_max_bytes == 100  # the only one of its leader


async def test_a_partition_that_moves_is_copied_from_one_leader(replication):
    """The former one's requests do not name it any more; released, it is copied from none."""
    first, second = Role(0, leader_id=7), Role(0, leader_id=8, epoch=6)
    replication.follow(first)
    replication.follow(second)
    assert [len(fetcher) for fetcher in replication._fetchers.values()] == [0, 1]
    replication.release(second.key)
    replication.release(second.key)
    assert [len(fetcher) for fetcher in replication._fetchers.values()] == [0, 0]


async def test_copies_from_every_leader_go_on_under_another_registration(replication, links):
    """An idle one would be known under the old one for ever."""
    epoch = [-1]
    replication._services = structs.replace(replication._services, broker_epoch=lambda: epoch[0])
    for role in (Role(0, leader_id=7), Role(1, leader_id=8)):
        replication.follow(role)
    assert links.asked == []
    epoch[0] = 77
    replication.registered(77)
    assert [(broker_id, one.replica_state.replica_epoch) for broker_id, one, _ in links.asked] == [(7, 77), (8, 77)]


async def test_links_follow_addresses_and_end_with_the_broker(replication, links):
    """A fetch after the end is not sent."""
    replication.image_applied()
    replication.close()
    assert (links.followed, links.closed) == (2, 2)  # those of copies, and of questions about ends
