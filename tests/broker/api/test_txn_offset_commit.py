"""TxnOffsetCommit against a running broker."""

from types import SimpleNamespace

import pytest

from stratalog.broker.api.txn_offset_commit import API
from stratalog.broker.coordinators.partition_markers import TransactionMarker
from stratalog.client.admin import delete_topics
from stratalog.metadata.coordination import Producer
from stratalog.wire.batch import build_control_batch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from stratalog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stratalog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from stratalog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from stratalog.wire.records.control import ControlType, EndTxnMarker, encode_record


@pytest.fixture
def groups(transactions):
    """The same, with the topic of groups."""
    transactions.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    transactions.wait_for(lambda: not transactions.broker.node.groups.loading)
    return transactions


def context_of(node, answers, version):
    """The context of a request that is handled here, without a connection; ``answers`` takes what is answered."""
    return SimpleNamespace(
        broker=node,
        allows=lambda *_: True,
        api_version=version,
        client_id="me",
        respond=answers.append,
        connection=SimpleNamespace(host="here"),
    )


def offsets_of(producer, offset, *partitions, topic="t", group_id="g"):
    """The request."""
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=group_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=number, committed_offset=offset, committed_metadata="m"
                    )
                    for number in partitions
                ],
            )
        ],
    )


def commit(groups, producer, offset, *partitions, version=5, **options):
    """The codes of each partition."""
    answer = groups.call(offsets_of(producer, offset, *partitions, **options), version)
    return [one.error_code for topic in answer.topics for one in topic.partitions]


def fetched(groups, *, stable=False):
    """The committed offset of ``t-0``, or the error of its partition."""
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])])
        ],
        require_stable=stable,
    )
    (group,) = groups.call(request, 9).groups
    (topic,) = group.topics
    (partition,) = topic.partitions
    return ErrorCode(partition.error_code).name if partition.error_code else partition.committed_offset


def test_offsets_count_with_the_commit(groups):
    """Pending until the marker: unseen, and unstable for who asks for stable ones."""
    producer = groups.producer()
    assert commit(groups, producer, 7, 0) == [0]
    assert fetched(groups) == -1
    assert fetched(groups, stable=True) == "UNSTABLE_OFFSET_COMMIT"
    groups.end(producer)
    groups.settled()
    assert fetched(groups, stable=True) == 7


def test_offsets_go_with_the_abort(groups):
    """Offsets committed before stay."""
    producer = groups.producer()
    commit(groups, producer, 7, 0)
    producer = producer._replace(producer_epoch=groups.end(producer).producer_epoch)
    groups.settled()
    assert commit(groups, producer, 9, 0) == [0]
    groups.end(producer, commit=False)
    groups.settled()
    assert fetched(groups, stable=True) == 7


def test_pending_offsets_live_through_a_restart(groups):
    """And count when the transaction commits after it."""
    producer = groups.producer()
    commit(groups, producer, 7, 0)
    groups.broker.restart()
    groups.link = groups.broker.link()
    groups.wait_for(lambda: not groups.broker.node.transactions.loading and not groups.broker.node.groups.loading)
    assert fetched(groups, stable=True) == "UNSTABLE_OFFSET_COMMIT"
    groups.end(producer)
    groups.settled()
    assert fetched(groups, stable=True) == 7


def test_version_4_must_have_added_the_group(groups):
    """By AddOffsetsToTxn; from version 5 on the commit itself adds it."""
    producer = groups.producer()
    assert commit(groups, producer, 7, 0, version=4) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert commit(groups, producer, 7, 0, version=3) == [ErrorCode.INVALID_TXN_STATE]
    request = AddOffsetsToTxnRequest(
        transactional_id="x", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, group_id="g"
    )
    assert groups.call(request, 3).error_code == 0
    for version in range(5):
        assert commit(groups, producer, 7, 0, version=version) == [0]


def test_partitions_that_are_not_there_are_refused_alone(groups):
    """The others are committed."""
    producer = groups.producer()
    assert commit(groups, producer, 7, 0, 9) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert commit(groups, producer, 7, 0, topic="nowhere") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    groups.end(producer)
    groups.settled()
    assert fetched(groups) == 7


