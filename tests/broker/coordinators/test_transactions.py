"""The transaction coordinator of a running broker."""

import pytest

from stratalog.broker.coordinators.transactions import transaction_settings
from stratalog.client.admin import delete_topics
from stratalog.metadata.coordination import Producer
from stratalog.metadata.transactions.events import AddPartitions, EndTransaction, InitProducer
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from stratalog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from stratalog.wire.records.transaction import encode_key
from stratalog.wire.topic import TopicPartition


@pytest.fixture
def coordinator(start_node):
    """A broker whose topic of transactions is there, and ``ask`` for a request and its answer."""
    broker = start_node(
        transaction_state_log_num_partitions=2,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=20,
        transaction_remove_expired_transaction_cleanup_interval_ms=20,
    )
    broker.create("t", 2)
    broker.run(lambda: broker.node.coordinators.internal_topics.ensure("__transaction_state"))
    broker.wait_until(lambda: len(broker.node.transactions.drivers()) == 2)
    return broker


class Token:
    """Keeps its answer."""

    def __init__(self):
        self.answer = None

    def respond(self, response):
        self.answer = response

    def fail(self, error):
        self.answer = error


def ask(broker, event_of, transactional_id="x"):
    """Ask, and wait for the answer."""
    token = Token()
    broker.run(broker.node.transactions.ask, transactional_id, event_of(token))
    return broker.wait_until(lambda: token.answer)


def begin(broker, transactional_id="x", timeout_ms=60_000):
    """A producer with a transaction on both partitions of ``t``."""
    answer = ask(broker, lambda token: InitProducer(token, transactional_id, timeout_ms), transactional_id)
    producer = Producer(answer.producer_id, answer.producer_epoch)
    partitions = frozenset(TopicPartition("t", number) for number in (0, 1))
    done = AddOffsetsToTxnResponse(error_code=0)
    added = ask(
        broker,
        lambda token: AddPartitions(token, transactional_id, producer, partitions, 2, done),
        transactional_id,
    )
    assert added is done
    return producer


def status(broker, transactional_id="x"):
    shard = broker.node.transactions.host.of(transactional_id).shard
    return shard.transactions[transactional_id].status.title if transactional_id in shard.transactions else "gone"


def test_a_transaction_from_begin_to_end(coordinator):
    """Decided, marked in both partitions, complete; kept by a restart."""
    producer = begin(coordinator)
    answer = ask(coordinator, lambda token: EndTransaction(token, "x", producer, True, 2))
    assert answer.producer_epoch == 1
    coordinator.wait_until(lambda: status(coordinator) == "CompleteCommit")
    assert [coordinator.end("t", number) for number in (0, 1)] == [1, 1]
    coordinator.restart()
    coordinator.wait_until(lambda: not coordinator.node.transactions.loading)
    assert coordinator.run(status, coordinator) == "CompleteCommit"


def test_overlong_transactions_are_aborted_and_unused_ids_expire(coordinator):
    """Overlong transactions are aborted, and unused ids are forgotten."""
    coordinator.settings["transactional.id.expiration.ms"] = "500"
    coordinator.restart()
    coordinator.wait_until(lambda: len(coordinator.node.transactions.drivers()) == 2)
    begin(coordinator, timeout_ms=50)
    coordinator.wait_until(lambda: status(coordinator) in ("CompleteAbort", "gone"))
    assert [coordinator.end("t", number) for number in (0, 1)] == [1, 1]
    coordinator.wait_until(lambda: status(coordinator) == "gone")


def test_a_topic_deleted_meanwhile_does_not_hold_back_the_end(coordinator):
    """Its partitions need no marker."""
    producer = begin(coordinator)
    delete_topics(coordinator.client(), ["t"])
    ask(coordinator, lambda token: EndTransaction(token, "x", producer, True, 2))
    coordinator.wait_until(lambda: status(coordinator) == "CompleteCommit")


