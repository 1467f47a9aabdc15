"""Tests of hot/log/doomed_files.py."""


def test_a_segment_that_comes_back_after_a_crash_has_its_indexes(bench, log):
    """They are renamed when it is durable that its log has gone: which transactions were aborted stands nowhere else."""
    index, path = f"{0:020d}.index", f"{0:020d}.log"
    log.delete_local_before(10)
    assert {index, path + ".deleted"} <= set(bench.names())
    assert log.take_removal(bench.now_ms) is None
    assert index in bench.names()
    log.sync()
    assert log.take_removal(bench.now_ms) is None
    assert {index + ".deleted", path + ".deleted"} <= set(bench.names())
    removals = [log.take_removal(bench.now_ms + delay_ms) for delay_ms in (60_000, 120_000)]
    for removal in removals:
        if removal is not None:
            removal.run()
    assert not [name for name in bench.names() if name.startswith(f"{0:020d}") and "snapshot" not in name]


def test_files_are_renamed_first_and_unlinked_after_the_delay(bench, log):
    """file.delete.delay.ms counts from the first request for the files; files that were given out are not given out again."""
    log.delete_local_before(10)
    assert f"{0:020d}.log.deleted" in bench.names()
    assert f"{0:020d}.log" not in bench.names()
    assert log.take_removal(bench.now_ms) is None
    assert log.take_removal(bench.now_ms + 59_999) is None
    removal = log.take_removal(bench.now_ms + 60_000)
    assert removal is not None
    assert log.take_removal(bench.now_ms + 120_000) is None
    assert f"{0:020d}.log.deleted" in bench.names()
    removal.run()
    removal.run()  # gone already is fine
    assert not [name for name in bench.names() if name.endswith(".deleted")]


def test_a_log_file_is_removed_after_its_indexes_have_left(bench, log):
    """Also where no sync cycle came by: a start would take an index that is left alone for that of a lost file."""
    log.delete_local_before(10)
    assert log.take_removal(bench.now_ms) is None
    removal = log.take_removal(bench.now_ms + 60_000)
    assert removal is not None
    assert {f"{0:020d}{suffix}.deleted" for suffix in (".log", ".index", ".timeindex")} <= set(bench.names())
    removal.run()
    assert not [name for name in bench.names() if name.endswith(".deleted")]
