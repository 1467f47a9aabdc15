"""Files of a node on disk: whole directories or none, and nothing overwritten."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from stratalog.broker.replicas.directory_format import format_node, identity_of
from stratalog.broker.settings.config import load_config
from stratalog.hot.directory import BALLAST
from stratalog.hot.storage.checkpoint import read_meta_properties
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.formatting.node_format import BOOTSTRAP_SNAPSHOT, FormatOptions, NodeIdentity
from stratalog.metadata.image.features import BOOTSTRAP_LEVELS
from stratalog.metadata.quorum.bootstrap import BOOTSTRAP_CHECKPOINT, read_bootstrap
from stratalog.metadata.quorum.checkpoint import read_checkpoint
from stratalog.wire.errors import Corrupt, Invalid

CLUSTER = "4L6g3nShT-eMCtK--X86sw"


@pytest.fixture
def formatted(tmp_path):
    """Formats the directories d1 and d2, the second with the metadata log; returns the plan."""

    def run(*, files=None, **options):
        paths = (str(tmp_path / "d1"), str(tmp_path / "deep" / "d2"))
        node = NodeIdentity(
            node_id=1,
            is_controller=True,
            has_static_voters=False,
            directories=paths,
            metadata_directory=paths[1],
            controller_listener="CONTROLLER",
            controller_address=("localhost", 9093),
        )
        wanted = FormatOptions(**{"cluster_id": CLUSTER, "standalone": True, **options})
        return format_node(node, wanted, files=files or RealFilesystem(), now_ms=5)

    return run


def content(top: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {path.relative_to(top).as_posix(): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def test_every_directory_is_whole_on_disk(formatted, tmp_path):
    """The identity, the first records, and the voters where the metadata log goes."""
    plan = formatted()
    one, two = (read_meta_properties(RealFilesystem(), each.path) for each in plan.directories)
    assert (one.cluster_id, one.node_id, two.cluster_id) == (CLUSTER, 1, CLUSTER)
    assert one.directory_id != two.directory_id
    files = content(tmp_path)
    assert files[f"d1/{BOOTSTRAP_CHECKPOINT}"] == files[f"deep/d2/{BOOTSTRAP_CHECKPOINT}"]
    assert len(read_bootstrap(files[f"d1/{BOOTSTRAP_CHECKPOINT}"], "x")) == len(BOOTSTRAP_LEVELS)
    (voter,) = read_checkpoint(files[f"deep/d2/{BOOTSTRAP_SNAPSHOT}"], "x").quorum.voters
    assert voter.voter_directory_id == two.directory_id
    assert f"d1/{BOOTSTRAP_SNAPSHOT}" not in files


def test_a_second_time_changes_nothing(formatted, tmp_path):
    """Refused without --ignore-formatted, and without work with it."""
    formatted()
    before = content(tmp_path)
    with pytest.raises(Invalid, match="is already formatted"):
        formatted()
    assert formatted(ignore_formatted=True).directories == ()
    assert content(tmp_path) == before


def test_a_directory_that_is_added_later_is_formatted_alone(formatted, tmp_path):
    """The others keep their files, the metadata directory its voters."""
    formatted()
    before = content(tmp_path / "deep")
    (tmp_path / "d1" / "meta.properties").unlink()
    plan = formatted(ignore_formatted=True)
    assert [one.path for one in plan.directories] == [str(tmp_path / "d1")]
    assert content(tmp_path / "deep") == before


@pytest.mark.parametrize("name", ["orders-0/x.log", "__cluster_metadata-0/00000000000000000000.log", "recovery-point"])
def test_a_directory_without_owner_that_holds_data_is_refused(formatted, tmp_path, name):
    """Its data would become that of a new node; no directory is written then, not even the empty one."""
    path = tmp_path / "deep" / "d2" / name
    path.parent.mkdir(parents=True)
    path.write_text("kept")
    with pytest.raises(Invalid, match=r"has no meta\.properties and is not empty"):
        formatted()
    assert content(tmp_path) == {f"deep/d2/{name}": b"kept"}
    assert not (tmp_path / "d1").exists()


def test_a_directory_that_was_emptied_under_a_running_broker_is_formatted(formatted, tmp_path):
    """The broker puts its ballast back, which holds no data."""
    (tmp_path / "deep" / "d2").mkdir(parents=True)
    (tmp_path / "deep" / "d2" / BALLAST).write_bytes(bytes(10))
    assert str(tmp_path / "deep" / "d2") in [one.path for one in formatted().directories]


def test_an_owner_that_cannot_be_read_is_refused(formatted, tmp_path):
    """Kafka passes such a directory over; ours may be the one with the metadata log."""
    (tmp_path / "d1").mkdir()
    (tmp_path / "d1" / "meta.properties").write_text("version=1\n")
    with pytest.raises(Corrupt, match="nothing was written"):
        formatted(ignore_formatted=True)
    assert not (tmp_path / "deep").exists()


def test_a_file_in_the_place_of_a_directory_is_refused(formatted, tmp_path):
    """The message names the settings."""
    (tmp_path / "d1").write_text("")
    with pytest.raises(Invalid, match="is not a directory"):
        formatted()


def test_a_directory_in_use_is_refused(formatted, tmp_path):
    """A broker may be about to begin in it."""
    (tmp_path / "d1").mkdir()
    with (tmp_path / "d1" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Invalid, match="in use by another process"):
            formatted()
    assert set(content(tmp_path)) == {"d1/.lock"}


class FailingDisk(RealFilesystem):
    """A disk on which the renames after the first ``left`` fail."""

    def __init__(self, left: int) -> None:
        self.left = left

    def rename(self, source: str, target: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "Input/output error", target)
        super().rename(source, target)


@pytest.mark.parametrize("left", range(5))
def test_a_crash_at_any_file_leaves_directories_that_are_whole_or_have_no_owner(formatted, tmp_path, left):
    """The next try formats what is left, and both directories agree."""
    with pytest.raises(OSError, match="Input/output"):
        formatted(files=FailingDisk(left))
    owners = [read_meta_properties(RealFilesystem(), str(tmp_path / name)) for name in ("d1", "deep/d2")]
    assert [owner is not None for owner in owners] == [left >= 2, False]
    plan = formatted(ignore_formatted=True)
    assert len(plan.directories) == 2 - (left >= 2)
    (voter,) = read_checkpoint(content(tmp_path)[f"deep/d2/{BOOTSTRAP_SNAPSHOT}"], "x").quorum.voters
    assert (
        voter.voter_directory_id == read_meta_properties(RealFilesystem(), str(tmp_path / "deep" / "d2")).directory_id
    )
    assert not list(tmp_path.rglob("*.tmp"))


def test_the_identity_of_a_node_comes_from_its_settings():
    """Directories are in order, each once; the controller is reached where its listener is."""
    settings = [
        "process.roles=broker,controller",
        "controller.quorum.bootstrap.servers=localhost:9093",
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.listener.names=CONTROLLER",
        "log.dirs=/data/d2,/data/d1",
        "metadata.log.dir=/data/meta",
    ]
    found = identity_of(load_config(assignments=settings))
    assert found.directories == ("/data/d1", "/data/d2", "/data/meta")
    assert (found.metadata_directory, found.controller_address) == ("/data/meta", ("localhost", 9093))
    assert (found.is_controller, found.has_static_voters, found.controller_listener) == (True, False, "CONTROLLER")
