"""Tests of hot/state/producer_state.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.hot.state.producer_state import EndMarker, ProducerStateManager
from stratalog.wire.errors import ErrorCode, KafkaError

SEQUENCE_MAX = 2**31 - 1


class Producer:
    """Drives a state as the log does: check, then apply at the next offset."""

    def __init__(self) -> None:
        self.state = ProducerStateManager("flights-0")
        self.offset = 0

    def send(self, sequence, *, count=1, epoch=0, producer=7, transactional=False):
        state = self.state
        earlier = state.check_batch(producer, epoch, sequence, count - 1, transactional=transactional)
        if earlier is not None:
            return ("duplicate", earlier.first_offset)
        base, self.offset = self.offset, self.offset + count
        state.apply_batch(
            producer, epoch, sequence, base_offset=base, last_offset=self.offset - 1, timestamp_ms=base,
            transactional=transactional,
        )  # fmt: skip
        return ("appended", base)

    def end(self, *, commit, epoch=0, producer=7, coordinator=1, version=0):
        marker = EndMarker(producer, epoch, coordinator, 99, commit)
        self.state.check_marker(marker, version)
        self.offset += 1
        return self.state.apply_marker(marker, self.offset - 1)


def refused(call, *arguments, **options) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call(*arguments, **options)
    return caught.value.code


def test_batches_retried_after_a_lost_answer_keep_their_original_offsets():
    """A copy of any of the last five batches is answered with where the first one stands."""
    producer = Producer()
    assert [producer.send(sequence, count=2) for sequence in (0, 2, 4)] == [
        ("appended", 0),
        ("appended", 2),
        ("appended", 4),
    ]
    assert [producer.send(sequence, count=2) for sequence in (0, 2, 4)] == [
        ("duplicate", 0),
        ("duplicate", 2),
        ("duplicate", 4),
    ]
    assert producer.offset == 6


def test_a_copy_older_than_the_last_five_batches_is_an_error_never_appended_again():
    """The sixth batch pushes the first one out of memory."""
    producer = Producer()
    for sequence in range(6):
        producer.send(sequence)
    assert producer.send(1) == ("duplicate", 1)
    assert refused(producer.send, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_in_the_sequence_is_out_of_order():
    """Sequence 2 cannot follow 0."""
    producer = Producer()
    producer.send(0)
    assert refused(producer.send, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(1) == ("appended", 1)


def test_the_sequence_wraps_from_2_to_the_31_minus_1_to_0():
    """Also within one batch."""
    producer = Producer()
    producer.send(SEQUENCE_MAX - 1, count=2)
    assert producer.send(0) == ("appended", 2)
    producer = Producer()
    producer.send(SEQUENCE_MAX, count=2)
    assert producer.send(1) == ("appended", 2)
    assert producer.send(SEQUENCE_MAX, count=2) == ("duplicate", 0)


def test_an_unknown_producer_may_begin_anywhere():
    """Its history may have left with retention (KIP-360)."""
    assert Producer().send(41) == ("appended", 0)


def test_a_new_epoch_begins_at_sequence_0_and_fences_the_old_one():
    """INVALID_PRODUCER_EPOCH for the older, OUT_OF_ORDER for a newer one that begins elsewhere."""
    producer = Producer()
    producer.send(0)
    assert refused(producer.send, 5, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(0, epoch=1) == ("appended", 1)
    assert refused(producer.send, 1, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_sequence_reused_after_an_abort_is_a_new_batch():
    """Transactions v2 raise the epoch with the marker, so the copy of an aborted write is not a duplicate."""
    producer = Producer()
    producer.send(0, transactional=True)
    producer.end(commit=False, epoch=1, version=2)
    assert producer.send(0, epoch=1, transactional=True) == ("appended", 2)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("loaded", [True, False])
def test_a_sequence_used_again_in_the_next_transaction_is_no_duplicate(commit, loaded):
    """librdkafka does so after it has purged the records of an aborted one: an answer for the earlier batch would lose the record."""
    producer = Producer()
    producer.send(0, transactional=True)
    assert producer.send(0, transactional=True) == ("duplicate", 0)
    producer.end(commit=commit)
    if loaded:
        producer.state.load_bytes(producer.state.to_bytes(), producer.offset)
    assert refused(producer.send, 0, transactional=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(1, transactional=True) == ("appended", 2)
    if loaded:
        producer.state.load_bytes(producer.state.to_bytes(), producer.offset)
    assert refused(producer.send, 0, transactional=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(1, transactional=True) == ("duplicate", 2)


def test_a_batch_outside_of_transactions_may_come_again():
    """Its producer has ended nothing, or something else."""
    producer = Producer()
    assert [producer.send(sequence) for sequence in (0, 1, 0)] == [("appended", 0), ("appended", 1), ("duplicate", 0)]


def test_the_first_unstable_offset_is_the_start_of_the_oldest_open_transaction():
    """It moves on only when the marker is below the high watermark."""
    producer = Producer()
    state = producer.state
    assert state.first_unstable_offset is None
    producer.send(0, producer=1, transactional=True)
    producer.send(0, producer=2, transactional=True)
    assert state.first_unstable_offset == 0
    ended = producer.end(commit=True, producer=1)
    assert (ended.first_offset, ended.last_offset, ended.aborted, ended.last_stable_offset) == (0, 2, False, 1)
    assert state.first_unstable_offset == 0
    state.on_high_watermark(2)
    assert state.first_unstable_offset == 0
    state.on_high_watermark(3)
    assert state.first_unstable_offset == 1
    assert producer.end(commit=False, producer=2).last_stable_offset == 4
    state.on_high_watermark(4)
    assert state.first_unstable_offset is None


def test_a_plain_batch_inside_a_transaction_is_refused():
    """INVALID_TXN_STATE."""
    producer = Producer()
    producer.send(0, transactional=True)
    assert refused(producer.send, 1) is ErrorCode.INVALID_TXN_STATE
    assert producer.state.has_open_transaction(7, 0)
    assert not producer.state.has_open_transaction(7, 1)
    assert producer.state.is_open(7)
    assert not producer.state.is_open(8)


def test_a_marker_without_a_transaction_ends_nothing():
    """It still moves the epochs."""
    producer = Producer()
    assert producer.end(commit=True, epoch=4) is None
    assert producer.state.entries[7].producer_epoch == 4


def test_markers_of_transactions_v2_need_a_higher_epoch_except_as_a_repetition():
    """An equal epoch passes only when nothing is open any more."""
    producer = Producer()
    producer.send(0, epoch=3, transactional=True)
    assert refused(producer.end, commit=True, epoch=3, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.end(commit=True, epoch=4, version=2) is not None
    assert producer.end(commit=True, epoch=4, version=2) is None
    assert refused(producer.end, commit=True, epoch=3, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_markers_of_transactions_v1_may_have_the_epoch_of_the_data():
    """Only an older epoch is refused."""
    producer = Producer()
    producer.send(0, epoch=3, transactional=True)
    assert producer.end(commit=False, epoch=3).aborted
    assert refused(producer.end, commit=False, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_zombie_coordinator_is_fenced():
    """Its epoch is below the last one that wrote a marker."""
    producer = Producer()
    producer.send(0, transactional=True)
    producer.end(commit=True, coordinator=5)
    assert refused(producer.end, commit=True, coordinator=4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_idle_producers_are_forgotten_unless_a_transaction_is_open():
    """After the expiration time their sequences start anew."""
    producer = Producer()
    producer.send(0, producer=1)
    producer.send(0, producer=2, transactional=True)
    assert producer.state.remove_expired(now_ms=1001, expiration_ms=1000) == 1
    assert list(producer.state.entries) == [2]


def test_coordinators_are_held_to_epochs_but_not_to_sequences():
    """Offset commits of a transaction carry no sequence."""
    producer = Producer()
    producer.send(0, epoch=2)
    producer.state.check_producer_epoch(7, 2)
    assert refused(producer.state.check_producer_epoch, 7, 1) is ErrorCode.INVALID_PRODUCER_EPOCH


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3), st.booleans()), max_size=30))
def test_a_snapshot_restores_what_decides_about_the_next_batch(steps):
    """Epochs, last sequences and open transactions are the same after a round trip."""
    producer = Producer()
    sequences = {1: 0, 2: 0, 3: 0}
    for number, count, end in steps:
        if end and producer.state.has_open_transaction(number, 0):
            producer.end(commit=count > 1, producer=number)
        else:
            producer.send(sequences[number], count=count + 1, producer=number, transactional=True)
            sequences[number] += count + 1
    again = ProducerStateManager()
    again.load_bytes(producer.state.to_bytes(), producer.offset)
    assert again.to_bytes() == producer.state.to_bytes()
    assert [first for first, _ in again.open_transactions()] == [
        first for first, _ in producer.state.open_transactions()
    ]
    assert again.end_offset == producer.offset
    producer.state.on_high_watermark(producer.offset)
    assert again.first_unstable_offset == producer.state.first_unstable_offset


def test_under_v2_an_unknown_producer_begins_at_0():
    """Each transaction has an epoch of its own: another sequence has overtaken the first. Under v1 it may go on anywhere."""
    state = ProducerStateManager("flights-0")
    options = {"transactional": True, "transaction_version": 2}
    assert refused(state.check_batch, 7, 0, 1, 0, **options) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check_batch(7, 0, 0, 0, **options) is None
    assert state.check_batch(7, 0, 1, 0, transactional=True) is None


@pytest.mark.parametrize("loaded", [True, False])
def test_a_producer_that_only_a_marker_tells_of_goes_on_anywhere(loaded):
    """A copy begins at the log start, behind the batches: the next transaction of its epoch was refused for good."""
    producer = Producer()
    assert producer.end(commit=True, epoch=3) is None
    if loaded:
        producer.state.load_bytes(producer.state.to_bytes(), producer.offset)
    assert producer.send(7, count=2, epoch=3, transactional=True) == ("appended", 1)
    assert producer.send(7, count=2, epoch=3, transactional=True) == ("duplicate", 1)
    assert refused(producer.send, 10, epoch=3, transactional=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(9, epoch=3, transactional=True) == ("appended", 3)


def test_a_marker_tells_where_another_epoch_or_a_transaction_of_v2_begins():
    """Both begin at sequence 0, whatever is gone: another batch has overtaken the first one."""
    producer = Producer()
    producer.end(commit=True, epoch=3)
    assert refused(producer.send, 7, epoch=2, transactional=True) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(producer.send, 7, epoch=4, transactional=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    check, options = producer.state.check_batch, {"transactional": True, "transaction_version": 2}
    assert refused(check, 7, 3, 7, 0, **options) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert check(7, 3, 0, 0, **options) is None


def test_batches_since_the_last_write_are_taken_back():
    """New and known producers, transactions that began or ended meanwhile; further back is not known."""
    state = ProducerStateManager()
    for producer, offset in ((1, 0), (2, 1)):
        state.apply_batch(
            producer, 0, 0, base_offset=offset, last_offset=offset, timestamp_ms=5, transactional=producer == 1
        )
    state.end_offset = 2
    state.keep()
    before = state.to_bytes()
    state.apply_marker(EndMarker(1, 0, 3, 9, commit=False), 2)
    for producer, offset in ((2, 3), (3, 4)):
        state.apply_batch(
            producer, 1, 0, base_offset=offset, last_offset=offset, timestamp_ms=5, transactional=producer == 3
        )
    state.end_offset = 5
    assert not state.take_back(1)
    assert state.take_back(2)
    assert [(first, entry.producer_id) for first, entry in state.open_transactions()] == [(0, 1)]
    assert (state.to_bytes(), state.first_unstable_offset, state.end_offset) == (before, 0, 2)
