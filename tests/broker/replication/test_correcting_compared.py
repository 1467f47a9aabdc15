"""Followers that are compared with their leader before their first fetch: many at once, after an election."""

import pytest

from stratalog.broker.replication.correcting import Correcting
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from stratalog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.broker.replication.stand_ins import Links, Role, turns
from tests.broker.replication.test_correcting import outcome  # noqa: F401 - a fixture


def ends_of(request, *, wrong=()):
    """The answer of a leader whose logs begin at 0 and end at 90; but for these partitions, which it does not lead."""
    at = {-2: 0, -1: 90}
    topics = []
    for topic in request.topics:
        rows = [
            ListOffsetsPartitionResponse(
                partition_index=one.partition_index,
                offset=at[one.timestamp],
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER if one.partition_index in wrong else 0,
            )
            for one in topic.partitions
        ]
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
    return ListOffsetsResponse(topics=topics)


async def test_thousands_of_logs_are_compared_by_a_few_requests(outcome):  # noqa: F811
    """Each was two requests: the link takes 128, and refused those for records of all other partitions."""
    links = Links()
    correcting = Correcting(links, 7, local_id=2, timeout_ms=1000)
    roles = [Role(number) for number in range(1200)]
    for role in roles:
        correcting.compare(role, outcome)
    for count in range(6):
        while len(links.asked) == count:
            await turns()
        assert len(links.asked) == count + 1, "one after the other"
        links.newest()[2].set_result(ends_of(links.newest()[1]))
    await turns(4 * len(roles))
    assert len(outcome.told) == len(roles)
    assert all(role.moved == (0, 90) for role in roles)
    assert {told for told, _ in outcome.told} == {"taken"}
    role = Role(epoch=6)
    correcting.compare(role, outcome)
    await turns()
    assert links.newest()[1].topics[0].partitions[0].current_leader_epoch == 6, "it goes on with later ones"


@pytest.mark.parametrize(
    ("end_offset", "code", "moved"),
    [(40, 0, (0, 40)), (90, 0, (0, 90)), (-1, 0, (0, 90)), (40, ErrorCode.FENCED_LEADER_EPOCH, None)],
)
async def test_a_log_is_compared_with_what_its_leader_has_of_the_cleaners_history(outcome, end_offset, code, moved):  # noqa: F811
    """An unclean leader may have written beyond the cleaner's place, and cleaned: its end told nothing, and no batch later."""
    links = Links()
    correcting = Correcting(links, 7, local_id=2, timeout_ms=1000)
    role, other = Role(0), Role(1)
    role.cleaner_epoch = 3
    for one in (role, other):
        correcting.compare(one, outcome)
    for _ in range(2):
        await turns()
        links.newest()[2].set_result(ends_of(links.newest()[1]))
    await turns()
    _, request, answer = links.newest()
    ((wanted,),) = (topic.partitions for topic in request.topics)
    assert (request.replica_id, wanted.partition, wanted.current_leader_epoch, wanted.leader_epoch) == (2, 0, 5, 3)
    told = EpochEndOffset(partition=0, leader_epoch=2, end_offset=end_offset, error_code=code)
    answer.set_result(OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[told])]))
    await turns()
    assert (role.moved, other.moved) == (moved, (0, 90))


async def test_one_log_whose_leader_does_not_tell_holds_up_no_other(outcome, caplog):  # noqa: F811
    """It has not heard yet that it leads, as after most elections: there is no word of that."""
    links = Links()
    correcting = Correcting(links, 7, local_id=2, timeout_ms=1000)
    first, second = Role(0), Role(1)
    correcting.compare(first, outcome)
    correcting.compare(second, outcome)
    for _ in range(2):
        await turns()
        links.newest()[2].set_result(ends_of(links.newest()[1], wrong=[0]))
    await turns()
    assert (first.moved, second.moved, outcome.told) == (None, (0, 90), [("refused", 0), ("taken", 0)])
    assert caplog.messages == []


async def test_a_role_takes_the_place_of_the_one_before_in_a_comparison_to_come(outcome):  # noqa: F811
    """A leader refuses a question that names a partition twice."""
    links = Links()
    correcting = Correcting(links, 7, local_id=2, timeout_ms=1000)
    correcting.compare(Role(epoch=4), outcome)
    correcting.compare(Role(epoch=5), outcome)
    await turns()
    assert [one.current_leader_epoch for one in links.newest()[1].topics[0].partitions] == [5]


async def test_a_comparison_ends_with_its_links(outcome, caplog):  # noqa: F811
    """It says nothing of that."""
    links = Links()
    correcting = Correcting(links, 7, local_id=2, timeout_ms=1000)
    correcting.compare(Role(), outcome)
    await turns()
    correcting.close()
    await turns()
    assert links.newest()[2].cancelled()
    assert (outcome.told, caplog.messages) == ([], [])


async def test_one_log_whose_move_lasts_holds_up_no_other(outcome):  # noqa: F811
    """Its disk may be slow, or hang. Each begins in a turn of its own: what is kept aside is synced."""
    links, begun = Links(), []
    correcting = Correcting(links, 7, local_id=2, timeout_ms=1000)
    roles = [Role(number) for number in range(3)]
    for role in roles:
        role.move_into = lambda _start, _end, number=role.key.number: begun.append(number) or number == 0
        correcting.compare(role, outcome)
    for _ in range(2):
        await turns()
        links.newest()[2].set_result(ends_of(links.newest()[1]))
    while 0 not in begun:
        await turns(1)
    assert set(begun) == {0}
    await turns(20)
    assert ({1, 2} < set(begun), len(outcome.told)) == (True, 2)
    correcting.close()