def test_a_group_without_a_name_has_no_offsets_in_transactions(groups):
    """INVALID_GROUP_ID; outside of transactions such a group may keep offsets, as in Kafka."""
    assert commit(groups, groups.producer(), 7, 0, group_id="") == [ErrorCode.INVALID_GROUP_ID]


def test_a_fenced_producer_commits_nothing(groups):
    """At once, and also when its transaction had the group."""
    producer = groups.producer()
    commit(groups, producer, 7, 0)
    groups.producer()
    assert commit(groups, producer, 9, 0) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert fetched(groups, stable=True) == -1


@pytest.mark.parametrize("raised", [0, 1])
def test_offsets_behind_the_end_of_their_transaction_are_refused(groups, raised):
    """Its marker waits for its place in the log, which still calls the transaction open: they would begin another."""
    producer = groups.producer()
    assert commit(groups, producer, 7, 0) == [0]
    node, done, answers = groups.broker.node, [], []
    driver = node.groups.host.of("g")
    log = driver.unified.log
    end = producer._replace(producer_epoch=producer.producer_epoch + raised)
    context = context_of(node, answers, 4)

    def in_one_turn():
        marker = TransactionMarker(end, True, 0, 2 * raised)
        node.transactions.markers.write(driver.unified.topic_partition, marker, done.append)
        assert log.producer_state.has_open_transaction(*producer)
        API.handle(context, offsets_of(producer, 8, 0))

    groups.broker.run(in_one_turn)
    groups.wait_for(lambda: done)
    assert done == [None]
    assert [one.error_code for one in answers[0].topics[0].partitions] == [ErrorCode.INVALID_TXN_STATE]
    assert not log.producer_state.has_open_transaction(*end)
    assert fetched(groups, stable=True) == 7


def test_offsets_the_log_would_refuse_do_not_reach_the_group(groups):
    """Without verification the coordinator is not asked; a refused append would cost the whole shard its state."""
    without_verification(groups)
    host = groups.broker.node.groups.host
    producer = groups.producer()
    assert commit(groups, producer, 7, 0) == [0]
    groups.end(producer)
    groups.settled()
    shard = host.of("g").shard
    assert commit(groups, producer, 8, 0, version=4) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert fetched(groups, stable=True) == 7
    assert host.of("g").shard is shard


def without_verification(groups):
    """The coordinator is not asked whether it knows a transaction."""
    name = "transaction.partition.verification.enable"
    config = AlterableConfig(name=name, config_operation=0, value="false")
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
    groups.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    groups.wait_for(lambda: not groups.broker.node.config.values[name])


@pytest.mark.parametrize("producer", [Producer(-1, 0), Producer(7, -1), Producer(-1, -1)])
def test_offsets_of_no_producer_are_refused(groups, producer):
    """No marker would ever end them; without verification they were kept, unstable until a reload took them for committed ones."""
    without_verification(groups)
    for version in (4, 5):
        wanted = ErrorCode.INVALID_PRODUCER_ID_MAPPING if producer[0] < 0 else ErrorCode.INVALID_PRODUCER_EPOCH
        assert commit(groups, producer, 7, 0, version=version) == [wanted]
    assert fetched(groups, stable=True) == -1


def test_offsets_behind_those_of_a_newer_epoch_in_one_turn_are_refused(groups):
    """Without verification both come through, and the log has seen neither: it would refuse the older ones, and the shard go."""
    without_verification(groups)
    node, answers = groups.broker.node, []
    older = groups.producer()
    newer = groups.producer()
    shard = node.groups.host.of("g").shard

    def in_one_turn():
        for producer in (newer, older):
            context = context_of(node, answers, 4)
            API.handle(context, offsets_of(producer, producer.producer_epoch, 0))

    groups.broker.run(in_one_turn)
    groups.wait_for(lambda: len(answers) == 2)
    codes = [one.error_code for answer in answers for topic in answer.topics for one in topic.partitions]
    assert sorted(codes) == [0, ErrorCode.INVALID_TXN_STATE]
    assert node.groups.host.of("g").shard is shard


def test_a_coordinator_that_does_not_answer_is_one_that_loads(groups):
    """Upon which clients repeat the request to the same broker; Produce would say NOT_ENOUGH_REPLICAS."""
    producer = groups.producer()
    enlistment = groups.broker.node.transactions.enlistment

    def silent(_transactional_id, event):
        event.token.fail(KafkaError(ErrorCode.NETWORK_EXCEPTION, "the other broker did not answer"))

    ask, enlistment._ask = enlistment._ask, silent
    try:
        assert commit(groups, producer, 7, 0) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        assert commit(groups, producer, 7, 0, version=1) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert groups.produce(producer, 0) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    finally:
        enlistment._ask = ask


