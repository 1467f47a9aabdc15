"""Messages of the quorum as actions and events."""

import asyncio
from types import SimpleNamespace

import pytest

from stratalog.broker.quorum.batches import data_batch
from stratalog.broker.quorum.exchange import Exchange
from stratalog.broker.quorum.quorum_peers import NoAnswer
from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.events import Answered, Failed
from stratalog.metadata.raft.messages import (
    EpochAnswer,
    FetchAnswer,
    FetchSnapshotAnswer,
    OffsetAndEpoch,
    VoteAnswer,
    VoteRequest,
)
from stratalog.metadata.raft.voter_set import ReplicaKey
from stratalog.wire.errors import Corrupt, ErrorCode

VOTE = VoteRequest(3, ReplicaKey(1), ReplicaKey(2), 1, 9)


class Peers:
    """Answers when the test says so."""

    def __init__(self):
        self.answer = asyncio.get_running_loop().create_future()
        self.closed = False

    async def ask(self, _peer, _request, _endpoints):
        return await self.answer

    def close(self):
        self.closed = True


@pytest.fixture
async def made():
    """An exchange, its peers, its events, and a replica that reads what the test has set."""
    events, tasks, peers = [], [], Peers()
    replica = SimpleNamespace(read=lambda _offset, _end: b"", snapshot_chunk=lambda _one, _position: (6, b"abc"))
    exchange = Exchange(
        peers, replica, take=events.append, beside=lambda work: tasks.append(asyncio.ensure_future(work))
    )
    return SimpleNamespace(exchange=exchange, peers=peers, events=events, replica=replica, tasks=tasks)


async def test_an_answer_becomes_an_event_with_its_request(made):
    """So does the news that there is none, with its reason."""
    made.exchange.send(act.Send(2, VOTE))
    answer = VoteAnswer(ErrorCode.NONE, 3, granted=True)
    made.peers.answer.set_result(answer)
    await asyncio.gather(*made.tasks)
    made.peers.answer = asyncio.get_running_loop().create_future()
    made.exchange.send(act.Send(2, VOTE))
    made.peers.answer.set_exception(NoAnswer(ErrorCode.UNSUPPORTED_VERSION, "old"))
    await asyncio.gather(*made.tasks)
    made.peers.answer = asyncio.get_running_loop().create_future()
    made.exchange.send(act.Send(2, VOTE))
    made.peers.answer.set_exception(NoAnswer(ErrorCode.REQUEST_TIMED_OUT, "gone", refused=True))
    await asyncio.gather(*made.tasks)
    assert made.events == [
        Answered(2, VOTE, answer),
        Failed(2, VOTE, ErrorCode.UNSUPPORTED_VERSION),
        Failed(2, VOTE, refused=True),
    ]


async def test_answers_to_a_machine_that_is_gone_are_dropped(made):
    """The one that began anew has asked nothing yet."""
    made.exchange.send(act.Send(2, VOTE))
    made.exchange.forget()
    made.peers.answer.set_result(VoteAnswer(ErrorCode.NONE, 3))
    await asyncio.gather(*made.tasks)
    assert made.events == []
    made.exchange.close()
    assert made.peers.closed


async def test_a_reply_to_an_asker_that_has_gone_is_nothing(made):
    """Its future is cancelled already."""
    token = asyncio.get_running_loop().create_future()
    token.cancel()
    made.exchange.reply(act.Reply(token, EpochAnswer(ErrorCode.NONE, 1)))


async def test_a_fetch_is_answered_with_batches_or_an_error(made):
    """Damage is not handed on."""
    records = data_batch([b"v"], base_offset=4, epoch=2, timestamp_ms=1)
    made.replica.read = lambda offset, end: bytes(records) if (offset, end) == (4, 5) else b""
    answer = FetchAnswer(ErrorCode.NONE, 2, 1)
    token = asyncio.get_running_loop().create_future()
    made.exchange.reply_with_records(act.ReplyWithRecords(token, answer, 4, 5))
    assert [(one.base_offset, one.epoch) for one in token.result().batches] == [(4, 2)]

    def damaged(_offset, _end):
        raise Corrupt("crc")

    made.replica.read = damaged
    token = asyncio.get_running_loop().create_future()
    made.exchange.reply_with_records(act.ReplyWithRecords(token, answer, 4, 5))
    assert token.result().error is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(
    ("position", "error"),
    [
        (0, ErrorCode.NONE),
        (6, ErrorCode.NONE),
        (7, ErrorCode.POSITION_OUT_OF_RANGE),
        (-1, ErrorCode.POSITION_OUT_OF_RANGE),
    ],
)
async def test_a_position_beyond_a_snapshot_is_refused(made, position, error):
    """Its end is not beyond: there is nothing more to come."""
    token = asyncio.get_running_loop().create_future()
    answer = FetchSnapshotAnswer(ErrorCode.NONE, 2, 1, snapshot=OffsetAndEpoch(7, 2), position=position)
    made.exchange.reply_with_snapshot(act.ReplyWithSnapshot(token, answer, OffsetAndEpoch(7, 2), position))
    assert token.result().error is error
    if error is ErrorCode.NONE:
        assert (token.result().size, token.result().data) == (6, b"abc")


async def test_a_snapshot_that_has_gone_meanwhile_is_not_found(made):
    """The asker fetches the log again, which names a newer one."""

    def gone(_snapshot, _position):
        raise FileNotFoundError("gone")

    made.replica.snapshot_chunk = gone
    token = asyncio.get_running_loop().create_future()
    answer = FetchSnapshotAnswer(ErrorCode.NONE, 2, 1, snapshot=OffsetAndEpoch(7, 2))
    made.exchange.reply_with_snapshot(act.ReplyWithSnapshot(token, answer, OffsetAndEpoch(7, 2), 0))
    assert token.result().error is ErrorCode.SNAPSHOT_NOT_FOUND
