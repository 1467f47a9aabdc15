"""A gap that ends above the leader's mark, where no cleaner comes: perhaps the offset of a batch is damaged there."""

from tests.broker.replicas.test_follower import batch, bench, data, heard  # noqa: F401 - fixtures


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
