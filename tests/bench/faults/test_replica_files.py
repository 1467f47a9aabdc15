"""Files of replicas that differ are found."""

from bench.faults.replica_files import compacted_faults, equal_faults, read_replica
from stratalog.wire.batch import Record, build_batch


def replica(folder, *values, begin=0, damaged=False):
    """A log of one record a batch; a value of None leaves its offset out, a pair is a key and a value."""
    folder.mkdir()
    data = bytearray()
    for offset, value in enumerate(values, begin):
        if value is not None:
            key, value = value if isinstance(value, tuple) else (None, value)
            batch = build_batch([Record(0, 0, key, value, ())])
            batch[:8] = offset.to_bytes(8, "big")
            data += batch
    if damaged:
        data[-1] ^= 1
    (folder / f"{begin:020d}.log").write_bytes(data)
    return read_replica(folder)


def test_replicas_are_compared_below_the_high_watermark_where_all_have_records(tmp_path):
    """One may begin later, and end later."""
    logs = {1: replica(tmp_path / "1", b"a", b"b", b"c"), 2: replica(tmp_path / "2", b"b", b"d", begin=1)}
    assert list(equal_faults("t-0", logs, 2)) == []
    assert "differ in 1 of 2 batches from 1 to the high watermark 3, first at offset 2" in next(
        equal_faults("t-0", logs, 3)
    )


def test_a_replica_that_ends_below_the_high_watermark_is_a_fault(tmp_path):
    """All were in sync."""
    logs = {1: replica(tmp_path / "1", b"a", b"b"), 2: replica(tmp_path / "2", b"a")}
    assert "node 2 has the log up to 1, and the high watermark is 2" in list(equal_faults("t-0", logs, 2))[-1]


def test_a_batch_with_a_wrong_checksum_is_damage(tmp_path):
    """It is no record of the replica."""
    found = replica(tmp_path / "1", b"a", b"b", damaged=True)
    assert len(found.damage) == 1
    assert list(found.batches) == [0]


def test_compacted_replicas_agree_on_the_last_record_of_each_key(tmp_path):
    """Each removes earlier ones when it comes to it."""
    one = replica(tmp_path / "1", (b"k", b"a"), (b"k", b"b"), (b"l", b"c"))
    cleaned = replica(tmp_path / "2", None, (b"k", b"b"), (b"l", b"c"))
    assert list(compacted_faults("t-0", {1: one, 2: cleaned}, 3)) == []
    lost = replica(tmp_path / "3", (b"k", b"a"), None, (b"l", b"c"))
    assert "other last records of 1 keys" in next(compacted_faults("t-0", {1: one, 3: lost}, 3))
    other = replica(tmp_path / "4", (b"k", b"x"), (b"k", b"b"), (b"l", b"c"))
    assert "other records at 1 offsets, first at 0" in next(compacted_faults("t-0", {1: one, 4: other}, 3))
