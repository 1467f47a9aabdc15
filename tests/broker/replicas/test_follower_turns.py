"""An answer of very many small batches is taken over several turns of the loop."""

import errno

import pytest

from stratalog.hot.log.answer_parts import BATCHES_PER_TURN as PART
from stratalog.wire.batch import Record, build_batch
from tests.broker.replicas.leader_rig import Bench
from tests.broker.replicas.test_follower import LEADER, NOW_MS, Heard, batch, bench, data, heard  # noqa: F401 - fixtures


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


# -- cuts -------------------------------------------------------------------------------------------------------


def led(path, count=9):
    """A partition with a log of ``count`` segments from its time as leader, whose batches have a producer."""
    one = Bench(path)
    for number in range(count):
        records = build_batch([Record(0, NOW_MS, None, b"own")], producer_id=7, producer_epoch=0, base_sequence=number)
        one.append(str(number), records, acks=1)
        one.partition.log.roll()
    one.disk.write()
    one.disk.flush()
    return one


def cut_on(role, answer, heard, turns=1):  # noqa: F811
    """So many turns of a cut, and what is left of it."""
    for _ in range(turns):
        answer = role.take(answer, heard)
    return answer


def test_a_long_cut_takes_turns_and_the_outcome_comes_with_the_last(tmp_path, heard):  # noqa: F811
    """The mark never lies above the end of the log meanwhile, and each step leaves a log that can be read."""
    bench = led(str(tmp_path / "t-0"))  # noqa: F811
    role, log = bench.partition.follow(LEADER, 6), bench.partition.log
    bench.partition.high_watermark = 9
    left, ends = data(diverging=(4, 1)), []
    while left is not None:
        assert heard.told == []
        left = role.take(left, heard)
        ends.append(log.log_end_offset)
        assert bench.partition.high_watermark <= log.log_end_offset == log.written_offset
    assert ends == [6, 3, 1]
    assert heard.told == [("taken", 1, 4, 0)]
    assert log.producer_state.entries[7].last_sequence == 0


@pytest.mark.parametrize("ending", ["another leader", "leads", "is deleted"])
def test_a_cut_ends_with_its_role(tmp_path, heard, ending):  # noqa: F811
    """The log is whole, only longer than it would have been: the next role finds where histories part by itself."""
    bench = led(str(tmp_path / "t-0"))  # noqa: F811
    partition, log = bench.partition, bench.partition.log
    role = partition.follow(LEADER, 6)
    left = cut_on(role, data(diverging=(4, 1)), heard)
    if ending == "another leader":
        partition.follow(8, 7)
    elif ending == "leads":
        partition.lead(1, 7, replicas=[1], in_sync=[1])
        bench.append("new", build_batch([Record(0, NOW_MS, None, b"new")]), acks=1)
        bench.disk.write()
    else:
        partition.resign()
        log.abandon(is_removed=True)
    assert cut_on(role, left, heard) is None
    assert (log.log_end_offset, heard.told) == (7 if ending == "leads" else 6, [])


def test_a_log_that_was_cut_by_another_hand_between_two_turns_is_asked_for_again(tmp_path, heard):  # noqa: F811
    """A full disk, for one: its batches went back to the end of the file."""
    bench = led(str(tmp_path / "t-0"))  # noqa: F811
    role, log = bench.partition.follow(LEADER, 6), bench.partition.log
    left = cut_on(role, data(diverging=(4, 1)), heard)
    log.truncate_to(4)
    assert cut_on(role, left, heard) is None
    assert heard.told == [("refused", 4, 4, 0)]
    assert log.log_end_offset == 4


@pytest.mark.parametrize("start", [0, 3])
def test_a_log_is_moved_into_its_leaders_in_turns(tmp_path, start):
    """Also one that begins behind the leader's end: that one begins anew."""
    bench = led(str(tmp_path / "t-0"))  # noqa: F811
    role, log = bench.partition.follow(LEADER, 6), bench.partition.log
    log.advance_log_start(start)
    ends = []
    while role.move_into(0, 1):
        ends.append(log.log_end_offset)
    assert ends == [6, 3][: 2 - bool(start)]
    assert log.log_end_offset == (0 if start else 1)
