"""Tests of hot/recovery/quarantine.py."""

import json
from pathlib import Path

from stratalog.hot.recovery.quarantine import NOTE, STRAY, Quarantine
from stratalog.wire.topic import TopicPartition


def test_files_are_moved_with_a_note_that_says_why(files, tmp_path):
    """Into a directory in the form Kafka gives to strays; absent names are skipped."""
    partition = tmp_path / "flights-0"
    partition.mkdir()
    (partition / "a.log").write_bytes(b"bad")
    quarantine = Quarantine(files, str(partition), 255)
    assert quarantine.directory is None
    quarantine.move(["a.log", "a.index"], "the CRC is wrong")
    source = partition / "b.log"
    source.write_bytes(b"123456789rest and more")
    quarantine.keep("b.log.from-9", files.open_read(str(source)), 9, 4, "cut off")
    source.unlink()
    directory = quarantine.directory
    assert directory == f"{tmp_path}/flights-0.000000000000000000000000000000ff-stray"
    assert STRAY.fullmatch(Path(directory).name)
    assert sorted(entry.name for entry in Path(directory).iterdir()) == ["a.log", "b.log.from-9", NOTE]
    assert list(partition.iterdir()) == []
    assert Path(f"{directory}/b.log.from-9").read_bytes() == b"rest"
    notes = json.loads(Path(f"{directory}/{NOTE}").read_text())
    assert notes == [
        {"file": "a.log", "reason": "the CRC is wrong"},
        {"file": "b.log.from-9", "reason": "cut off", "bytes": 4},
    ]


def test_two_quarantines_have_two_directories(files, tmp_path):
    """The same moment gets the next number."""
    partition = tmp_path / "flights-0"
    partition.mkdir()
    kept = set()
    for _ in range(2):
        quarantine = Quarantine(files, str(partition), 7)
        quarantine.move(["x"], "r")
        kept.add(quarantine.directory)
    assert len(kept) == 2


def test_a_torn_tail_of_a_topic_with_the_longest_name_is_kept(bench):
    """A name that Linux does not take had its log directory offline at each start."""
    bench.partition = TopicPartition("t" * 249, 0)
    bench.directory = f"{Path(bench.directory).parent}/{bench.partition}"
    log = bench.open()
    bench.append(log, 2)
    log.sync()
    log.abandon()
    path = Path(bench.directory, f"{0:020d}.log")
    path.write_bytes(path.read_bytes() + b"torn")
    again = bench.open(clean=False)
    assert again.log_end_offset == 2
    assert Path(again.recovery.quarantine, f"{0:020d}.log.from-{path.stat().st_size}").read_bytes() == b"torn"
    assert STRAY.fullmatch(Path(again.recovery.quarantine).name)
