"""A second producer of the same transactional id: whatever the first was doing, it is over, and never half done."""

import pytest

from stratalog.client.records import fetch, visible_records
from stratalog.metadata.coordination import Producer
from stratalog.wire.compression import Codec
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from stratalog.wire.topic import TopicPartition

SETTINGS = {
    "offsets_topic_num_partitions": 1,
    "transaction_state_log_num_partitions": 1,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 60_000,
}
T0 = TopicPartition("t", 0)


class Protocol:
    """One of the two protocols of a transaction."""

    def __init__(self, wire, node, *, new):
        self.wire, self.node, self.new = wire, node, new

    def add(self, me):
        """A request of its own up to version 1."""
        if not self.new:
            assert self.wire.add(me, 0) == "NONE"

    def produce(self, me, sequence=0, value=b"first"):
        return self.wire.produce(me, version=12 if self.new else 11, sequence=sequence, value=value)

    def send_offsets(self, me, offset=4):
        if not self.new:
            code = self.wire.add_offsets(me, "g")
            if code != "NONE":
                return code
        return self.wire.commit_in_transaction(me, "g", offset, version=5 if self.new else 4)

    def end(self, me, *, commit):
        return self.wire.end(me, commit=commit, version=5 if self.new else 4)

    def committed(self):
        """The values in partition 0 that a read_committed consumer sees."""
        client, position, values = self.node.client(), 0, []
        while True:
            (found,) = fetch(client, {T0: position}, max_wait_ms=0)
            if not found.data:
                return values
            for next_offset, records in visible_records(found, position):
                values += [one.value for one in records]
                position = next_offset


@pytest.fixture(params=[False, True], ids=["v1", "v2"])
def protocol(request, start_node, wire_to):
    node = start_node(**SETTINGS)
    node.create("t", 2)
    return Protocol(wire_to(node.port).ready(), node, new=request.param)


def check_fenced(it, first):
    """No request of the first one has an effect any more; each request has Kafka's code."""
    check_refused(it, first)
    expected = {"producer_id": first.producer_id, "producer_epoch": first.producer_epoch}
    assert it.wire.init(**expected).error_code == ErrorCode.PRODUCER_FENCED


def check_refused(it, first):
    """It can neither produce nor commit nor add anything nor end."""
    fenced = {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}
    assert it.produce(first, sequence=7, value=b"zombie") in fenced
    assert it.wire.add(first, 1) == "PRODUCER_FENCED"
    assert it.wire.add_offsets(first, "g") == "PRODUCER_FENCED"
    assert it.send_offsets(first, 99) in fenced
    for commit in (True, False):
        assert it.wire.end(first, commit=commit, version=4).error_code == ErrorCode.PRODUCER_FENCED


def check_second(it, second, committed):
    """The second one works; readers see what was committed before, and its own."""
    it.add(second)
    assert it.produce(second, value=b"second") == "NONE"
    assert it.send_offsets(second, 50) == "NONE"
    assert it.end(second, commit=True).error_code == 0
    it.wire.settled()
    assert it.committed() == [*committed, b"second"]
    assert it.wire.offsets("g", stable=True) == [("t", 0, 50, "in transaction", "NONE")]
    assert it.wire.ends("t", 2, committed=True) == it.wire.ends("t", 2, committed=False)


STAGES = ("after init", "after add partitions", "after produce", "after send offsets")


