"""The files of a node: which directory gets which, and every reason to write none."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from stratalog.metadata.formatting.node_format import (
    BOOTSTRAP_SNAPSHOT,
    DirectoryKind,
    DirectoryOwner,
    FormatOptions,
    NodeIdentity,
    plan_format,
)
from stratalog.metadata.image.features import BOOTSTRAP_LEVELS
from stratalog.metadata.quorum.bootstrap import BOOTSTRAP_CHECKPOINT, read_bootstrap
from stratalog.metadata.quorum.checkpoint import read_checkpoint
from stratalog.wire.errors import Invalid
from stratalog.wire.records.metadata import FeatureLevelRecord, UserScramCredentialRecord
from stratalog.wire.topic import uuid_parse, uuid_text

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
MINE = "JEXY6aqzQY-32P5TStzaFg"
OTHER = "MvDxzVmcRsaTz33bUuRU6A"
CONTROLLERS = f"1@a:9093:{MINE},2@b:9094:{OTHER}"
NODE = NodeIdentity(
    node_id=1,
    is_controller=True,
    has_static_voters=False,
    directories=("/d1", "/d2", "/meta"),
    metadata_directory="/meta",
    controller_listener="CONTROLLER",
    controller_address=("localhost", 9093),
)
STATIC = replace(NODE, has_static_voters=True)


def plan(node=NODE, owners=None, **options):
    """The plan for a node whose directories are empty unless ``owners`` names them."""
    numbers = itertools.count(1)
    return plan_format(
        node,
        FormatOptions(**{"cluster_id": CLUSTER, **options}),
        {path: (owners or {}).get(path) for path in node.directories},
        new_id=lambda: bytes(15) + bytes([next(numbers)]),
        new_salt=lambda: b"s" * 24,
        now_ms=77,
    )


def owner(directory=MINE, cluster=CLUSTER, node_id=1):
    """An owner of a directory."""
    return DirectoryOwner(cluster, node_id, uuid_parse(directory))


def test_every_directory_gets_the_first_records_and_an_id_of_its_own():
    """Ids are neither reserved nor those of another directory; levels stand as records, metadata.version first."""
    found = plan(STATIC)
    assert [(one.path, one.kind, list(one.files)) for one in found.directories] == [
        ("/d1", DirectoryKind.DATA, [BOOTSTRAP_CHECKPOINT]),
        ("/d2", DirectoryKind.DATA, [BOOTSTRAP_CHECKPOINT]),
        ("/meta", DirectoryKind.STATIC_METADATA, [BOOTSTRAP_CHECKPOINT]),
    ]
    assert [one.owner.directory_id[-1] for one in found.directories] == [100, 101, 102]
    assert {(one.owner.cluster_id, one.owner.node_id) for one in found.directories} == {(CLUSTER, 1)}
    records = read_bootstrap(found.directories[0].files[BOOTSTRAP_CHECKPOINT], "x")
    assert all(isinstance(record, FeatureLevelRecord) for record in records)
    assert {record.name: record.feature_level for record in records} == BOOTSTRAP_LEVELS
    assert records[0].name == "metadata.version"


def test_a_standalone_controller_is_the_one_voter_of_its_quorum():
    """The checkpoint names its address and the id that its metadata directory gets."""
    meta = plan(standalone=True).directories[2]
    found = read_checkpoint(meta.files[BOOTSTRAP_SNAPSHOT], "x")
    (voter,) = found.quorum.voters
    assert (meta.kind, found.last_contained_timestamp_ms, found.values) == (DirectoryKind.DYNAMIC_VOTER, 77, ())
    assert (voter.voter_id, voter.voter_directory_id) == (1, meta.owner.directory_id)
    assert [(end.name, end.host, end.port) for end in voter.endpoints] == [("CONTROLLER", "localhost", 9093)]


@pytest.mark.parametrize(
    ("node_id", "kind", "directory"),
    [
        (1, DirectoryKind.DYNAMIC_VOTER, MINE),
        (2, DirectoryKind.DYNAMIC_VOTER, OTHER),
        (3, DirectoryKind.DYNAMIC_METADATA, None),
    ],
)
def test_all_nodes_get_the_same_voters_and_each_voter_its_named_directory(node_id, kind, directory):
    """A broker that is no voter has them, too, so that it finds the quorum."""
    node = replace(NODE, node_id=node_id, is_controller=node_id < 3)
    meta = plan(node, initial_controllers=CONTROLLERS).directories[2]
    assert meta.kind is kind
    assert directory is None or uuid_text(meta.owner.directory_id) == directory
    voters = read_checkpoint(meta.files[BOOTSTRAP_SNAPSHOT], "x").quorum.voters
    assert [(voter.voter_id, uuid_text(voter.voter_directory_id)) for voter in voters] == [(1, MINE), (2, OTHER)]


def test_a_node_that_joins_later_has_no_voters():
    """It learns them from the others; kraft.version is 1 all the same."""
    found = plan(no_initial_controllers=True)
    assert [list(one.files) for one in found.directories] == [[BOOTSTRAP_CHECKPOINT]] * 3
    assert found.levels["kraft.version"] == 1


def test_a_broker_needs_no_word_about_voters():
    """It is no voter and asks its bootstrap servers."""
    assert len(plan(replace(NODE, is_controller=False)).directories) == 3


def test_credentials_stand_behind_the_levels():
    """In the order of the options."""
    scram = ("SCRAM-SHA-256=[name=b,password=x]", "SCRAM-SHA-512=[name=a,password=x]")
    records = read_bootstrap(plan(STATIC, scram=scram).directories[0].files[BOOTSTRAP_CHECKPOINT], "x")
    assert [each.name for each in records if isinstance(each, UserScramCredentialRecord)] == ["b", "a"]
    assert isinstance(records[-2], UserScramCredentialRecord)


def test_formatted_directories_are_left_alone_if_that_is_wanted():
    """The others are formatted as if those were not there."""
    found = plan(STATIC, owners={"/d2": owner(), "/meta": owner(OTHER)}, ignore_formatted=True)
    assert ([one.path for one in found.directories], found.skipped) == (["/d1"], ("/d2", "/meta"))


@pytest.mark.parametrize(
    ("node", "owners", "options", "why"),
    [
        (NODE, {}, {}, "Because controller.quorum.voters is not set on this controller"),
        (STATIC, {}, {"standalone": True}, "You cannot specify controller.quorum.voters and format"),
        (STATIC, {}, {"initial_controllers": CONTROLLERS}, "You cannot specify controller.quorum.voters and format"),
        (NODE, {}, {"standalone": True, "no_initial_controllers": True}, "give one of --standalone"),
        (
            replace(NODE, is_controller=False),
            {},
            {"standalone": True},
            "You can only use --standalone on a controller.",
        ),
        (replace(NODE, controller_address=None), {}, {"standalone": True}, "No controller listeners found"),
        (NODE, {}, {"initial_controllers": "1@a"}, "is not id@host:port:directory"),
        (STATIC, {}, {"features": ("x.version=1",)}, "Unsupported feature: x.version"),
        (STATIC, {}, {"release_version": "3.5-IV1", "scram": ("SCRAM-SHA-256=[]",)}, "SCRAM is only supported in"),
        (STATIC, {}, {"cluster_id": ""}, "is no cluster id"),
        (STATIC, {}, {"cluster_id": "a b"}, "is no cluster id"),
        (STATIC, {"/d2": owner()}, {}, "Log directory /d2 is already formatted. Use --ignore-formatted"),
        (
            STATIC,
            {"/d2": owner(cluster="c2")},
            {"ignore_formatted": True},
            f"Invalid cluster.id in: /d2/meta.properties. Expected {CLUSTER}, but read c2",
        ),
        (
            STATIC,
            {"/d2": owner(node_id=7)},
            {"ignore_formatted": True},
            "Stored node id 7 doesn't match previous node id 1",
        ),
        (STATIC, {"/d1": owner(), "/d2": owner()}, {"ignore_formatted": True}, "It was the ID of /d1, but also of /d2"),
        (
            STATIC,
            {"/d1": owner("AAAAAAAAAAAAAAAAAAAAAQ")},
            {"ignore_formatted": True},
            "Invalid reserved directory ID AAAAAAAAAAAAAAAAAAAAAQ found in /d1",
        ),
        (
            NODE,
            {"/meta": owner("07R5amHmR32VDA6jHkGbTA")},
            {"ignore_formatted": True, "initial_controllers": CONTROLLERS},
            f"--initial-controllers names the directory {MINE} for node 1, and /meta is formatted as 07R5amHmR32VDA6j",
        ),
    ],
)
def test_a_node_that_cannot_be_formatted_says_why(node, owners, options, why):
    """No directory is planned, so that none is written."""
    with pytest.raises(Invalid) as refused:
        plan(node, owners, **options)
    assert why in str(refused.value)
