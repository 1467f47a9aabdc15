"""Consumers and the replica near them: who is sent where, and what a follower answers."""

from types import MappingProxyType, SimpleNamespace

import pytest

from stratalog.broker.fetches.preferred_replica import (
    check_reader_epoch,
    check_reads_here,
    elsewhere,
    follower_in_rack,
    preferred_replica,
)
from stratalog.hot.replica_state import ReplicaState
from stratalog.metadata.image.brokers_image import BrokerImage, ListenerAddress
from stratalog.metadata.settings.catalogue.replication import LEADER_SELECTOR, RACK_AWARE_SELECTOR
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.fetch import FetchPartition

LEADER, NEAR, OTHER_NEAR, FAR = 1, 2, 3, 4
LISTENER = "PLAINTEXT"


def broker(broker_id, rack, *, fenced=False, listener=LISTENER):
    return BrokerImage(
        broker_id=broker_id,
        epoch=9,
        incarnation_id=b"i" * 16,
        listeners=MappingProxyType({listener: ListenerAddress("h", 1)}),
        rack=rack,
        is_fenced=fenced,
    )


def brokers(**changes):
    """A leader in rack a, two followers in b, one in c."""
    racks = {LEADER: "a", NEAR: "b", OTHER_NEAR: "b", FAR: "c"}
    found = {one: broker(one, rack, **changes.get(f"of_{one}", {})) for one, rack in racks.items()}
    return SimpleNamespace(brokers=found)


def state(in_sync=(LEADER, NEAR, OTHER_NEAR, FAR), **fetched):
    """A leader whose log ends at 100; followers have fetched 100, log start 10, unless ``fetched`` has others."""
    one = ReplicaState(
        LEADER,
        replicas=(LEADER, NEAR, OTHER_NEAR, FAR),
        in_sync=in_sync,
        leader_epoch=5,
        epoch_start_offset=0,
        leader_end_offset=100,
    )
    for number in (NEAR, OTHER_NEAR, FAR):
        offset, start, now_ms = fetched.get(f"of_{number}", (100, 10, 7))
        if offset >= 0:
            one.follower_fetched(number, offset, leader_log_end_offset=100, now_ms=now_ms, log_start_offset=start)
    return one


def chosen(one, offset=50, rack="b", **changes):
    return follower_in_rack(one, offset, rack, brokers(**changes), listener=LISTENER)


def test_the_one_furthest_on_in_the_rack_is_taken():
    """Then the one that caught up last, then the one with the larger id; Kafka's order."""
    assert chosen(state(of_2=(100, 10, 7), of_3=(90, 10, 9))) == NEAR
    assert chosen(state(of_2=(100, 10, 9), of_3=(100, 10, 7))) == NEAR
    assert chosen(state()) == OTHER_NEAR
    assert chosen(state(), rack="c") == FAR


@pytest.mark.parametrize(
    ("one", "offset", "changes"),
    [
        (state(in_sync=(LEADER, FAR)), 50, {}),
        (state(of_2=(49, 10, 7), of_3=(49, 10, 7)), 50, {}),
        (state(of_2=(100, 51, 7), of_3=(100, 51, 7)), 50, {}),
        (state(of_2=(-1, 0, 0), of_3=(-1, 0, 0)), 0, {}),
        (state(), 50, {"of_2": {"fenced": True}, "of_3": {"listener": "INTERNAL"}}),
    ],
    ids=["out of sync", "without the offset", "deleted there", "never fetched", "out of reach"],
)
def test_a_replica_that_cannot_serve_the_offset_is_not_named(one, offset, changes):
    """The same holds for one of another rack, or without one."""
    assert chosen(one, offset, **changes) is None
    assert chosen(state(), 50, "z") is None


def test_the_borders_of_a_replica_belong_to_it():
    """Its first offset, and its end, where it waits."""
    near = state(in_sync=(LEADER, NEAR))
    assert [chosen(near, offset) for offset in (9, 10, 100, 101)] == [None, NEAR, NEAR, None]


def unified(remote=None, leader=True, **log):
    ends = {"log_start_offset": 10, "local_log_start_offset": 10, "log_end_offset": 100, **log}
    role = SimpleNamespace(state=state()) if leader else None

    def check(_epoch):
        if role is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    partition = SimpleNamespace(leader=role, check_leader_epoch=check, check_reader_epoch=lambda _epoch: None)
    return SimpleNamespace(partition=partition, remote=remote, log=SimpleNamespace(**ends), topic_partition="t-0")


