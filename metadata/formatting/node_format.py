"""The decision about ``stratalog format``: which files go into which directory of a node, or why none may.

No file is overwritten: a directory that has an owner is left alone, or refused. The rules and most sentences are those
of Kafka's ``Formatter``, ``StorageTool``, ``MetaPropertiesEnsemble``; KIP-631, KIP-853, KIP-858.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from stratalog.metadata.formatting.feature_levels import chosen_levels
from stratalog.metadata.formatting.initial_voters import InitialVoter, is_reserved, parse_initial_voters, quorum_of
from stratalog.metadata.formatting.scram_arguments import parse_scram_argument
from stratalog.metadata.image.features import METADATA_VERSION
from stratalog.metadata.image.snapshot import SnapshotId, snapshot_name
from stratalog.metadata.quorum.bootstrap import BOOTSTRAP_CHECKPOINT, bootstrap_checkpoint, level_records
from stratalog.metadata.quorum.checkpoint import build_checkpoint
from stratalog.wire.errors import Invalid
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid, uuid_text

__all__ = [
    "BOOTSTRAP_SNAPSHOT",
    "DirectoryFormat",
    "DirectoryKind",
    "DirectoryOwner",
    "FormatOptions",
    "FormatPlan",
    "NodeIdentity",
    "plan_format",
]

BOOTSTRAP_SNAPSHOT: Final = f"__cluster_metadata-0/{snapshot_name(SnapshotId(0, 0))}"
"""The checkpoint of the first voters, below a metadata directory."""

_CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,255}")
_SCRAM_FROM: Final = 11


class DirectoryOwner(NamedTuple):
    """The owner that ``meta.properties`` of a directory names."""

    cluster_id: str
    node_id: int
    directory_id: Uuid


class DirectoryKind(StrEnum):
    """The use of a directory, in Kafka's words."""

    DATA = "data directory"
    STATIC_METADATA = "metadata directory"
    DYNAMIC_METADATA = "dynamic metadata directory"
    DYNAMIC_VOTER = "dynamic metadata voter directory"


class NodeIdentity(Struct, frozen=True, kw_only=True):
    """The facts of a node's configuration that formatting needs."""

    node_id: int
    is_controller: bool
    has_static_voters: bool
    """Whether ``controller.quorum.voters`` is set."""
    directories: tuple[str, ...]
    """Every log directory, that of the metadata log among them."""
    metadata_directory: str
    controller_listener: str
    """The first name of ``controller.listener.names``."""
    controller_address: tuple[str, int] | None
    """Host and port of that listener as others reach it; None on a node without one."""


class FormatOptions(Struct, frozen=True, kw_only=True):
    """The options of the command, as texts where their content is judged here."""

    cluster_id: str
    standalone: bool = False
    initial_controllers: str | None = None
    no_initial_controllers: bool = False
    features: tuple[str, ...] = ()
    release_version: str | None = None
    ignore_formatted: bool = False
    scram: tuple[str, ...] = ()


class DirectoryFormat(NamedTuple):
    """A directory that is formatted: its new owner, and the content of its files by path below it.

    ``files`` are written before ``meta.properties``: a directory with an owner is whole.
    """

    path: str
    kind: DirectoryKind
    owner: DirectoryOwner
    files: Mapping[str, bytes]


class FormatPlan(NamedTuple):
    """The work to do: directories to format, those that are left alone, and the levels of the cluster's features."""

    directories: tuple[DirectoryFormat, ...]
    skipped: tuple[str, ...]
    levels: Mapping[str, int]


def plan_format(
    node: NodeIdentity,
    options: FormatOptions,
    owners: Mapping[str, DirectoryOwner | None],
    *,
    new_id: Callable[[], Uuid],
    new_salt: Callable[[], bytes],
    now_ms: int,
) -> FormatPlan:
    """The files of a node. ``owners`` has the owner of each directory, None for one that is empty.

    ``new_id`` makes directory ids, and ``new_salt`` salts of passwords. Raises `Invalid` with the reason why nothing may
    be written.
    """
    if not _CLUSTER_ID.fullmatch(options.cluster_id):
        raise Invalid(
            f"--cluster-id {options.cluster_id!r} is no cluster id: letters, digits, dots, dashes and underscores are "
            "expected; stratalog format --random-uuid makes one"
        )
    voters = _voters(node, options, new_id)
    levels = chosen_levels(options.features, options.release_version, has_dynamic_quorum=not node.has_static_voters)
    records = _bootstrap_records(options, levels, new_salt)
    _check_owners(node, options, owners, voters)
    bootstrap = bootstrap_checkpoint(records, timestamp_ms=now_ms)
    taken = {owner.directory_id for owner in owners.values() if owner is not None} | {
        voter.directory_id for voter in voters
    }
    planned = []
    for path in node.directories:
        if owners[path] is not None:
            continue
        kind = _kind(node, path, voters)
        files = {BOOTSTRAP_CHECKPOINT: bootstrap}
        if kind in {DirectoryKind.DYNAMIC_METADATA, DirectoryKind.DYNAMIC_VOTER}:
            quorum = quorum_of(voters, node.controller_listener)
            files[BOOTSTRAP_SNAPSHOT] = build_checkpoint(
                (), quorum, last_contained_timestamp_ms=now_ms, timestamp_ms=now_ms
            )
        mine = _voter(voters, node.node_id)
        directory_id = mine.directory_id if mine and kind is DirectoryKind.DYNAMIC_VOTER else _fresh(new_id, taken)
        taken.add(directory_id)
        planned.append(
            DirectoryFormat(path, kind, DirectoryOwner(options.cluster_id, node.node_id, directory_id), files)
        )
    skipped = tuple(path for path in node.directories if owners[path] is not None)
    return FormatPlan(tuple(planned), skipped, levels)