def test_an_end_whose_markers_cannot_be_written_is_taken_up_after_a_restart(coordinator):
    """PrepareCommit is in the log: the markers follow when they can."""
    producer = begin(coordinator)
    partition = coordinator.partition("t", 1).partition
    partition.held_back = "for the test"
    ask(coordinator, lambda token: EndTransaction(token, "x", producer, True, 2))
    transactions = coordinator.node.transactions.host
    coordinator.wait_until(lambda: len(transactions.of("x").shard.transactions["x"].partitions) == 1)
    assert coordinator.run(status, coordinator) == "PrepareCommit"
    coordinator.restart()
    coordinator.wait_until(lambda: not coordinator.node.transactions.loading)
    coordinator.wait_until(lambda: status(coordinator) == "CompleteCommit")
    assert [coordinator.end("t", number) for number in (0, 1)] == [2, 1]


def test_producer_ids_that_cannot_be_had(coordinator):
    """The request has to come again."""

    async def none():
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "no")

    coordinator.node.transactions._next_producer_id = none
    assert ask(coordinator, lambda token: InitProducer(token, "x", 1)).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.run(coordinator.node.transactions.host.of("x").shard.parked) == []


def test_a_log_that_cannot_be_read_is_left_as_it_is(coordinator, caplog):
    """Its groups and transactions are not available, with the reason; other partitions are served."""
    number = coordinator.node.transactions.host.partition_of("x")
    partition = coordinator.partition("__transaction_state", number).partition
    batch = build_batch([Record(0, 1, encode_key("x"), b"\0\7rubbish")])
    written = []
    coordinator.run(partition.leader.append_as_leader, batch, written.append)
    coordinator.wait_until(lambda: written)
    coordinator.restart()
    host = coordinator.node.transactions.host
    coordinator.wait_until(host.failures)
    answer = ask(coordinator, lambda token: InitProducer(token, "x", 1_000))
    assert answer.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "offset 0" in answer.message
    assert f"__transaction_state-{number}" in caplog.text
    other = next(name for name in "abcdefgh" if host.partition_of(name) != number)
    assert ask(coordinator, lambda token: InitProducer(token, other, 1_000), other).error_code == 0


def test_an_empty_id_is_none(coordinator):
    """INVALID_REQUEST."""
    assert ask(coordinator, lambda token: InitProducer(token, "", 1), "").code is ErrorCode.INVALID_REQUEST


def set_version(broker, level):
    """Change ``transaction.version`` while the broker runs."""
    key = FeatureUpdateKey(
        feature="transaction.version", max_version_level=level, upgrade_type=1 if level else 2, allow_downgrade=True
    )
    assert broker.link().call(UpdateFeaturesRequest(feature_updates=[key]), 2).error_code == 0


def test_ends_by_the_coordinator_itself_have_the_version_of_now(coordinator):
    """A shard that was loaded under another ``transaction.version`` does not keep to it: a late marker of v1 ends what it meets."""
    for level in (0, 2):
        set_version(coordinator, level)
        shards = [driver.shard for driver in coordinator.node.transactions.drivers()]
        coordinator.wait_until(lambda now=level, of=shards: {shard.settings.version for shard in of} == {now})
        begin(coordinator)
        ask(coordinator, lambda token: InitProducer(token, "x", 60_000))
        shard = coordinator.node.transactions.host.of("x").shard
        assert (shard.transactions["x"].client_version, shard in shards) == (level, True)


def test_settings_have_kafkas_names(coordinator):
    """And the version is that of the cluster's feature."""
    settings = transaction_settings(coordinator.node.config, coordinator.node.image)
    assert (settings.max_timeout_ms, settings.id_expiration_ms) == (900_000, 604_800_000)
    assert (settings.abort_timed_out_interval_ms, settings.remove_expired_interval_ms) == (20, 20)
    assert (settings.patience_ms, settings.version) == (100, 2)
