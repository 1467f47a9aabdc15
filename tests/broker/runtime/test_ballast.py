"""Tests of broker/runtime/ballast.py."""

import errno
import logging
import os
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from stratalog.broker.cold.cache_names import chunk_name
from stratalog.broker.runtime import ballast as ballast_module
from stratalog.broker.runtime.ballast import Ballast, clear_cache, raise_if_full, same_file_system
from stratalog.client.admin import create_topic
from stratalog.client.client import Client
from stratalog.client.records import fetch, produce_batches, visible_records
from stratalog.tier.reading.remote_log import ChunkId
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

MIB = 1 << 20
NAME = TopicPartition("t", 0)
CHUNK = chunk_name(bytes(16), ChunkId(bytes(16), 0), "0-1")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 24 MiB; skipped where it may not be mounted."""
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    command = ["mount", "-t", "tmpfs", "-o", f"size={24 * MIB}", "tmpfs", str(place)]
    mount = subprocess.run(command, capture_output=True, check=False)
    if mount.returncode:
        pytest.skip(f"no tmpfs here: {mount.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def free_bytes(place) -> int:
    volume = os.statvfs(place)
    return volume.f_bavail * volume.f_frsize


def fill(place, *, leave_bytes: int = 0) -> None:
    with Path(place, "filler").open("ab") as file:
        os.posix_fallocate(file.fileno(), file.tell(), free_bytes(place) - leave_bytes)


def test_it_takes_a_sixteenth_of_its_file_system_at_most(small_disk):
    """Blocks, not a hole: only those can be given up. A second call changes nothing."""
    ballast = Ballast(str(small_disk), 8 * MIB)
    for _ in range(2):
        ballast.hold()
        assert ballast.held_bytes == 24 * MIB // 16
    assert free_bytes(small_disk) <= 24 * MIB - 24 * MIB // 16
    assert Ballast(str(small_disk), MIB).held_bytes == 24 * MIB // 16


def test_it_is_made_where_there_is_room_only(small_disk):
    """Records come first; and none is wanted with a size of 0."""
    ballast = Ballast(str(small_disk), MIB)
    fill(small_disk, leave_bytes=MIB + MIB // 2)
    ballast.hold()
    assert ballast.held_bytes == 0
    (small_disk / "filler").unlink()
    ballast.hold()
    assert ballast.held_bytes == MIB
    Ballast(str(small_disk), 0).hold()
    assert ballast.held_bytes == 0


def test_a_used_ballast_is_taken_back_as_far_as_it_is_there(small_disk):
    """Else the first records after a start would fill it; all of it when there is room again."""
    ballast = Ballast(str(small_disk), MIB)
    ballast.hold()
    fill(small_disk)
    ballast.make_room(str(small_disk / "no cache"))
    assert (ballast.held_bytes, free_bytes(small_disk)) == (0, MIB)
    (small_disk / "checkpoint").write_bytes(bytes(100_000))
    ballast.hold()
    assert MIB // 2 < ballast.held_bytes < MIB
    assert 0 < free_bytes(small_disk) <= 70_000
    (small_disk / "filler").unlink()
    ballast.hold()
    assert ballast.held_bytes == MIB


def test_the_cache_goes_before_the_ballast(small_disk, tmp_path, caplog):
    """It can be fetched again; a cache on another disk stays, and on a disk with room everything does."""
    ballast, cache = Ballast(str(small_disk), MIB), small_disk / "cache"
    ballast.hold()
    cache.mkdir()
    (cache / CHUNK).write_bytes(bytes(2 * MIB))
    ballast.make_room(str(cache))
    assert list(cache.iterdir())
    fill(small_disk)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / CHUNK).write_bytes(b"x")
    assert not same_file_system(str(small_disk), str(elsewhere))
    with caplog.at_level(logging.WARNING):
        ballast.make_room(str(cache))
    assert (list(cache.iterdir()), ballast.held_bytes) == ([], MIB)
    assert "1 files of the chunk cache have gone" in caplog.text
    fill(small_disk)
    ballast.make_room(str(elsewhere))
    assert ballast.held_bytes == 0
    assert clear_cache(str(elsewhere)) == 1


def test_files_of_others_stay_where_the_cache_is_cleared(tmp_path):
    """The setting may name a directory that is used for other things, or a log directory: their files are no chunks."""
    others = [
        "meta.properties",
        ".lock",
        "recovery-point-offset-checkpoint",
        "photo.chunk",
        "0.chunk",
        f"{'a' * 32}.chunk",
    ]
    ours = [CHUNK, f"{'a' * 32}.3.chunk", f"{'a' * 32}.{'0' * 32}.12.chunk.ab-1"]
    for name in [*others, *ours]:
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "t-0").mkdir()
    assert clear_cache(str(tmp_path)) == len(ours)
    assert {path.name for path in tmp_path.iterdir()} == {*others, "t-0"}


def test_a_cache_that_cannot_be_looked_at_keeps_no_ballast_from_being_given_up(small_disk, caplog):
    """Its disk may be dead, or its path lead through a file: that is no error of the log directory."""
    ballast = Ballast(str(small_disk), MIB)
    ballast.hold()
    fill(small_disk)
    assert not same_file_system(str(small_disk), str(small_disk / "filler" / "cache"))
    ballast.make_room(str(small_disk / "filler" / "cache"))
    assert ballast.held_bytes == 0
    ballast.hold()
    fill(small_disk)
    ballast.make_room(str(small_disk / "filler"))
    assert ballast.held_bytes == 0
    assert "the chunk cache" in caplog.text


def test_a_small_write_finds_room_on_a_full_disk(small_disk):
    """In that of the ballast, which is taken back at once; any other error is the caller's."""
    ballast, target = Ballast(str(small_disk), MIB), small_disk / "checkpoint"
    ballast.hold()
    fill(small_disk)
    ballast.lend(lambda: target.write_bytes(bytes(50_000)) and None)
    assert target.stat().st_size == 50_000
    assert ballast.held_bytes > MIB // 2
    with pytest.raises(OSError, match="larger"):
        ballast.lend(lambda: (_ for _ in ()).throw(OSError(errno.EIO, "larger")))
    ballast.release()
    with pytest.raises(OSError, match="No space"):
        ballast.lend(lambda: (small_disk / "more").write_bytes(bytes(MIB)) and None)