def _fresh(new_id: Callable[[], Uuid], taken: set[Uuid]) -> Uuid:
    """An id that no directory has, and that does not print like an option."""
    while True:
        directory_id = new_id()
        if directory_id not in taken and not is_reserved(directory_id) and not uuid_text(directory_id).startswith("-"):
            return directory_id


def _voter(voters: Sequence[InitialVoter], node_id: int) -> InitialVoter | None:
    return next((voter for voter in voters if voter.node_id == node_id), None)


def _voters(node: NodeIdentity, options: FormatOptions, new_id: Callable[[], Uuid]) -> tuple[InitialVoter, ...]:
    """The voters that the options name; none for a static quorum, and for a node that joins one later."""
    wanted = [options.standalone, options.initial_controllers is not None, options.no_initial_controllers]
    if sum(wanted) > 1:
        raise Invalid("give one of --standalone, --initial-controllers and --no-initial-controllers, not several")
    if node.has_static_voters and (options.standalone or options.initial_controllers is not None):
        raise Invalid(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. "
            "If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )
    if options.initial_controllers is not None:
        return parse_initial_voters(options.initial_controllers)
    if options.standalone:
        if not node.is_controller:
            raise Invalid("You can only use --standalone on a controller.")
        if node.controller_address is None:
            raise Invalid(
                f"No controller listeners found: --standalone needs the listener {node.controller_listener} in listeners"
            )
        return (InitialVoter(node.node_id, *node.controller_address, _fresh(new_id, set())),)
    if node.is_controller and not node.has_static_voters and not options.no_initial_controllers:
        raise Invalid(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    return ()


def _bootstrap_records(
    options: FormatOptions, levels: Mapping[str, int], new_salt: Callable[[], bytes]
) -> list[Message]:
    records: list[Message] = [*level_records(levels)]
    if options.scram and levels[METADATA_VERSION] < _SCRAM_FROM:
        raise Invalid(f"SCRAM is only supported in {METADATA_VERSION} 3.5-IV2 or later.")
    return [*records, *(parse_scram_argument(text, new_salt) for text in options.scram)]


def _check_owners(
    node: NodeIdentity,
    options: FormatOptions,
    owners: Mapping[str, DirectoryOwner | None],
    voters: Sequence[InitialVoter],
) -> None:
    seen: dict[Uuid, str] = {}
    for path, owner in owners.items():
        if owner is None:
            continue
        where = f"{path}/meta.properties"
        if owner.cluster_id != options.cluster_id:
            raise Invalid(f"Invalid cluster.id in: {where}. Expected {options.cluster_id}, but read {owner.cluster_id}")
        if owner.node_id != node.node_id:
            raise Invalid(
                f"Stored node id {owner.node_id} doesn't match previous node id {node.node_id} in {where}. If you moved "
                "your data, make sure your configured node id matches. If you intend to create a new node, you should "
                "remove all data in your data directories."
            )
        if is_reserved(owner.directory_id):
            raise Invalid(f"Invalid reserved directory ID {uuid_text(owner.directory_id)} found in {path}")
        if owner.directory_id in seen:
            raise Invalid(
                f"Duplicate directory ID {uuid_text(owner.directory_id)} found. It was the ID of "
                f"{seen[owner.directory_id]}, but also of {path}"
            )
        seen[owner.directory_id] = path
        if not options.ignore_formatted:
            raise Invalid(
                f"Log directory {path} is already formatted. Use --ignore-formatted to ignore this directory and format "
                "the others."
            )
    _check_voter_directory(node, options, owners.get(node.metadata_directory), voters)


def _check_voter_directory(
    node: NodeIdentity, options: FormatOptions, owner: DirectoryOwner | None, voters: Sequence[InitialVoter]
) -> None:
    """A metadata directory that is formatted keeps its id, so that a list of voters must name that one."""
    mine = _voter(voters, node.node_id) if options.initial_controllers is not None else None
    if mine is None or owner is None or mine.directory_id == owner.directory_id:
        return
    raise Invalid(
        f"--initial-controllers names the directory {uuid_text(mine.directory_id)} for node {node.node_id}, and "
        f"{node.metadata_directory} is formatted as {uuid_text(owner.directory_id)}: name that one, or empty the directory"
    )


def _kind(node: NodeIdentity, path: str, voters: Sequence[InitialVoter]) -> DirectoryKind:
    if path != node.metadata_directory:
        return DirectoryKind.DATA
    if not voters:
        return DirectoryKind.STATIC_METADATA
    if _voter(voters, node.node_id) is None:
        return DirectoryKind.DYNAMIC_METADATA
    return DirectoryKind.DYNAMIC_VOTER
