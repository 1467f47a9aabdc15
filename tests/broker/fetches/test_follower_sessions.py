"""The sessions of followers, which registrations of their brokers end (KIP-903)."""

from types import SimpleNamespace

import pytest

from stratalog.broker.fetches.fetch_sessions import FetchSessions
from stratalog.broker.runtime.clock import SystemClock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)

TOPIC = b"t" * 16
CONTEXT = SimpleNamespace(api_version=18, row=SimpleNamespace(version=18), connection=object())


@pytest.fixture
def sessions():
    """Those of a leader."""
    config = SimpleNamespace(integer=lambda _name: 10)
    return FetchSessions(config, SystemClock(), lambda _bound: 8, Metrics())


def request(broker_epoch, *, session_id=0, session_epoch=0):
    wanted = FetchPartition(partition=0, fetch_offset=5, partition_max_bytes=100)
    return FetchRequest(
        replica_state=None if broker_epoch is None else ReplicaState(replica_id=2, replica_epoch=broker_epoch),
        max_wait_ms=0,
        min_bytes=1,
        isolation_level=0,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[] if session_id else [FetchTopic(topic="", topic_id=TOPIC, partitions=[wanted])],
        forgotten_topics_data=[],
    )


def begun(sessions, broker_epoch):
    data = PartitionData(partition_index=0, high_watermark=5, records=b"")
    topics = [FetchableTopicResponse(topic="", topic_id=TOPIC, partitions=[data])]
    return sessions.begin(CONTEXT, request(broker_epoch), topics, privileged=True)


@pytest.mark.parametrize("later", [-1, 41, 77])
def test_a_session_ends_with_the_registration_that_began_it(sessions, later):
    """Its positions are of a log that may be gone: an append would have the leader count them as those of the new one."""
    session_id = begun(sessions, 40)
    with pytest.raises(KafkaError) as caught:
        sessions.resume(CONTEXT, request(later, session_id=session_id, session_epoch=1))
    assert caught.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert session_id not in sessions.cache


def test_a_late_copy_of_an_earlier_request_ends_no_session(sessions):
    """Its epoch of the session has passed, whatever it says of the registration."""
    session_id = begun(sessions, 40)
    with pytest.raises(KafkaError) as caught:
        sessions.resume(CONTEXT, request(7, session_id=session_id, session_epoch=5))
    assert caught.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert session_id in sessions.cache


@pytest.mark.parametrize("broker_epoch", [40, -1, None])
def test_a_session_goes_on_under_the_registration_that_began_it(sessions, broker_epoch):
    """Also that of a consumer, and of a follower too old to tell one."""
    session_id = begun(sessions, broker_epoch)
    session = sessions.resume(CONTEXT, request(broker_epoch, session_id=session_id, session_epoch=1))
    assert session.id == session_id
    assert session.epoch == 2