def test_a_ballast_that_cannot_be_made_is_logged_and_skipped(tmp_path, monkeypatch, caplog):
    """Records are served all the same."""

    def refused(*_):
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(ballast_module.os, "posix_fallocate", refused)
    ballast = Ballast(str(tmp_path), MIB)
    ballast.hold()
    assert ballast.held_bytes == 0
    assert "cannot be made" in caplog.text


def test_a_ballast_that_cannot_grow_keeps_what_it_has(tmp_path, monkeypatch, caplog):
    """A quota may refuse what the file system has; the next start on a full disk needs what is there."""
    small, large = Ballast(str(tmp_path), MIB), Ballast(str(tmp_path), 2 * MIB)
    small.hold()
    really = os.posix_fallocate

    def refused(descriptor, offset, size_bytes):
        really(descriptor, offset, size_bytes // 4 * 3)
        raise OSError(errno.EDQUOT, "quota exceeded")

    monkeypatch.setattr(ballast_module.os, "posix_fallocate", refused)
    large.hold()
    assert "cannot be made" in caplog.text
    assert large.held_bytes == MIB


def test_a_ballast_that_cannot_be_made_was_not_given_up(tmp_path, monkeypatch):
    """Only room that was given up is taken back where little is left; any other is for records."""

    def refused(*_):
        raise OSError(errno.EDQUOT, "quota exceeded")

    ballast = Ballast(str(tmp_path), MIB)
    with monkeypatch.context() as patched:
        patched.setattr(ballast_module.os, "posix_fallocate", refused)
        ballast.hold()
    volume = os.statvfs(tmp_path)
    little = SimpleNamespace(f_blocks=volume.f_blocks, f_frsize=4096, f_bavail=MIB * 3 // 2 // 4096)
    monkeypatch.setattr(ballast_module.os, "statvfs", lambda _: little)
    ballast.hold()
    assert ballast.held_bytes == 0
    assert not Path(ballast.path).exists()


def test_a_disk_that_cannot_be_looked_at_keeps_the_error_of_the_write(tmp_path, monkeypatch, caplog):
    """The caller has to learn why its checkpoint is not there; that the ballast is not either is logged."""
    ballast = Ballast(str(tmp_path), MIB)
    ballast.hold()

    def broken(_):
        raise OSError(errno.EIO, "dead disk")

    def full():
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(ballast_module.os, "statvfs", broken)
    with pytest.raises(OSError, match="no space"):
        ballast.lend(full)
    assert "dead disk" in caplog.text


def test_the_error_of_a_start_names_file_and_remedy():
    """Only for a full disk; others are left alone."""
    raise_if_full(OSError(errno.EIO, "broken"))
    raise_if_full(ValueError())
    with pytest.raises(OSError, match="make some MiB of room") as caught:
        raise_if_full(OSError(errno.ENOSPC, "No space left on device", "t-0/1.log"))
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "t-0/1.log")


def append(client: Client, batch: bytes) -> bool:
    """Whether the broker took it."""
    try:
        return produce_batches(client, {NAME: batch}, acks=-1)[NAME].error_code == 0
    except KafkaError as error:
        assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
        return False


def read_all(client: Client) -> list[bytes]:
    offset, found = 0, []
    while True:
        (fetched,) = fetch(client, {NAME: offset}, max_wait_ms=500)
        for next_offset, records in visible_records(fetched, offset):
            found += [record.value for record in records]
            offset = next_offset
        if offset >= fetched.high_watermark:
            return found


def wait_for(condition, broker) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, broker.errors()
        time.sleep(0.2)


@pytest.mark.story
@pytest.mark.timeout(300)
def test_a_broker_killed_on_a_full_disk_starts_uploads_and_serves(serve_process, small_disk, tmp_path, new_batch):
    """Again and again: each start needs some room, and each leaves room for the next one."""
    bucket, away = tmp_path / "bucket", tmp_path / "away"
    needed = bucket / ".stratalog"  # each write begins with a file below it; reads do without
    (small_disk / "data").mkdir()
    (tmp_path / "data").symlink_to(small_disk / "data")
    broker = serve_process(
        stratalog_cache_dir=f"{small_disk}/cache", stratalog_ballast_bytes=8 * MIB,
        log_retention_check_interval_ms=200, log_segment_delete_delay_ms=100,
        log_flush_offset_checkpoint_interval_ms=500, remote_log_manager_task_retry_backoff_max_ms=500,
    )  # fmt: skip
    configs = {
        "remote.storage.enable": "true", "internal.segment.bytes": "500000", "local.retention.bytes": "1",
        "retention.ms": "-1",
    }  # fmt: skip
    with Client(broker.address) as client:
        create_topic(client, "t", partition_count=1, configs=configs)
        taken, refused = [b"%d " % number + b"x" * 50_000 for number in range(30)], 0
        assert all(append(client, new_batch(value)) for value in taken)
        wait_for(lambda: any(bucket.rglob("*.seg")), broker)
        time.sleep(1)  # the checkpoint of what is archived
        needed.rename(away)
        needed.write_text("no directory")
        while refused < 20:
            value = b"%d " % (len(taken) + refused) + b"x" * 50_000
            if append(client, new_batch(value)):
                taken.append(value)
            else:
                refused += 1
    for _ in range(3):
        broker.end(signal.SIGKILL)
        broker.start()
        with Client(broker.address) as client:
            while append(client, new_batch(b"x" * 500)):
                taken.append(b"x" * 500)
    needed.unlink()
    away.rename(needed)
    wait_for(lambda: free_bytes(small_disk) > 12 * MIB, broker)
    with Client(broker.address) as client:
        assert append(client, new_batch(b"after"))
        assert read_all(client) == [*taken, b"after"]
    assert (small_disk / "data" / ".stratalog-ballast").exists()
    assert broker.end(signal.SIGTERM) == 0
