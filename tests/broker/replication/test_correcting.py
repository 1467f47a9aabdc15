"""Followers whose position lies outside their leader's log."""

from types import SimpleNamespace

import pytest

from stratalog.broker.replication.correcting import Correcting
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.broker.replication.stand_ins import Links, Role, turns


@pytest.fixture
def outcome():
    """Hears whether a role may go on."""
    heard = SimpleNamespace(told=[])
    heard.taken = lambda role, position: heard.told.append(("taken", position.offset))
    heard.refused = lambda role, position: heard.told.append(("refused", position.offset))
    return heard


def told(offset, code=ErrorCode.NONE):
    one = ListOffsetsPartitionResponse(partition_index=0, offset=offset, error_code=code)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[one])])


async def asked(links, *offsets, code=ErrorCode.NONE):
    """The leader answers with these ends; what it was asked for."""
    wanted = []
    for offset in offsets:
        await turns()
        _, request, future = links.newest()
        wanted.append(request.topics[0].partitions[0].timestamp)
        assert (request.replica_id, request.topics[0].partitions[0].current_leader_epoch) == (2, 5)
        future.set_result(told(offset, code))
    await turns()
    return wanted


async def test_the_log_is_moved_into_the_leaders(outcome):
    """Its start and its end, as a replica sees them, are asked for in the role's epoch."""
    links, role = Links(), Role()
    Correcting(links, 7, local_id=2, timeout_ms=1000).begin(role, outcome, is_archived=False)
    assert await asked(links, 30, 90) == [-2, -1]
    assert (role.moved, outcome.told) == ((30, 90), [("taken", 30)])


async def test_a_leader_that_does_not_tell_is_asked_again_later(outcome, caplog):
    """It may lead no longer."""
    links, role = Links(), Role()
    Correcting(links, 7, local_id=2, timeout_ms=1000).begin(role, outcome, is_archived=False)
    await asked(links, -1, code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (role.moved, outcome.told) == (None, [("refused", 0)])
    assert "no place to go on" in caplog.text


async def test_no_replica_starts_from_the_archive(outcome, caplog):
    """In this release: the log stays as it is."""
    links, role = Links(), Role()
    Correcting(links, 7, local_id=2, timeout_ms=1000).begin(role, outcome, is_archived=True)
    await asked(links, 0, 90)
    assert (role.moved, outcome.told) == (None, [("refused", 0)])
    assert "to the archive" in caplog.text


async def test_a_broker_that_stops_corrects_nothing_more(outcome):
    """The answer comes late."""
    links, role = Links(), Role()
    correcting = Correcting(links, 7, local_id=2, timeout_ms=1000)
    correcting.begin(role, outcome, is_archived=False)
    await turns()
    correcting.close()
    await turns()
    assert outcome.told == []
