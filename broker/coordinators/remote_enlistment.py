"""Questions of appends to coordinators on other brokers: AddPartitionsToTxn requests on the event loop (KIP-890).

`EnlistmentBatches` decides. Errors are those of Kafka's ``AddPartitionsToTxnManager``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from stratalog.broker.coordinators.enlistment_batches import (
    Answered,
    Asked,
    Deliver,
    EnlistmentBatches,
    EnlistmentLimits,
    Event,
    Failed,
    Send,
    Ticked,
)
from stratalog.broker.peers.broker_links import BrokerLinks
from stratalog.broker.peers.peer_errors import PeerUnsupported
from stratalog.broker.runtime.alarm import Alarm
from stratalog.metadata.transactions.events import AddPartitions, VerifyPartitions
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from stratalog.wire.topic import TopicPartition

__all__ = ["Question", "RemoteEnlistment"]

Question = AddPartitions | VerifyPartitions

_VERSION_MIN: Final = 4
"""The form of brokers."""

log = logging.getLogger(__name__)


class RemoteEnlistment:
    """One per broker, in a cluster of several. Used on one event loop only."""

    def __init__(self, links: BrokerLinks, limits: EnlistmentLimits, *, monotonic: Callable[[], float]) -> None:
        self._links = links
        self._batches = EnlistmentBatches(limits)
        self._questions: dict[int, Question] = {}
        self._answers: dict[int, AddPartitionsToTxnResult | KafkaError] = {}
        """The latest answers to questions that may be asked again."""
        self._number = 0
        self._alarm = Alarm(monotonic, lambda: self._step(Ticked()))
        self._closed = False

    def ask(self, broker_id: int, question: Question) -> None:
        """Ask the coordinator on another broker; the question's token hears the answer, or an error.

        Errors beside the coordinator's: NETWORK_EXCEPTION, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE.
        """
        self._number += 1
        self._questions[self._number] = question
        adds = isinstance(question, AddPartitions)
        elements = 1 + len({topic for topic, _ in question.partitions}) + len(question.partitions)
        self._step(Asked(self._number, broker_id, question.transactional_id, question.producer, adds, elements))

    def close(self) -> None:
        """Answer nothing any more."""
        self._closed = True
        self._alarm.cancel()
        self._links.close()

    def follow(self) -> None:
        """Brokers may have other addresses now."""
        self._links.follow()

    # -- driving ------------------------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        for action in self._batches.step(event, self._alarm.now_ms()):
            if isinstance(action, Send):
                self._send(action)
            elif isinstance(action, Deliver):
                self._deliver(action.number)
            else:
                self._answers.pop(action.number, None)
                self._questions.pop(action.number).token.fail(KafkaError(action.code, action.why))
        if not self._closed:
            self._alarm.set(self._batches.wake_at_ms)

    def _send(self, action: Send) -> None:
        request = _request_of(self._questions[number] for number in action.numbers)
        timeout_ms = self._batches.limits.timeout_ms
        answer = self._links.ask(action.broker_id, request, timeout_ms=timeout_ms, version_min=_VERSION_MIN)
        answer.add_done_callback(partial(self._answered, action))

    def _answered(self, sent: Send, answer: asyncio.Future[Any]) -> None:
        error = answer.exception()
        if self._closed:
            return
        if isinstance(error, PeerUnsupported):
            self._unsupported(sent, error)
        elif error is not None:
            log.warning("transactions could not be verified: %s", error)
            self._step(Failed(sent.broker_id))
        else:
            self._take(sent, answer.result())

    def _take(self, sent: Send, answer: AddPartitionsToTxnResponse) -> None:
        results = {result.transactional_id: result for result in answer.results_by_transaction}
        concurrent = set()
        for number in sent.numbers:
            question = self._questions[number]
            outcome = _outcome(question, answer.error_code, results.get(question.transactional_id))
            self._answers[number] = outcome
            if isinstance(outcome, AddPartitionsToTxnResult) and _is_concurrent(outcome):
                concurrent.add(number)
        self._step(Answered(sent.broker_id, frozenset(concurrent)))

    def _unsupported(self, sent: Send, error: PeerUnsupported) -> None:
        """A coordinator that cannot be asked lets batches in, as in Kafka; one that cannot add partitions does not."""
        log.warning("transactions are not verified: %s", error)
        why = KafkaError(ErrorCode.INVALID_TXN_STATE, str(error))
        for number in sent.numbers:
            question = self._questions[number]
            adds = isinstance(question, AddPartitions)
            self._answers[number] = why if adds else _all_in(question.transactional_id)
        self._step(Answered(sent.broker_id, frozenset()))

    def _deliver(self, number: int) -> None:
        answer, token = self._answers.pop(number), self._questions.pop(number).token
        if isinstance(answer, KafkaError):
            token.fail(answer)
        else:
            token.respond(AddPartitionsToTxnResponse(results_by_transaction=[answer]))


def _request_of(questions: Iterable[Question]) -> AddPartitionsToTxnRequest:
    transactions = []
    for question in questions:
        topics: dict[str, list[int]] = {}
        for name, number in sorted(question.partitions):
            topics.setdefault(name, []).append(number)
        transactions.append(
            AddPartitionsToTxnTransaction(
                transactional_id=question.transactional_id,
                producer_id=question.producer.producer_id,
                producer_epoch=question.producer.producer_epoch,
                verify_only=isinstance(question, VerifyPartitions),
                topics=[AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()],
            )
        )
    return AddPartitionsToTxnRequest(transactions=transactions)


def _all_in(transactional_id: str) -> AddPartitionsToTxnResult:
    """The answer in which no partition is refused."""
    return AddPartitionsToTxnResult(transactional_id=transactional_id, topic_results=[])


def _outcome(
    question: Question, code: int, result: AddPartitionsToTxnResult | None
) -> AddPartitionsToTxnResult | KafkaError:
    """The answer to one question of a request: the coordinator's, where it is one."""
    if code:
        # Clients do not know CLUSTER_AUTHORIZATION_FAILED here: this broker is what lacks the permission.
        refused = code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if refused:
            log.error("this broker may not ask other coordinators: its principal needs CLUSTER_ACTION on the cluster")
        return KafkaError(ErrorCode.INVALID_TXN_STATE if refused else _known(code), "the coordinator refuses to answer")
    if result is None:
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, "the coordinator's answer leaves the transaction out")
    answered = set()
    for topic in result.topic_results:
        for one in topic.results_by_partition:
            one.partition_error_code = _known(one.partition_error_code)
            answered.add(TopicPartition(topic.name, one.partition_index))
    if not question.partitions <= answered:
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, "the coordinator's answer leaves partitions out")
    return result


def _known(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _is_concurrent(result: AddPartitionsToTxnResult) -> bool:
    return any(
        one.partition_error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        for topic in result.topic_results
        for one in topic.results_by_partition
    )
