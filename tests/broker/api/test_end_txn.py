"""EndTxn against a running broker."""

from stratalog.metadata.coordination import Producer
from stratalog.wire.errors import ErrorCode


def test_version_5_raises_the_epoch_with_every_end(transactions):
    """The answer holds it; a retry of an end is answered the same."""
    producer = transactions.producer()
    for number, commit in enumerate([True, False, True]):
        assert transactions.produce(producer, 0, values=[b"%d" % number]) == [0]
        answer = transactions.end(producer, commit=commit)
        assert (answer.error_code, answer.producer_id) == (0, producer.producer_id)
        assert answer.producer_epoch == producer.producer_epoch + 1
        transactions.settled()
        assert transactions.end(producer, commit=commit) == answer
        producer = Producer(answer.producer_id, answer.producer_epoch)
    assert transactions.committed() == [b"0", b"2"]


def test_version_4_keeps_the_epoch(transactions):
    """The producer writes one transaction after the other with one epoch and ascending sequences."""
    producer = transactions.producer()
    for number, commit in enumerate([True, False, True]):
        assert transactions.add(producer, 0) == [0]
        assert transactions.produce(producer, 0, values=[b"%d" % number], sequence=number, version=11) == [0]
        for _ in range(2):
            answer = transactions.end(producer, commit=commit, version=4)
            assert (answer.error_code, answer.producer_epoch) == (0, -1)
            transactions.settled()
    assert transactions.committed() == [b"0", b"2"]


def test_there_is_nothing_to_commit(transactions):
    """Under version 2 an abort of nothing is taken, a commit is not; under version 1 neither."""
    producer = transactions.producer()
    assert transactions.end(producer, version=4).error_code == ErrorCode.INVALID_TXN_STATE
    assert transactions.end(producer, version=4, commit=False).error_code == ErrorCode.INVALID_TXN_STATE
    assert transactions.end(producer).error_code == ErrorCode.INVALID_TXN_STATE
    assert transactions.end(producer, commit=False).producer_epoch == producer.producer_epoch + 1


def test_a_restart_with_an_open_transaction_keeps_it_open(transactions):
    """The producer goes on where it was, and commits."""
    producer = transactions.producer()
    assert transactions.produce(producer, 0, values=[b"before"]) == [0]
    transactions.broker.restart()
    transactions.link = transactions.broker.link()
    transactions.wait_for(lambda: not transactions.broker.node.transactions.loading)
    assert transactions.state() == "Ongoing"
    assert transactions.committed() == []
    assert transactions.produce(producer, 0, values=[b"behind"], sequence=1) == [0]
    assert transactions.end(producer).error_code == 0
    transactions.settled()
    assert transactions.committed() == [b"before", b"behind"]
