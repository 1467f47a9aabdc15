"""A gap that ends above the leader's mark, where no cleaner comes: perhaps the offset of a batch is damaged there."""

from stratalog.hot.config import LogConfig
from tests.broker.replicas.test_follower import batch, bench, data, following, heard  # noqa: F401 - fixtures


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
