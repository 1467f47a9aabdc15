"""Tests of hot/log/parts.py."""


def test_every_part_stays_the_same_object_as_long_as_the_log_is_open(bench, log):
    """Holders of a part, as `Log` and the broker's hot paths do, sees each truncation and restart."""
    parts = log._parts
    held = (log.producer_state, log.leader_epochs, log.tail, log.start, log.appender, *parts)
    bench.append(log, producer_id=7, producer_epoch=0, base_sequence=0)
    for change in (
        lambda: log.truncate_to(12),
        lambda: log.truncate_fully_and_start_at(40, (), None),
        lambda: log.delete_local_before(40),
        lambda: log.quarantine_and_restart_at(60, (), None, now_ms=7, reason="a test"),
    ):
        change()
        assert log._parts is parts
        now = (log.producer_state, log.leader_epochs, log.tail, log.start, log.appender, *log._parts)
        assert [id(one) for one in now] == [id(one) for one in held]
        assert log.producer_state.end_offset == log.log_end_offset == log.written_offset
        assert log.producer_state.entries == {}


def test_parts_of_one_log_share_its_segments_and_producers(log):
    """A second list of segments would go its own way with the next roll."""
    parts = log._parts
    for part in (log.tail, log.start, log.appender, parts.cycles, parts.snapshots):
        assert part._segments is parts.segments
    for part in (log.tail, log.start, log.appender):
        assert part._producers is parts.producers
