from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Barrier

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from stratalog.broker.joinable import joinable
from stratalog.broker.settings.config import load_config
from stratalog.cli.main import cli
from stratalog.hot.storage.checkpoint import read_meta_properties
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.quorum.checkpoint import read_checkpoint
from stratalog.metadata.quorum.quorum_state import parse_quorum_state
from stratalog.tier.care import restore_plan, rewind
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.messages.commands import TrashArchive
from stratalog.tier.messages.group_copy import OffsetCopy, group_copy_projection
from stratalog.tier.messages.projection import cluster_projection, topic_projection, write_projection
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.cut_commands import create_cut
from stratalog.tier.work.group_copies import read_group_copies
from stratalog.tier.work.removal_commands import trash_partition
from stratalog.wire.batch import Record, build_batch

ORDERS = PartitionId("orders", bytes(range(16)), 0)


@pytest.fixture
def bucket(tmp_path):
    """A directory with one archived partition: its URL and the store."""
    store = LocalStore(str(tmp_path / "bucket"), sync=False)
    batches = [bytes(build_batch([Record(at, 1000 + at, None, b"v" * 50)], leader_epoch=1)) for at in range(20)]
    archive_log(store, ORDERS, [b"".join(batches)], now_ms=1)
    return f"file://{tmp_path}/bucket", store


def run(*arguments):
    """One command; exit code, stdout, stderr."""
    result = CliRunner().invoke(cli, ["restore", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_the_result_says_what_there_is_and_what_to_type_next(bucket, tmp_path):
    """A topic without description is restored with the defaults, and said so; no cluster is named, so one is made."""
    url, store = bucket
    code, out, err = run("--bucket", url, "--data", tmp_path / "data", "--json")
    told = json.loads(out)
    assert code == 0
    assert (told["topics"], told["partitions"], told["takeover"], told["clamped"]) == (1, 1, False, [])
    assert len(told["cluster_id"]) == 22
    assert "topic.json is missing" in told["problems"][0]
    assert f"stratalog serve --data {tmp_path}/data --set node.id=1 --bucket {url}" in err
    assert read_manifest(store, ORDERS).manifest.claimant.incarnation == 0
    assert not list(tmp_path.glob("*.restoring-*"))


def test_a_takeover_raises_the_incarnation_by_one_each_time(bucket, tmp_path):
    """Also in the cluster's own document."""
    url, store = bucket
    write_projection(store, cluster_projection("c1", 4))
    for number in (5, 6):
        assert run("--bucket", url, "--data", tmp_path / f"data{number}", "--takeover", "--node-id", 3)[0] == 0
        assert read_manifest(store, ORDERS).manifest.claimant.incarnation == number
        assert json.loads(store.get(cluster_projection("c1", 0).key)[0])["incarnation"] == number
    assert read_manifest(store, ORDERS).manifest.claimant.broker_id == 3


def test_a_directory_in_use_and_a_bucket_that_is_not_there_are_refused(bucket, tmp_path):
    """Before anything is claimed."""
    url, store = bucket
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    before = store.get(ORDERS.manifest_key)
    assert run("--bucket", url, "--data", tmp_path / "full", "--takeover")[0] == 2
    assert run("--bucket", f"file://{tmp_path}/nowhere", "--data", tmp_path / "data")[0] == 3
    assert store.get(ORDERS.manifest_key) == before
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("way", ["mount point", "parent", "link", "dangling link", "here", "above"])
def test_a_directory_that_cannot_be_put_in_place_is_refused(bucket, tmp_path, monkeypatch, way):
    """Before anything is claimed, which every repetition would do again."""
    url, store = bucket
    (tmp_path / "volume").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "volume")
    (tmp_path / "lost").symlink_to(tmp_path / "away")
    monkeypatch.chdir(tmp_path / "volume")
    before = store.get(ORDERS.manifest_key)
    if way == "mount point":
        monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "volume")
    elif way == "parent":
        monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path)
    data, told = {
        "mount point": (tmp_path / "volume", "volume/data"),
        "parent": (tmp_path / "volume", f"{tmp_path} cannot be written to"),
        "link": (tmp_path / "link", f"restore into {tmp_path / 'volume'}, where the link leads"),
        "dangling link": (tmp_path / "lost", f"restore into {tmp_path / 'away'}, where the link leads"),
        "here": ("./", f"name it as {tmp_path / 'volume'}, from another directory"),
        "above": ("new/..", f"name it as {tmp_path / 'volume'}, from another directory"),
    }[way]
    code, _, err = run("--bucket", url, "--data", data, "--takeover")
    assert code == 2
    assert told in err
    assert store.get(ORDERS.manifest_key) == before
    if way == "mount point":
        assert run("--bucket", url, "--data", tmp_path / "volume" / "data", "--takeover")[0] == 0


