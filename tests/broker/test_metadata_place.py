"""Looks where a node's metadata log lies before the node starts: it begins no new one in the midst of the logs of an older one."""

import pytest
from confluent_kafka import Producer

from stratalog.broker.joinable import joinable
from stratalog.broker.metadata_place import own_directories
from stratalog.broker.settings.config import load_config
from stratalog.client.admin import create_topic
from stratalog.hot.storage.checkpoint import (
    META_PROPERTIES,
    RECOVERY_POINTS,
    MetaProperties,
    write_meta_properties,
)
from stratalog.metadata.formatting.node_format import BOOTSTRAP_SNAPSHOT
from stratalog.metadata.quorum.bootstrap import BOOTSTRAP_CHECKPOINT
from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.wire.errors import Invalid
from tests.conftest import RunningNode

ALONE = ()
LISTED = ("controller.quorum.voters=1@a:9093,2@b:9093", "listeners=PLAINTEXT://a:9092,CONTROLLER://a:9093")
ITSELF = ("controller.quorum.voters=1@a:9093", "listeners=PLAINTEXT://a:9092,CONTROLLER://a:9093")
SERVERS = (
    "controller.quorum.bootstrap.servers=a:9093,b:9093",
    "listeners=PLAINTEXT://a:9092,CONTROLLER://a:9093",
)
BROKER = ("process.roles=broker", "controller.quorum.bootstrap.servers=b:9093")
CONTROLLER = ("process.roles=controller", LISTED[0], "listeners=CONTROLLER://a:9093")

LOG = ("__cluster_metadata-0/00000000000000000000.log", "__cluster_metadata-0/quorum-state", META_PROPERTIES)
RUN = (META_PROPERTIES, RECOVERY_POINTS)
FORMATTED = (META_PROPERTIES, BOOTSTRAP_CHECKPOINT)
VOTER = (*FORMATTED, BOOTSTRAP_SNAPSHOT)
PARTITION = (META_PROPERTIES, "t-0/00000000000000000000.log")
EMPTY = (META_PROPERTIES, "t-0/partition.metadata")


@pytest.fixture
def start(tmp_path, watched_files):
    """Look at the directories ``one``, the first of the settings, and ``two``, with the files that are in them."""

    def run(kind, one, two, *, version=0, owner=1, directories="one,two", metadata=""):
        for name, files in (("one", one), ("two", two)):
            for file in files:
                path = tmp_path / name / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(QuorumState(data_version=version).to_bytes() if "state" in file else b"")
                if file == META_PROPERTIES:
                    write_meta_properties(
                        watched_files, str(path.parent), MetaProperties("c", owner, name.encode() * 5 + b"x")
                    )
        given = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": ",".join(f"{tmp_path}/{name}" for name in directories.split(",")),
            **({"metadata.log.dir": f"{tmp_path}/{metadata}"} if metadata else {}),
            **dict(each.split("=", 1) for each in kind),
        }
        assignments = [f"{name}={value}" for name, value in given.items()]
        config = load_config(assignments=assignments, environment={}, host_name="a")
        return [path.rpartition("/")[2] for path in own_directories(joinable(config), watched_files)]

    return run


@pytest.mark.parametrize("kind", [ALONE, LISTED, ITSELF, SERVERS, CONTROLLER])
@pytest.mark.parametrize("directories", ["one,two", "one"])
def test_a_metadata_log_in_another_directory_ends_the_start(start, kind, directories):
    """Names in another order; a directory for the metadata log that was added later. It says how it goes on."""
    metadata = "one" if directories == "one" else ""
    directories = "two" if metadata else directories
    with pytest.raises(Invalid) as refused:
        start(kind, RUN if directories == "one,two" else (), (*LOG, *RUN), directories=directories, metadata=metadata)
    assert "the metadata log of this node lies in /" in str(refused.value)
    assert "Set metadata.log.dir=/" in str(refused.value)
    assert "/two/__cluster_metadata-0 to /" in str(refused.value)


@pytest.mark.parametrize("kind", [ALONE, LISTED, ITSELF, CONTROLLER])
def test_two_metadata_logs_end_the_start(start, kind):
    """One of them is older: topics and votes would be forgotten."""
    with pytest.raises(Invalid, match=r"two metadata logs of this node: in /.*/one, .* and in /.*/two\."):
        start(kind, LOG, LOG)


def test_a_voter_that_is_known_by_its_directory_moves_no_log(start):
    """Its log stays in the directory with its id."""
    with pytest.raises(Invalid, match=r"name that first in log\.dirs\. The files are unchanged"):
        start(SERVERS, RUN, LOG, version=1)


@pytest.mark.parametrize("kind", [ALONE, ITSELF])
@pytest.mark.parametrize(
    ("one", "two"),
    [((), RUN), ((), PARTITION), ((), EMPTY), (RUN, RUN), (PARTITION, ()), (RUN, ("lost+found/x",))],
    ids=["disk away", "no checkpoint", "no segment", "log away", "only directory", "new disk"],
)
def test_the_only_voter_begins_no_log_beside_those_of_an_older_one(start, kind, one, two):
    """The disk of its metadata is not mounted, or is away."""
    with pytest.raises(
        Invalid, match=r"/one has no metadata log, and a node has run with /.*Mount the disk of /.*/one"
    ):
        start(kind, one, two)


@pytest.mark.parametrize(("kind", "one"), [(ALONE, ()), (LISTED, RUN), (CONTROLLER, RUN), (ITSELF, ())])
def test_no_log_is_begun_while_it_may_lie_on_a_disk_that_fails(start, tmp_path, kind, one):
    """Also at what may be a first start: leave that directory out."""
    (tmp_path / "two").write_bytes(b"")
    with pytest.raises(
        Invalid, match=r"/one has no metadata log, and .*/two, which may have it, cannot be read: .*first start"
    ):
        start(kind, one, ())


