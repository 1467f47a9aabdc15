"""The modes of the files that a broker writes to directories."""

import stat
import subprocess
import sys

import pytest

from stratalog.cli.main import COMMANDS, PRIVATE
from stratalog.client.admin import create_topic
from stratalog.client.client import Client

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def serve(folder, *more):
    """A broker in a process of its own, under the umask that most systems have; the process and its address."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "stratalog", "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"),
            *("--data", str(folder / "data"), "--bucket", f"file://{folder}/bucket", "-s", "log.segment.bytes=1048576"),
            *("-s", f"stratalog.cache.dir={folder}/cache", *more),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        umask=0o022,
        text=True,
    )
    line = process.stdout.readline()
    return process, line.partition("kafka=")[2].partition(" ")[0]


def modes(folder):
    """Permissions by path of everything below a folder."""
    return {path.relative_to(folder).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


@pytest.fixture
def written(tmp_path):
    """A function that runs a broker, writes a topic, stops it, and tells the modes of all that it wrote."""

    def run(*more):
        process, address = serve(tmp_path, *more)
        try:
            with Client(address) as client:
                create_topic(client, "t", partition_count=1, configs={"remote.storage.enable": "true"})
        finally:
            process.terminate()
            process.communicate(timeout=60)
        return modes(tmp_path)

    return run


@pytest.mark.story
def test_no_other_account_reads_what_a_broker_writes(written):
    """Logs, metadata, checkpoints, the bucket: all of it."""
    found = written()
    assert any(name.endswith(".log") for name in found)
    assert {name: oct(mode) for name, mode in found.items() if mode & OTHERS} == {}


@pytest.mark.story
def test_directories_that_exist_stay_usable(written, tmp_path):
    """Made for others to enter: they keep their mode, new files in them are private."""
    for name in ("data", "bucket"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o755)
    found = written()
    assert found.pop("data") == found.pop("bucket") == 0o755
    assert {name for name, mode in found.items() if mode & OTHERS} == set()


@pytest.mark.story
def test_a_setting_lets_the_group_read(written):
    """For a reader under another account."""
    found = written("-s", "stratalog.umask=027")
    logs = {mode for name, mode in found.items() if name.endswith(".log")}
    assert logs == {0o640}
    assert found["data"] == 0o750


def test_commands_that_write_data_are_named():
    """Those that exist; the others write what their user asked for, or nothing."""
    assert set(COMMANDS) >= PRIVATE
    assert set(COMMANDS) - PRIVATE == {
        *(
            "apply",
            "backfill",
            "cluster",
            "consume",
            "doctor",
            "dump",
            "group",
            "produce",
            "quorum",
            "quota",
            "spark-zip",
            "stats",
            "topic",
        ),
        *("transaction", "verify"),
    }
