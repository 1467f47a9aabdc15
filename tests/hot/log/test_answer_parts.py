"""How much of an answer one turn of the loop appends."""

import pytest

from stratalog.hot.log.answer_parts import BATCHES_PER_TURN, bytes_of_a_turn

BATCH = bytes(8) + (4).to_bytes(4) + bytes(4)


@pytest.mark.parametrize("count", [0, 1, BATCHES_PER_TURN - 1, BATCHES_PER_TURN])
def test_few_batches_are_one_part(count):
    """Also where the last one is torn."""
    for torn in (b"", BATCH[:9]):
        records = BATCH * count + torn
        taken = len(BATCH) * count if count == BATCHES_PER_TURN else len(records)
        assert bytes_of_a_turn(memoryview(records)) == taken


def test_a_turn_takes_some_of_many_batches():
    """The rest comes in a later turn."""
    assert bytes_of_a_turn(memoryview(BATCH * (2 * BATCHES_PER_TURN))) == len(BATCH) * BATCHES_PER_TURN


def test_a_length_that_is_none_leaves_all_to_the_append():
    """It says what is damaged."""
    records = BATCH + bytes(12) + BATCH * BATCHES_PER_TURN
    assert bytes_of_a_turn(memoryview(records)) == len(records)