@pytest.mark.parametrize(
    ("kind", "one", "two"),
    [
        (ALONE, (), ()),
        (ALONE, ("backup-2024/file.txt",), ("python-3/file.txt",)),
        (ALONE, (*FORMATTED, "backup-2024/file.txt"), ()),
        (ALONE, (), (META_PROPERTIES,)),
        (ALONE, (META_PROPERTIES,), (META_PROPERTIES,)),
        (ALONE, (META_PROPERTIES,), ("__cluster_metadata-0/partition.metadata", META_PROPERTIES)),
        (ALONE, (*LOG, *RUN, *PARTITION), (*RUN, *PARTITION)),
        (ALONE, VOTER, FORMATTED),
        (ALONE, VOTER, (*RUN, *PARTITION)),
        (ALONE, FORMATTED, (*RUN, *PARTITION)),
        (ALONE, (*LOG, *RUN), ()),
        (ITSELF, FORMATTED, FORMATTED),
        (LISTED, FORMATTED, FORMATTED),
        (LISTED, FORMATTED, (*RUN, *PARTITION)),
        (LISTED, (*RUN, *PARTITION), (*RUN, *PARTITION)),
        (SERVERS, VOTER, FORMATTED),
        (SERVERS, FORMATTED, (*RUN, *PARTITION)),
        (CONTROLLER, FORMATTED, FORMATTED),
        (CONTROLLER, RUN, ()),
        (BROKER, FORMATTED, (*RUN, *PARTITION)),
        (BROKER, (*RUN, *PARTITION), (*RUN, *PARTITION)),
    ],
)
def test_other_starts_go_on(start, caplog, kind, one, two):
    """First ones, one that a crash has ended, a metadata disk that was formatted again, a log that was moved away to be fetched again."""
    assert start(kind, one, two) == ["one", "two"]
    assert start(kind, one, two, directories="two", metadata="one") == ["two", "one"]
    assert not caplog.messages


@pytest.mark.parametrize(
    ("kind", "one"), [(BROKER, RUN), (BROKER, LOG), (BROKER, ()), (SERVERS, FORMATTED), (SERVERS, LOG)]
)
def test_a_log_that_is_a_copy_may_be_another_one(start, caplog, kind, one):
    """A broker's, or that of a dynamic voter, who is another one in another directory."""
    assert start(kind, one, LOG) == ["one", "two"]
    assert "an older one lies in" in caplog.text


def test_a_directory_with_two_names_has_one_log(start, tmp_path):
    """That of the metadata log may be a link to one of the others, on a controller."""
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").mkdir()
    assert start(CONTROLLER, (), LOG) == ["one", "two"]
    assert start(CONTROLLER, (), LOG, directories="two", metadata="one") == ["two", "one"]


@pytest.mark.parametrize(("kind", "one"), [(ALONE, LOG), (BROKER, RUN), (BROKER, FORMATTED), (SERVERS, FORMATTED)])
def test_a_disk_that_fails_is_not_missed_where_the_log_is_there_or_a_copy(start, tmp_path, kind, one):
    """The node starts without it."""
    (tmp_path / "two").write_bytes(b"")
    assert start(kind, one, ()) == ["one", "two"]


def test_directories_of_another_node_are_refused_elsewhere(start):
    """That says whose they are."""
    assert start(ALONE, (), LOG, owner=2) == ["one", "two"]


def test_a_home_that_cannot_be_read_ends_the_start_later(start, tmp_path):
    """With the error itself."""
    (tmp_path / "one").write_bytes(b"")
    assert start(ALONE, (), RUN) == ["one", "two"]


def test_a_node_goes_on_once_its_directories_are_named_as_before(tmp_path):
    """The start that is refused has changed nothing, and the log may be moved as the refusal says."""
    one, two = f"{tmp_path}/one", f"{tmp_path}/two"
    node = RunningNode(str(tmp_path), {"log.dirs": f"{one},{two}"})
    try:
        create_topic(node.start().client(), "t", partition_count=2)
        producer = Producer({"bootstrap.servers": node.address, "acks": "all"})
        producer.produce("t", b"1", partition=0)
        assert not producer.flush(20)
        node.stop()
        for changed in (
            {"log.dirs": f"{two},{one}"},
            {"log.dirs": f"{one},{two}", "metadata.log.dir": f"{tmp_path}/ssd"},
        ):
            node.settings |= changed
            with pytest.raises(Invalid, match=f"the metadata log of this node lies in {one}"):
                node.start()
        (tmp_path / "one").rename(tmp_path / "disk")
        del node.settings["metadata.log.dir"]
        (tmp_path / "one").mkdir()
        with pytest.raises(Invalid, match=f"{one} has no metadata log, and a node has run with {two}"):
            node.start()
        assert not list((tmp_path / "one").iterdir())
        (tmp_path / "one").rmdir()
        (tmp_path / "disk").rename(one)
        node.start()
        assert node.node.directories.all[1].files.clean
        assert sum(each.log.log_end_offset for each in node.node.partitions.of_topic("t")) == 1
        node.stop()
        (tmp_path / "ssd").mkdir()
        (tmp_path / "one" / "__cluster_metadata-0").rename(tmp_path / "ssd" / "__cluster_metadata-0")
        node.settings["metadata.log.dir"] = f"{tmp_path}/ssd"
        node.start()
        assert sum(each.log.log_end_offset for each in node.node.partitions.of_topic("t")) == 1
    finally:
        node.stop()
