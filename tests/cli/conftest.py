"""A live broker for the commands, and the commands in this process or one of their own."""

import pytest

from tests.broker.conftest import live_broker, stratalog, topic
from tests.client.conftest import scripted

__all__ = ["live_broker", "scripted", "stratalog", "topic"]


@pytest.fixture
def three_batches():
    """Three batches of three records each from offset 100, the second compressed; times up to 1002, 2002, 1502."""
    from stratalog.wire.batch import Header, Record, build_batch
    from stratalog.wire.compression import Codec

    def batch(offset: int, time_ms: int, codec: Codec = Codec.NONE) -> bytes:
        headers = (Header("h", b"x"),)
        records = [Record(offset + n, time_ms + n, b"k%d" % n, b"v%d" % n, headers) for n in range(3)]
        return bytes(build_batch(records, codec=codec, leader_epoch=4))

    return [batch(100, 1000), batch(103, 2000, Codec.ZSTD), batch(106, 1500)]


@pytest.fixture
def start_command(tmp_path):
    """Start a command line in a process of its own, on free ports; all are gone after the test."""
    import subprocess
    import sys

    processes = []

    def started(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "stratalog.cli.main", *arguments]
        command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        processes.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        )
        return processes[-1]

    yield started
    for process in processes:
        process.kill()
        process.communicate()
