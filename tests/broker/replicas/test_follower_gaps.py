"""A gap that ends above the leader's mark, where no cleaner comes: perhaps the offset of a batch is damaged there."""

from stratalog.hot.config import LogConfig
from stratalog.wire.batch import Record, assign_offset, build_batch
from tests.broker.replicas.test_follower import NOW_MS, batch, bench, data, following, heard  # noqa: F401 - fixtures


def test_a_gap_above_the_leaders_mark_is_refused_once(bench, heard, caplog):  # noqa: F811
    """The leader is asked again, and checks its batches; a gap that it stands by is taken."""
    role = bench.partition.follower
    role.take(data(batch(0, 2), batch(1 << 61, 2), high_watermark=9), heard)
    bench.disk.write()
    bench.disk.flush()
    assert heard.told == [("taken", 2, 5, 0)], "the leader has not been asked for the gap itself"
    role.take(data(batch(1 << 61, 2), high_watermark=9), heard)
    assert heard.told[1:] == [("refused", 2, 5, 0)]
    assert "offset 2 is due, its leader sent 2305843009213693952" in caplog.text
    assert (bench.partition.log.log_end_offset, bench.partition.log.gaps.below) == (2, 0)
    role.take(data(batch(20, 2), high_watermark=9), heard)
    assert heard.told[2:] == [("refused", 2, 5, 0)], "another one"
    role.take(data(batch(20, 2), high_watermark=9), heard)
    bench.disk.keep_bounds()
    role.take(data(batch(20, 2), high_watermark=9), heard)
    bench.disk.write()
    bench.disk.flush()
    assert heard.told[3:] == [("taken", 2, 5, 0), ("taken", 22, 5, 0)]


def test_a_gap_below_the_leaders_mark_is_taken_without_doubt(bench, heard):  # noqa: F811
    """Its cleaner may have been there."""
    bench.partition.follower.take(data(batch(8, 2), high_watermark=9), heard)
    bench.disk.keep_bounds()
    assert [one[:2] for one in heard.told] == [("taken", 0)]
    assert bench.partition.log.gaps.below == 9


def test_a_copy_begins_with_a_batch_that_holds_the_log_start_and_lacks_records(tmp_path, heard):  # noqa: F811
    """Deletion by offset may end within a batch that the cleaner has rebuilt. The copy began anew behind it, for ever."""
    bench = following(str(tmp_path / "t-0"), cleanup_policy=frozenset({"compact", "delete"}))  # noqa: F811
    role, log = bench.partition.follower, bench.partition.log
    role.move_into(8, 20)
    lacking = build_batch([Record(number, NOW_MS, None, b"v") for number in (0, 1, 2, 3, 4, 5, 7)])  # 11 is gone
    assign_offset(lacking, 0, 5, len(lacking) - 12, 5)
    for _ in range(2):
        assert role.position.offset == 8, "below its log start the leader has no records to send"
        role.take(data(bytes(lacking), batch(13, 2), high_watermark=15, log_start=8), heard)
        bench.disk.write()
        bench.disk.flush()
        if bench.disk.waits_for_bounds:
            bench.disk.keep_bounds()
    assert [one[:2] for one in heard.told] == [("taken", 8), ("taken", 15)]
    assert (log.first_base_offset, log.log_start_offset, log.log_end_offset) == (5, 8, 15)
    assert (log.gaps.below, log.gaps.is_in_row) == (15, True)


def test_a_copy_of_a_compacted_topic_has_its_row_before_it_begins(tmp_path, heard):  # noqa: F811
    """Without one a start does not know where gaps may be, and takes a tail that a power cut took at a roll for one."""
    bench = following(str(tmp_path / "t-0"), cleanup_policy=frozenset({"compact"}))  # noqa: F811
    bench.partition.follower.settle(heard)
    bench.disk.flush()
    assert heard.told == []
    bench.disk.keep_bounds()
    assert [one[:2] for one in heard.told] == [("taken", 0)]
    bench.partition.follower.take(data(batch(0, 2), high_watermark=9), heard)
    bench.disk.write()
    bench.disk.flush()
    assert [one[:2] for one in heard.told] == [("taken", 0), ("taken", 2)]


def test_a_copy_of_a_topic_that_is_compacted_from_now_on_has_its_row_before_it_goes_on(bench, heard):  # noqa: F811
    """The row of its log is of before: a start would not know where gaps may be."""
    log, role = bench.partition.log, bench.partition.follower
    log.gaps.kept(log.bounds.gaps_below, log.bounds.border_gaps_below)
    log.update_config(LogConfig(flush_messages=1, cleanup_policy=frozenset({"compact"})))
    role.take(data(batch(0, 2), high_watermark=0), heard)
    bench.disk.write()
    bench.disk.flush()
    assert heard.told == []
    bench.disk.keep_bounds()
    assert [one[:2] for one in heard.told] == [("taken", 2)]


def test_a_copy_that_never_had_a_gap_waits_for_no_row(bench, heard):  # noqa: F811
    """Its cleaner had allowed gaps and left none; the topic is compacted no longer, and its row says nothing of gaps."""
    bench.partition.log.gaps.below = 30
    bench.partition.log.gaps.kept(None, None)
    bench.partition.follower.settle(heard)
    bench.disk.flush()
    assert [one[:2] for one in heard.told] == [("taken", 0)]
