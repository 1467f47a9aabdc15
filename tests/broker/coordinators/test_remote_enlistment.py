"""Tests of broker/coordinators/remote_enlistment.py: the questions and the errors of Kafka's ``AddPartitionsToTxnManager``."""

import asyncio
import time

import pytest

from stratalog.broker.coordinators.enlistment_batches import EnlistmentLimits
from stratalog.broker.coordinators.remote_enlistment import RemoteEnlistment
from stratalog.broker.peers.peer_errors import Peer, PeerUnsupported
from stratalog.metadata.coordination import Producer
from stratalog.metadata.transactions.events import AddPartitions, VerifyPartitions
from stratalog.metadata.transactions.queries import outcomes
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse, AddPartitionsToTxnResult
from stratalog.wire.topic import TopicPartition
from tests.broker.coordinators.far_brokers import FarLinks

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Heard:
    """A token."""

    def __init__(self):
        self.codes = self.error = None

    def respond(self, response):
        (result,) = response.results_by_transaction
        self.codes = {
            TopicPartition(topic.name, one.partition_index): one.partition_error_code
            for topic in result.topic_results
            for one in topic.results_by_partition
        }

    def fail(self, error):
        self.error = error.code

    async def something(self):
        async with asyncio.timeout(5):
            while self.codes is None and self.error is None:  # noqa: ASYNC110 - one of two
                await asyncio.sleep(0.001)
        return self.codes if self.error is None else self.error


class Bench:
    """A broker whose coordinators are elsewhere."""

    def __init__(self):
        self.links = FarLinks()
        limits = EnlistmentLimits(retry_ms=1, retry_max_ms=200)
        self.remote = RemoteEnlistment(self.links, limits, monotonic=time.monotonic)

    def add(self, *partitions, name="x", adds=True):
        heard = Heard()
        wanted = frozenset(partitions or [T0])
        if adds:
            event = AddPartitions(heard, name, Producer(7, 3), wanted, 2, AddPartitionsToTxnResponse())
        else:
            event = VerifyPartitions(heard, name, Producer(7, 3), wanted)
        self.remote.ask(2, event)
        return heard


@pytest.fixture
async def bench():
    made = Bench()
    yield made
    made.remote.close()


def answer_of(codes_by_id):
    results = [
        AddPartitionsToTxnResult(transactional_id=name, topic_results=outcomes(codes))
        for name, codes in codes_by_id.items()
    ]
    return AddPartitionsToTxnResponse(results_by_transaction=results)


async def test_no_request_has_more_elements_than_a_broker_takes(bench):
    """It would close the connection, and every question would fail; one alone goes however large it is."""
    wanted = [[TopicPartition(f"t{number % 3}", number) for number in range(count)] for count in (400, 497, 1, 2000, 1)]
    for number, partitions in enumerate(wanted):
        bench.add(*partitions, name=str(number))
    sent = []
    while sum(map(len, sent)) < len(wanted):
        _, request, answer = await bench.links.take()
        sent.append([int(one.transactional_id) for one in request.transactions])
        answer.set_result(answer_of({str(one): dict.fromkeys(wanted[one], 0) for one in sent[-1]}))
    assert sent == [[0], [1, 2], [3], [4]]


async def test_questions_of_many_transactions_go_in_one_request(bench):
    """Each with its own answer, also about each partition."""
    adding, verifying = bench.add(T1, T0, name="a"), bench.add(T0, name="b", adds=False)
    broker_id, request, answer = await bench.links.take()
    assert broker_id == 2
    assert [
        (one.transactional_id, one.producer_id, one.producer_epoch, one.verify_only) for one in request.transactions
    ] == [("a", 7, 3, False), ("b", 7, 3, True)]
    assert [(one.name, one.partitions) for one in request.transactions[0].topics] == [("t", [0, 1])]
    answer.set_result(answer_of({"b": {T0: ErrorCode.TRANSACTION_ABORTABLE}, "a": {T0: 0, T1: 0}}))
    assert await adding.something() == {T0: 0, T1: 0}
    assert await verifying.something() == {T0: ErrorCode.TRANSACTION_ABORTABLE}


async def test_a_transaction_that_is_being_ended_is_asked_again(bench):
    """Without the client."""
    heard = bench.add()
    for _ in range(3):
        _, _, answer = await bench.links.take()
        answer.set_result(answer_of({"x": {T0: ErrorCode.CONCURRENT_TRANSACTIONS}}))
    _, _, answer = await bench.links.take()
    answer.set_result(answer_of({"x": {T0: 0}}))
    assert await heard.something() == {T0: 0}
    assert not bench.remote._answers


@pytest.mark.parametrize(
    ("code", "heard"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (9999, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_a_request_that_is_refused_as_a_whole(bench, code, heard):
    """Clients do not learn what this broker may not do."""
    asked = bench.add()
    _, _, answer = await bench.links.take()
    answer.set_result(AddPartitionsToTxnResponse(error_code=int(code)))
    assert await asked.something() == heard


@pytest.mark.parametrize("codes", [{}, {"other": {T0: 0}}, {"x": {T1: 0}}])
async def test_an_answer_that_leaves_something_out_lets_nothing_in(bench, codes):
    """No coordinator has said that the partition is in the transaction."""
    asked = bench.add()
    _, _, answer = await bench.links.take()
    answer.set_result(answer_of(codes))
    assert await asked.something() == ErrorCode.NETWORK_EXCEPTION


async def test_an_unknown_code_of_a_partition_is_an_error(bench):
    """A newer release may have it."""
    asked = bench.add()
    _, _, answer = await bench.links.take()
    answer.set_result(answer_of({"x": {T0: 9999}}))
    assert await asked.something() == {T0: ErrorCode.UNKNOWN_SERVER_ERROR}


async def test_a_lost_request_is_a_network_exception(bench):
    """Upon which the client tries again."""
    asked = bench.add()
    _, _, answer = await bench.links.take()
    bench.links.lose(answer)
    assert await asked.something() == ErrorCode.NETWORK_EXCEPTION


async def test_a_coordinator_that_cannot_be_asked_verifies_nothing(bench):
    """As in Kafka the batch goes on; but none goes on whose partition was not added."""
    verifying, adding = bench.add(name="a", adds=False), bench.add(name="b")
    _, _, answer = await bench.links.take()
    answer.set_exception(PeerUnsupported(Peer(2, "far", 9092), "it serves versions 0 to 3"))
    assert await verifying.something() == {}
    assert await adding.something() == ErrorCode.INVALID_TXN_STATE


async def test_no_question_is_answered_after_the_end(bench):
    """The clients have gone."""
    asked = bench.add()
    _, _, answer = await bench.links.take()
    bench.remote.follow()
    bench.remote.close()
    bench.links.lose(answer)
    await asyncio.sleep(0.01)
    assert (asked.codes, asked.error, bench.links.closed, bench.links.followed) == (None, None, True, 1)
