"""Batches of transactions against a running broker: the coordinator lets them in or they are refused."""

from stratalog.metadata.coordination import Producer
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import TopicPartition


def test_version_1_must_have_added_the_partition(transactions):
    """INVALID_TXN_STATE up to version 10, TRANSACTION_ABORTABLE in version 11."""
    producer = transactions.producer()
    assert transactions.add(producer, 1) == [0]
    assert transactions.produce(producer, 0, 1, version=10) == [ErrorCode.INVALID_TXN_STATE, 0]
    assert transactions.produce(producer, 0, version=11) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert transactions.add(producer, 0) == [0]
    assert transactions.produce(producer, 0, version=10) == [0]


def test_verification_may_be_switched_off(transactions):
    """``transaction.partition.verification.enable=false``: version 1 is believed, as before KIP-890."""
    transactions.broker.settings["transaction.partition.verification.enable"] = "false"
    transactions.broker.restart()
    transactions.link = transactions.broker.link()
    transactions.wait_for(lambda: not transactions.broker.node.transactions.loading)
    producer = transactions.producer()
    assert transactions.produce(producer, 0, version=11) == [0]
    assert transactions.state() == "Empty"
    assert transactions.produce(producer, 1, version=12) == [0]
    assert transactions.state() == "Ongoing"


def test_version_2_adds_the_partition_with_the_first_batch(transactions):
    """Several partitions of one request at once; the log knows those that
    are in, and the coordinator is not asked again.
    """
    producer = transactions.producer()
    assert transactions.produce(producer, 0, 1, 2) == [0, 0, 0]
    assert transactions.transaction().partitions == {TopicPartition("t", number) for number in range(3)}
    asked = []
    enlistment = transactions.broker.node.transactions.enlistment
    enlistment._ask = lambda *event: asked.append(event)
    for sequence in range(1, 30):
        assert transactions.produce(producer, 0, sequence=sequence) == [0]
    assert asked == []
    assert transactions.broker.end("t", 0) == 30


def test_pipelined_batches_keep_their_order(transactions):
    """Those behind the first wait with it for the coordinator."""
    producer = transactions.producer()
    link = transactions.link
    for n in range(5):
        link.send(transactions.produce_request(producer, 0, sequence=n, values=[b"%d" % n]), 12)
    for _ in range(5):
        answer = link.receive()
        assert answer.responses[0].partition_responses[0].error_code == 0
    transactions.end(producer)
    transactions.settled()
    assert transactions.committed() == [b"0", b"1", b"2", b"3", b"4"]


def test_a_batch_does_not_overtake_one_that_waits_for_the_coordinator(transactions):
    """The first one is let in, and waits for a worker; the second is asked about; the third finds the transaction open."""
    node = transactions.broker.node
    transactions.broker.create("packed", compression_type="gzip")
    producer = transactions.producer()
    unified = node.partitions.by_name("packed", 0)
    leader, enlistment, link = unified.partition.led(), node.transactions.enlistment, transactions.link
    rework, ask = leader._rework, enlistment._ask
    reworks, questions = [], []

    def send(sequence):
        link.send(transactions.produce_request(producer, 0, sequence=sequence, topic="packed"), 12)

    leader._rework = lambda *work: reworks.append(work)
    send(0)
    transactions.wait_for(lambda: reworks)
    enlistment._ask = lambda *question: questions.append(question)
    send(1)
    transactions.wait_for(lambda: questions)
    leader._rework = rework
    transactions.broker.run(rework, *reworks[0])
    transactions.wait_for(lambda: unified.log.producer_state.has_open_transaction(*producer))
    send(2)
    transactions.wait_for(lambda: unified.metrics.total_produce_requests == 3)
    transactions.broker.run(ask, *questions[0])
    codes = [link.receive().responses[0].partition_responses[0].error_code for _ in range(3)]
    assert (codes, len(questions)) == ([0, 0, 0], 1)