@pytest.mark.parametrize("stage", STAGES)
def test_the_first_is_fenced_while_its_transaction_is_open(protocol, stage):
    """Its transaction, if there is one, is aborted before the second one has its epoch."""
    it = protocol
    first = it.wire.producer()
    done = STAGES.index(stage)
    if done >= 1:
        it.add(first)
    if done >= 2:
        assert it.produce(first) == "NONE"
    if done >= 3:
        assert it.send_offsets(first) == "NONE"
    second = it.wire.producer()
    assert second.producer_id == first.producer_id
    assert second.producer_epoch > first.producer_epoch
    check_fenced(it, first)
    assert it.committed() == []
    assert it.wire.offsets("g", stable=True) == []
    check_second(it, second, [])
    check_fenced(it, first)


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_decided_transaction_is_finished_first(protocol, commit):
    """While markers are missing the second one must retry; the decision holds, then the first is fenced."""
    it = protocol
    first = it.wire.producer()
    it.add(first)
    assert it.produce(first) == "NONE"
    assert it.send_offsets(first) == "NONE"
    held = it.node.partition("t").partition
    held.held_back = "for the test"
    answer = it.end(first, commit=commit)
    assert answer.error_code == 0
    assert it.wire.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert it.wire.state() == ("PrepareCommit" if commit else "PrepareAbort")
    held.held_back = None
    second = it.wire.producer()
    told = Producer(answer.producer_id, answer.producer_epoch) if it.new else first
    assert second.producer_id == first.producer_id
    assert second.producer_epoch > told.producer_epoch
    check_fenced(it, told)
    assert it.committed() == ([b"first"] if commit else [])
    offsets = [("t", 0, 4, "in transaction", "NONE")] if commit else []
    assert it.wire.offsets("g", stable=True) == offsets
    check_second(it, second, [b"first"] if commit else [])


def test_the_second_is_fenced_by_the_third_in_the_same_moment(protocol):
    """Two that start while a transaction is open: one epoch each, the last one works."""
    it = protocol
    first = it.wire.producer()
    it.add(first)
    assert it.produce(first) == "NONE"
    one, two = it.wire.another().producer(), it.wire.another().producer()
    assert two.producer_epoch == one.producer_epoch + 1
    check_fenced(it, first)
    check_fenced(it, one)
    check_second(it, two, [])


def test_a_first_that_takes_too_long_may_begin_anew(protocol, wire_to):
    """After its time-out its transaction is aborted in a raised epoch and what it sends is refused; as no other has
    come, it may go on under that epoch if it says who it was (KIP-360).
    """
    it = protocol
    it.node.settings["transaction.abort.timed.out.transaction.cleanup.interval.ms"] = "20"
    it.wire = wire_to(it.node.restart().port).ready()
    first = it.wire.producer(timeout_ms=50)
    it.add(first)
    assert it.produce(first) in ("NONE", "INVALID_TXN_STATE", "INVALID_PRODUCER_EPOCH", "TRANSACTION_ABORTABLE")
    assert it.wire.settled() == "CompleteAbort"
    check_refused(it, first)
    assert it.committed() == []
    second = it.wire.producer(producer_id=first.producer_id, producer_epoch=first.producer_epoch)
    assert second == (first.producer_id, first.producer_epoch + 1)
    check_second(it, second, [])
    check_refused(it, first)


def test_a_late_batch_behind_a_marker_that_waits_for_a_worker(start_node, wire_to):
    """Version 1: a batch that a worker compresses anew holds back the marker behind it, and the log still calls the
    transaction open. A batch that comes then is refused; behind the marker it would begin a transaction that no producer ends.
    """
    node = start_node(**SETTINGS)
    node.create("t", 1, compression_type="zstd")
    wire, late = (wire_to(node.port).ready() for _ in range(2))
    producer = wire.producer()
    assert wire.add(producer, 0) == "NONE"
    assert wire.produce(producer, codec=Codec.ZSTD) == "NONE"
    leader = node.partition("t").partition.leader
    rework, waiting = leader._rework, []
    leader._rework = lambda *command: waiting.append(command)
    late.send(late.produce_request(producer, sequence=1), 11)
    node.wait_until(lambda: waiting)
    assert wire.end(producer, commit=False, version=4).error_code == 0
    node.wait_until(lambda: len(leader._held) == 2)
    assert wire.produce(producer, sequence=2, codec=Codec.ZSTD) == "INVALID_TXN_STATE"
    node.run(lambda: rework(*waiting[0]))
    assert late.answer().responses[0].partition_responses[0].error_code == 0
    assert wire.settled() == "CompleteAbort"
    assert wire.ends("t", 1, committed=True) == wire.ends("t", 1, committed=False) == [3]
    asked = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
    (found,) = wire.call(asked, 0).topics[0].partitions[0].active_producers
    assert found.current_txn_start_offset == -1