def test_a_missing_archive_ends_a_restore_with_3(bucket, tmp_path):
    """A misspelt topic or prefix ends with 3, and no directory is made that looks like a broker's."""
    url, _ = bucket
    (tmp_path / "other").mkdir()
    for arguments in (("--bucket", url, "--topic", "ordres"), ("--bucket", f"file://{tmp_path}/other")):
        code, _, err = run(*arguments, "--data", tmp_path / "data")
        assert code == 3
        assert "the bucket file://" in err
        assert not (tmp_path / "data").exists()


JOINABLE = """\
process.roles=broker,controller
node.id=4
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
"""


@pytest.fixture
def settings(tmp_path):
    """Writes a properties file with two log directories, and more lines."""

    def write(*lines, of=JOINABLE):
        path = tmp_path / "server.properties"
        path.write_text(f"{of}log.dirs={tmp_path}/a,{tmp_path}/b\n" + "".join(f"{line}\n" for line in lines))
        return path

    return write


def test_a_node_is_restored_so_that_others_can_join_it(bucket, tmp_path, settings):
    """Its directories are as format --standalone makes them: one voter with an address, in a set that changes."""
    path = settings()
    code, _, err = run("--bucket", bucket[0], "--config", path)
    assert code == 0
    assert f"Start: stratalog serve --config {path} --bucket {bucket[0]}" in err
    metadata = tmp_path / "a" / "__cluster_metadata-0"
    checkpoint = metadata / "00000000000000000000-0000000000.checkpoint"
    (voter,) = read_checkpoint(checkpoint.read_bytes(), str(checkpoint)).quorum.voters
    owners = [read_meta_properties(RealFilesystem(), str(tmp_path / one)) for one in "ab"]
    assert (voter.voter_id, voter.voter_directory_id) == (4, owners[0].directory_id)
    assert [(one.name, one.host, one.port) for one in voter.endpoints] == [("CONTROLLER", "localhost", 9093)]
    assert parse_quorum_state((metadata / "quorum-state").read_bytes(), "").data_version == 1
    assert owners[0].cluster_id == owners[1].cluster_id
    assert owners[0].directory_id != owners[1].directory_id
    config = load_config(path=str(path), environment={})
    assert joinable(config).roles.has_peers


@pytest.mark.parametrize("more", [(), ("--takeover",)])
def test_the_quorum_of_a_restored_node_is_above_the_one_before(bucket, tmp_path, settings, more):
    """It has the old cluster's id: nodes of both that meet part at the first record, and none takes records of both. In a
    drill, too: the old cluster runs beside it.
    """
    url, store = bucket
    write_projection(store, cluster_projection("c1", 4))
    assert run("--bucket", url, "--config", settings(), *more)[0] == 0
    metadata = tmp_path / "a" / "__cluster_metadata-0"
    assert parse_quorum_state((metadata / "quorum-state").read_bytes(), "").leader_epoch == 1 + 5 * 65536
    assert (metadata / "leader-epoch-checkpoint").read_text().split("\n")[2] == f"{1 + 5 * 65536} 0"


