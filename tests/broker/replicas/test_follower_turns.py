"""An answer of very many small batches is taken over several turns of the loop."""

import errno

import pytest

from stratalog.broker.replicas.follower import _BATCHES_PER_TURN as PART
from tests.broker.replicas.test_follower import Heard, batch, bench, data, heard  # noqa: F401 - fixtures


def many(count, first=0):
    return data(*(batch(first + number) for number in range(count)), high_watermark=count)


def test_a_turn_takes_so_many_batches_and_the_outcome_comes_with_the_last(bench, heard):  # noqa: F811
    """Each part is written in its own turn; the leader hears of the whole answer."""
    role, left = bench.partition.follower, many(2 * PART + 3)
    ends = []
    while left is not None:
        left = role.take(left, heard)
        bench.disk.write()
        bench.disk.flush()
        ends.append((bench.partition.log.log_end_offset, len(heard.told)))
    assert ends == [(PART, 0), (2 * PART, 0), (2 * PART + 3, 1)]
    assert heard.told == [("taken", 2 * PART + 3, 5, 0)]


@pytest.mark.parametrize("count", [PART - 1, PART])
def test_an_answer_that_a_turn_can_take_is_taken_in_one(bench, heard, count):  # noqa: F811
    """Also one whose last batch is torn."""
    answer = many(count)
    answer.records = memoryview(bytes(answer.records) + batch(count)[:30])
    left = bench.partition.follower.take(answer, heard)
    assert bench.partition.log.log_end_offset == count
    if left is not None:
        assert bench.partition.follower.take(left, heard) is None
    bench.disk.write()
    bench.disk.flush()
    assert heard.told == [("taken", count, 5, 0)]


def test_a_part_that_found_no_room_is_no_gap(bench, heard, monkeypatch):  # noqa: F811
    """The log goes back to the end of its file: the next part is not taken, and all of it is asked for again."""
    role = bench.partition.follower
    left = role.take(many(PART + 3), heard)
    log = bench.partition.log
    with monkeypatch.context() as context:
        context.setattr(type(log.tail), "write", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        with pytest.raises(OSError, match="full"):
            log.tail.write()
    log.discard_unwritten()
    bench.partition.on_write_refused(OSError(errno.ENOSPC, "full"))
    assert log.log_end_offset == 0
    assert role.take(left, heard) is None
    assert heard.told == [("refused", 0, -1, 0)]
    assert log.log_end_offset == 0
    assert role.take(many(1), heard) is None
    assert log.log_end_offset == 1


def test_the_rest_is_dropped_with_its_role(bench, heard):  # noqa: F811
    """The next one asks for itself."""
    role = bench.partition.follower
    left = role.take(many(PART + 3), heard)
    bench.partition.follow(7, 6)
    other = Heard()
    assert role.take(left, other) is None
    assert (bench.partition.log.log_end_offset, other.told, heard.told) == (PART, [], [])