def wanted(offset, epoch=-1):
    """A consumer's wish."""
    return FetchPartition(partition=0, partition_max_bytes=1, fetch_offset=offset, current_leader_epoch=epoch)


def test_archived_offsets_are_read_at_the_leader():
    """A follower's disk may begin where the archive ends; until that is known nothing is sent there."""
    archive = SimpleNamespace(known=True, end_offset=60)
    places = [
        preferred_replica(unified(archive), offset, "b", brokers(), listener=LISTENER) for offset in (59, 60, 100)
    ]
    assert places == [None, OTHER_NEAR, OTHER_NEAR]
    archive.known = False
    assert preferred_replica(unified(archive), 60, "b", brokers(), listener=LISTENER) is None
    assert preferred_replica(unified(leader=False), 60, "b", brokers(), listener=LISTENER) is None


@pytest.mark.parametrize(
    ("rack", "version", "selector", "sent"),
    [
        ("b", 11, RACK_AWARE_SELECTOR, True),
        ("b", 10, RACK_AWARE_SELECTOR, False),
        ("", 18, RACK_AWARE_SELECTOR, False),
        ("a", 18, RACK_AWARE_SELECTOR, False),
        ("b", 18, LEADER_SELECTOR, False),
        ("b", 18, None, False),
    ],
)
def test_only_the_selector_of_racks_sends_consumers_away(rack, version, selector, sent):
    """Those of another rack than the leader's, which understand it."""
    config = SimpleNamespace(rack="a", text={"replica.selector.class": selector}.get)
    find = elsewhere(SimpleNamespace(config=config, image=SimpleNamespace(brokers=brokers())), rack, LISTENER, version)
    assert (find is not None) == sent
    if find is not None:
        assert find(unified(), 50) == OTHER_NEAR


def test_a_client_that_knows_nothing_of_followers_is_not_served_by_one():
    """Version 11 brought them."""
    follower = unified(leader=False).partition
    with pytest.raises(KafkaError) as refused:
        check_reader_epoch(follower, 5, 10)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    check_reader_epoch(follower, 5, 11)


@pytest.mark.parametrize(
    ("epoch", "code"), [(5, ErrorCode.OFFSET_OUT_OF_RANGE), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
)
def test_a_follower_sends_readers_of_the_archive_back(epoch, code):
    """One that may take it for the leader must not begin anew elsewhere."""
    follower = unified(leader=False, local_log_start_offset=40)
    for offset in (10, 39):
        with pytest.raises(KafkaError) as refused:
            check_reads_here(follower, wanted(offset, epoch), 18, lambda: True)
        assert refused.value.code is code
    check_reads_here(follower, wanted(40, epoch), 18, lambda: True)
    check_reads_here(unified(local_log_start_offset=40), wanted(10, epoch), 18, lambda: True)


def test_a_leader_out_of_contact_sends_readers_of_what_it_lacks_away():
    """It may have a successor: OFFSET_OUT_OF_RANGE would have a consumer of that one's log begin anew."""
    leader = unified()
    end = leader.log.log_end_offset
    with pytest.raises(KafkaError) as refused:
        check_reads_here(leader, wanted(end + 1), 18, lambda: False)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert "another one may lead" in str(refused.value)
    check_reads_here(leader, wanted(end), 18, lambda: False)
    check_reads_here(leader, wanted(end + 1), 18, lambda: True)
    leader.partition.leader.state = SimpleNamespace(has_followers=False)
    check_reads_here(leader, wanted(end + 1), 18, lambda: False)  # it has no other replica


def test_a_follower_that_lags_has_no_reader_begin_anew():
    """It may have led with a longer log: one that tells no epoch takes it for the leader still; one that was sent here goes back."""
    follower = unified(leader=False, local_log_start_offset=0)
    end = follower.log.log_end_offset
    with pytest.raises(KafkaError) as refused:
        check_reads_here(follower, wanted(end + 1, -1), 11, lambda: True)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    check_reads_here(follower, wanted(end, -1), 11, lambda: True)
    check_reads_here(follower, wanted(end + 1, 5), 11, lambda: True)  # the log says OFFSET_OUT_OF_RANGE