def test_a_config_without_a_controllers_listener_is_that_of_a_node_of_its_own(bucket, tmp_path, settings):
    """As with --data and --node-id."""
    path = settings("node.id=7", of="")
    assert run("--bucket", bucket[0], "-c", path)[0] == 0
    assert read_meta_properties(RealFilesystem(), str(tmp_path / "a")).node_id == 7
    assert not list((tmp_path / "a").glob("__cluster_metadata-0/*.checkpoint"))


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["controller.quorum.voters=4@localhost:9093"], "put controller.quorum.bootstrap.servers in the place"),
        (["metadata.log.dir=/nowhere"], "leave metadata.log.dir out, or name one of log.dirs"),
        (["controller.quorum.bootstrap.servers="], "name it in controller.quorum.bootstrap.servers"),
        (["process.roles=controller", "listeners=CONTROLLER://localhost:9093"], "process.roles=broker,controller"),
    ],
)
def test_a_config_that_cannot_be_restored_is_refused_first(bucket, tmp_path, settings, lines, why):
    """Before the archive is claimed."""
    url, store = bucket
    before = store.get(ORDERS.manifest_key)
    code, _, err = run("--bucket", url, "--config", settings(*lines), "--takeover")
    assert (code, why in err) == (2, True), err
    assert store.get(ORDERS.manifest_key) == before