def test_a_commit_does_not_overtake_one_that_waits_for_the_coordinator(groups):
    """That one came before the transaction was open here. The later offset has to stand last."""
    producer = groups.producer()
    assert commit(groups, producer, 6, 0) == [0]
    node, answers, held = groups.broker.node, [], []
    enlistment, driver = node.transactions.enlistment, node.groups.host.of("g")
    first = SimpleNamespace(partition=driver.unified.topic_partition, leader=driver.leader, go_on=list)
    ask, enlistment._ask = enlistment._ask, lambda _transactional_id, event: held.append(event)
    groups.broker.run(lambda: enlistment.enlist("x", producer, [first], adds=True))
    groups.broker.run(lambda: API.handle(context_of(node, answers, 5), offsets_of(producer, 7, 0)))
    (place,) = enlistment._places.values()
    assert (place.waiting[0], len(place.waiting)) == (first, 2)
    enlistment._ask = ask
    groups.broker.run(lambda: held[0].token.respond(AddPartitionsToTxnResponse()))
    groups.wait_for(lambda: answers)
    assert (len(held), answers[0].topics[0].partitions[0].error_code) == (1, 0)


def test_a_yes_from_before_another_leadership_appends_no_offsets(groups):
    """The partition was led elsewhere meanwhile, and the transaction ended there: its offsets would begin one without an end."""
    producer = groups.producer()
    node, answers, held, done = groups.broker.node, [], [], []
    unified = node.groups.host.of("g").unified
    context = context_of(node, answers, 3)
    enlistment = node.transactions.enlistment
    ask, enlistment._ask = enlistment._ask, lambda _transactional_id, event: held.append(event)
    groups.broker.run(lambda: API.handle(context, offsets_of(producer, 7, 0)))
    enlistment._ask = ask

    def elsewhere_and_back():
        node.coordinators.released(unified)
        unified.partition.lead(
            node.node_id, unified.partition.leader_epoch + 2, replicas=[node.node_id], in_sync=[node.node_id]
        )
        node.coordinators.led(unified)

    groups.broker.run(elsewhere_and_back)
    groups.wait_for(lambda: not node.groups.loading)

    def the_others_marker():
        end = EndTxnMarker(coordinator_epoch=0)
        batch = build_control_batch(
            ControlType.ABORT,
            encode_record(end),
            offset=0,
            timestamp_ms=1,
            leader_epoch=-1,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transactional=True,
        )
        unified.partition.leader.append_as_leader(batch, done.append)

    groups.broker.run(the_others_marker)
    groups.wait_for(lambda: done)
    groups.broker.run(lambda: held[0].token.respond(AddPartitionsToTxnResponse()))
    groups.wait_for(lambda: answers)
    assert [one.error_code for one in answers[0].topics[0].partitions] == [ErrorCode.NOT_COORDINATOR]
    assert not unified.log.producer_state.has_open_transaction(*producer)
    assert fetched(groups, stable=True) == -1


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_goes_while_its_offsets_wait_keeps_none(groups, again):
    """Readers of the next topic of its name would begin behind the first records."""
    producer = groups.producer()
    node, answers, held = groups.broker.node, [], []
    context = context_of(node, answers, 3)
    groups.broker.create("gone")
    request = offsets_of(producer, 7, 0, topic="gone")
    request.topics += offsets_of(producer, 8, 1).topics
    enlistment = node.transactions.enlistment
    ask, enlistment._ask = enlistment._ask, lambda _transactional_id, event: held.append(event)
    groups.broker.run(lambda: API.handle(context, request))
    enlistment._ask = ask
    delete_topics(groups.broker.client(), ["gone"])
    if again:
        groups.broker.create("gone")
    groups.broker.run(lambda: held[0].token.respond(AddPartitionsToTxnResponse()))
    groups.wait_for(lambda: answers)
    codes = [one.error_code for topic in answers[0].topics for one in topic.partitions]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    pending = node.groups.host.of("g").shard.offsets._pending
    assert pending.partitions("g") == [("t", 1)]