def test_a_batch_that_overtook_the_first_one_is_out_of_order(transactions):
    """Under v2 sequences begin at 0: a later batch is let in by the coordinator before the refused one comes again."""
    producer = transactions.producer()
    assert transactions.produce(producer, 0, sequence=1) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert transactions.produce(producer, 0, sequence=0) == [0]
    assert transactions.produce(producer, 0, sequence=1) == [0]


def test_version_1_may_go_on_anywhere(transactions):
    """Its sequences go on from one transaction to the next, also where the log has forgotten the producer."""
    producer = transactions.producer()
    transactions.add(producer, 0)
    assert transactions.produce(producer, 0, sequence=7, version=11) == [0]


def test_a_batch_that_has_to_be_opened_is_out_of_order_all_the_same(transactions):
    """The knowledge about the transaction waits with it for the worker."""
    transactions.broker.create("packed", compression_type="gzip")
    producer = transactions.producer()
    refused = transactions.produce(producer, 0, sequence=1, topic="packed")
    assert refused == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]


def test_a_late_batch_opens_no_transaction_without_an_end(transactions):
    """After the end, of either version, its producer's epoch is old or its partition is in no transaction."""
    producer = transactions.producer()
    transactions.add(producer, 0)
    transactions.end(producer, commit=False, version=4)
    transactions.settled()
    assert transactions.produce(producer, 0, version=11) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert transactions.produce(producer, 0) == [0]
    after = transactions.end(producer)
    transactions.settled()
    assert transactions.produce(producer, 1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert transactions.produce(Producer(producer.producer_id, after.producer_epoch), 1) == [0]


def test_a_plain_batch_does_not_land_inside_the_transaction(transactions):
    """INVALID_TXN_STATE, as in Kafka."""
    producer = transactions.producer()
    assert transactions.produce(producer, 0) == [0]
    assert transactions.produce(producer, 0, sequence=1, transactional=False) == [ErrorCode.INVALID_TXN_STATE]


def test_strangers_write_nothing(transactions):
    """An unknown transactional id, another's, and an epoch that never was."""
    producer = transactions.producer()
    transactions.producer("other")
    for transactional_id in ("who", "other"):
        codes = transactions.produce(producer, 0, transactional_id=transactional_id)
        assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert transactions.produce(Producer(producer.producer_id, 9), 0) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert transactions.broker.end("t") == 0


def test_a_request_of_two_producers_is_none_of_a_transaction(transactions):
    """Every batch of it is refused."""
    one, two = transactions.producer("one"), transactions.producer("two")
    request = transactions.produce_request(one, 0, transactional_id="one")
    request.topic_data += transactions.produce_request(two, 1, transactional_id="one").topic_data
    answer = transactions.call(request, 12)
    codes = [one.error_code for topic in answer.responses for one in topic.partition_responses]
    assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


def test_a_coordinator_that_is_not_there_yet_is_not_the_producers_mistake(transactions):
    """NOT_ENOUGH_REPLICAS, which every version simply repeats."""
    producer = transactions.producer()
    host = transactions.broker.node.transactions.host
    drivers, host._drivers = host._drivers, {}
    assert transactions.produce(producer, 0) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    host._drivers = drivers
    assert transactions.produce(producer, 0) == [0]


def test_a_batch_behind_one_whose_coordinator_was_away_does_not_overtake_it(transactions):
    """Version 1 may go on anywhere: the later one would be taken, and the first be out of order for ever."""
    producer = transactions.producer()
    assert transactions.add(producer, 0) == [0]
    host = transactions.broker.node.transactions.host
    drivers, host._drivers = host._drivers, {}
    assert transactions.produce(producer, 0, version=9) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    host._drivers = drivers
    assert transactions.produce(producer, 0, sequence=1, version=9) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert transactions.produce(producer, 0, version=9) == [0]
    assert transactions.produce(producer, 0, sequence=1, version=9) == [0]


def test_a_large_batch_gives_its_buffer_back(transactions):
    """Whether it is let in or not."""
    producer = transactions.producer()
    values = [b"x" * 200_000]
    assert transactions.produce(producer, 0, values=values, version=11) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert transactions.produce(producer, 0, values=values) == [0]
    transactions.end(producer)
    transactions.settled()
    assert transactions.committed() == values