def test_a_directory_of_the_config_that_is_in_use_is_refused_first(bucket, tmp_path, settings):
    """Any of them."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").touch()
    code, _, err = run("--bucket", bucket[0], "--config", settings())
    assert (code, f"{tmp_path}/b is not empty" in err) == (2, True)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("arguments", [(), ("--data", "d", "--config", "c"), ("--config", "c", "--node-id", "2")])
def test_the_node_is_named_once(bucket, arguments):
    """By its directory, or by its settings."""
    assert run("--bucket", bucket[0], *arguments)[0] == 2


@pytest.fixture
def cut_bucket(tmp_path):
    """Two topics of two clusters with a cut ``before`` of the topics given, and ten records more in each since."""

    def make(*topics, clusters=("c1", "c1"), name="bucket"):
        store = LocalStore(str(tmp_path / name), sync=False)
        partitions = [PartitionId(one, one.encode() * 16, 0) for one in "ab"]
        for one, cluster in zip(partitions, clusters, strict=True):
            archive_log(store, one, [records(0)], now_ms=1, cluster_id=cluster)
            description = topic_projection(one.topic, one.topic_id, partitions=1, configs={}, cluster_id=cluster)
            write_projection(store, description)
            write_projection(store, cluster_projection(cluster, 0))
        create_cut(store, "before", now_ms=3, topics=topics)
        for one, cluster in zip(partitions, clusters, strict=True):
            archive_log(store, one, [records(10)], now_ms=4, cluster_id=cluster)
        return store, partitions

    return make


def records(base):
    return b"".join(bytes(build_batch([Record(at, 1000, None, b"v")], leader_epoch=1)) for at in range(base, base + 10))


def go_back(store, tmp_path, *more):
    return run("--bucket", store.url, "--data", tmp_path / "new", "--takeover", "--cut", "before", *more)


def ends(store, partitions):
    found = [read_manifest(store, one).manifest for one in partitions]
    return [(one.claimant.incarnation, one.remote_end) for one in found]


def test_only_the_named_topics_go_back_to_a_cut(cut_bucket, tmp_path):
    """The others keep their leader and what was archived since."""
    store, partitions = cut_bucket()
    code, _, err = go_back(store, tmp_path, "--topic", "a")
    assert code == 0
    assert "Restored 1 topics, 1 partitions" in err
    assert ends(store, partitions) == [(1, 10), (0, 20)]


@pytest.mark.parametrize("cut", [False, True])
def test_topics_that_are_restored_one_by_one_find_the_offsets_of_their_groups(cut_bucket, tmp_path, cut):
    """The broker of the first replaces the copies of its groups, in which the offsets of the others stood."""
    store, (first, second) = cut_bucket()
    offsets = [OffsetCopy(one.topic, one.topic_id, 0, 5) for one in (first, second)]
    write_projection(store, group_copy_projection("c1", "g", offsets))
    more = ["--cut", "before"] if cut else []
    for number, name in enumerate("ab", 1):
        data = tmp_path / name
        code, _, err = run("--bucket", store.url, "--data", data, "--takeover", "--topic", name, *more)
        assert code == 0
        assert f"group g, {name}-0" not in err
        own = [one for one in offsets if one.topic == name]
        write_projection(store, group_copy_projection("c1", "g", own, incarnation=number))
    (copy,) = read_group_copies(store, "c1", pytest.fail)
    assert sorted(copy.offsets) == offsets
    assert [one.topic for one in copy.left] == ["a"]


def test_a_topic_that_is_not_in_the_cut_finds_the_offsets_of_its_groups_later(cut_bucket, tmp_path):
    """It stays in the bucket as it is, and so do they."""
    store, (first, second) = cut_bucket("a")
    offsets = [OffsetCopy(one.topic, one.topic_id, 0, 5) for one in (first, second)]
    write_projection(store, group_copy_projection("c1", "g", offsets))
    code, _, err = go_back(store, tmp_path)
    assert code == 0
    assert "topic b is not in the cut: it is left as it is" in err
    write_projection(store, group_copy_projection("c1", "g", offsets[:1], incarnation=1))
    (copy,) = read_group_copies(store, "c1", pytest.fail)
    assert (copy.offsets, copy.left) == (tuple(offsets), (offsets[1],))


def test_an_offset_in_a_partition_that_was_added_after_the_cut_goes_with_it(cut_bucket, tmp_path):
    """If one of the number is added again, a later restore would have the group begin in its midst."""
    store, (first, _) = cut_bucket()
    added = PartitionId("a", first.topic_id, 1)
    archive_log(store, added, [records(0)], now_ms=5, cluster_id="c1")
    write_projection(store, topic_projection("a", first.topic_id, partitions=2, configs={}, cluster_id="c1"))
    offsets = [OffsetCopy("a", first.topic_id, number, 5) for number in range(2)]
    write_projection(store, group_copy_projection("c1", "g", offsets))
    assert go_back(store, tmp_path, "--topic", "a")[0] == 0
    write_projection(store, group_copy_projection("c1", "g", offsets[:1], incarnation=1))
    assert [copy.offsets for copy in read_group_copies(store, "c1", pytest.fail)] == [tuple(offsets[:1])]


def test_a_restore_of_all_topics_leaves_no_offset_behind(cut_bucket, tmp_path):
    """They are in the copies of its groups from then on, and go with them."""
    store, (first, second) = cut_bucket()
    left, own = (OffsetCopy(one.topic, one.topic_id, 0, 5) for one in (first, second))
    write_projection(store, group_copy_projection("c1", "g", [own], left=[left]))
    assert run("--bucket", store.url, "--data", tmp_path / "new", "--takeover")[0] == 0
    write_projection(store, group_copy_projection("c1", "g", [], incarnation=1))
    assert read_group_copies(store, "c1", pytest.fail) == ()


def test_a_cut_that_lacks_a_named_topic_or_is_another_clusters_changes_nothing(cut_bucket, tmp_path):
    """Two clusters may share a bucket; neither takes the topics of the other over."""
    store, partitions = cut_bucket("a")
    assert "does not hold topic b" in go_back(store, tmp_path, "--topic", "b")[2]
    assert ends(store, partitions) == [(0, 20), (0, 20)]
    store, partitions = cut_bucket("b", clusters=("c1", "c2"), name="shared")
    code, _, err = go_back(store, tmp_path, "--cluster", "c1")
    assert (code, "is of the cluster c2, not of c1" in err) == (2, True)
    assert ends(store, partitions) == [(0, 20), (0, 20)]


def test_a_partition_that_cannot_go_back_is_found_before_any_has(cut_bucket, tmp_path):
    """It has lost the pin of the cut, so its objects may be gone; the other would be cut back, and its old leader fenced."""
    store, partitions = cut_bucket()
    change_manifest(store, partitions[1], lambda manifest: replace(manifest, seq=manifest.seq + 1, pins=()))
    code, _, err = go_back(store, tmp_path)
    assert (code, "has no pin here" in err) == (2, True)
    assert ends(store, partitions) == [(0, 20), (0, 20)]


def test_a_partition_that_the_cut_lacks_is_emptied(cut_bucket, tmp_path):
    """The topic is without it; when it is added again it finds no archive that wins over its new records."""
    store, partitions = cut_bucket()
    added = partitions[0]._replace(partition=1)
    archive_log(store, added, [records(0)], now_ms=5, cluster_id="c1")
    code, _, err = go_back(store, tmp_path, "--topic", "a")
    assert (code, "Restored 1 topics, 1 partitions" in err) == (0, True)
    assert "a-1: it was added after the cut: its archive goes to the trash" in err
    manifest = read_manifest(store, added).manifest
    assert (manifest.claimant.rank, manifest.remote_end, manifest.deleted_ms > 0) == ((1, -1), 0, True)
    assert [item.reason for item in manifest.trash] == ["rewound to a cut"]


def test_partitions_that_the_cut_lacks_are_emptied_side_by_side(cut_bucket, tmp_path, monkeypatch):
    """They are read so as well, and so are the pinned manifests: each would wait for a few requests after the other."""
    store, partitions = cut_bucket()
    for number in (1, 2):
        archive_log(store, partitions[0]._replace(partition=number), [records(0)], now_ms=5, cluster_id="c1")
    for module, name in ((rewind, "read_cut_target"), (restore_plan, "read_partition_state"), (rewind, "empty_added")):
        monkeypatch.setattr(module, name, together(getattr(module, name)))
    code, _, err = go_back(store, tmp_path, "--threads", 6)
    assert (code, "Restored 2 topics, 2 partitions" in err) == (0, True)


def together(function):
    """The same, called by two threads at once."""
    both = Barrier(2)

    def wrapped(*args, **more):
        both.wait(5)
        return function(*args, **more)

    return wrapped


@pytest.mark.parametrize("named", [(), ("--topic", "b")])
def test_a_topic_that_was_deleted_since_the_cut_comes_back(cut_bucket, tmp_path, named):
    """Its manifest stands there with the pin of the cut, whether or not a topic of its name was made since."""
    store, partitions = cut_bucket()
    held = read_manifest(store, partitions[1]).manifest.claimant
    claimant = held._replace(leader_epoch=held.leader_epoch + 1, uuid=bytes(15) + b"d")
    trash_partition(store, TrashArchive(partitions[1], claimant, 9, "topic deleted", "c1"))
    gone = topic_projection("b", partitions[1].topic_id, partitions=1, configs={}, cluster_id="c1", state="deleted")
    write_projection(store, gone)
    code, _, err = go_back(store, tmp_path, *named)
    assert (code, ends(store, partitions)) == (0, [(0, 20) if named else (1, 10), (1, 10)]), err


def test_a_topic_that_was_made_again_since_the_cut_comes_back_as_it_was(cut_bucket, tmp_path):
    """The one that is there now has another id, and stays in the bucket as it is."""
    store, partitions = cut_bucket()
    again = partitions[1]._replace(topic_id=b"n" * 16)
    archive_log(store, again, [records(0)], now_ms=9, cluster_id="c1")
    write_projection(store, topic_projection("b", again.topic_id, partitions=1, configs={}, cluster_id="c1"))
    code, _, err = go_back(store, tmp_path)
    assert (code, ends(store, [*partitions, again])) == (0, [(1, 10), (1, 10), (0, 10)]), err
