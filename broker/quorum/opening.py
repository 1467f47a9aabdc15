"""Puts a node's part in the metadata quorum together, from its directories and its settings."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from functools import partial

from msgspec import Struct

from stratalog.broker.quorum.metadata_log import log_view_steps, open_metadata_log, read_quorum_state
from stratalog.broker.quorum.publishing import InSlices, Publisher
from stratalog.broker.quorum.quorum import Quorum
from stratalog.broker.quorum.quorum_parts import QuorumParts
from stratalog.broker.quorum.quorum_peers import QuorumPeers
from stratalog.broker.quorum.replica import MetadataReplica
from stratalog.broker.quorum.snapshotting import SnapshotRules, Snapshotting
from stratalog.broker.quorum.wire.metadata_topic import METADATA_PARTITION
from stratalog.broker.replicas.directories import Directory
from stratalog.broker.runtime.clock import Clock
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.metadata.image.decision import at_once
from stratalog.metadata.image.snapshot import SnapshotId
from stratalog.metadata.quorum.checkpoint import KRAFT_VERSION_MAX, QuorumRecords
from stratalog.metadata.quorum.quorum_state import FILE_NAME, QuorumState, parse_quorum_state
from stratalog.metadata.raft.core import Identity
from stratalog.metadata.raft.log_view import LogView
from stratalog.metadata.raft.timeouts import RaftTimeouts
from stratalog.metadata.raft.voter_set import Endpoint, Endpoints, ReplicaKey, Voter, VoterSet
from stratalog.metadata.settings.cluster_roles import ClusterRoles, QuorumSettings
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import uuid_text

__all__ = ["QuorumPlace", "open_quorum", "quorum_timeouts", "static_voters"]


class QuorumPlace(Struct, frozen=True, kw_only=True):
    """The place of a node in the quorum, by its settings and its directories."""

    home: Directory
    """Where the metadata log lies."""
    roles: ClusterRoles
    cluster_id: str
    endpoints: Endpoints
    """Where this node's controller listens; empty if it does not."""

    @property
    def key(self) -> ReplicaKey:
        """The replica that this node is."""
        return ReplicaKey(self.roles.node_id, self.home.directory_id)

    @property
    def is_alone(self) -> bool:
        """Whether the settings name no other node: this process is the whole cluster."""
        return not self.roles.has_peers


def quorum_timeouts(settings: QuorumSettings) -> RaftTimeouts:
    """How long the node waits, by its settings."""
    return RaftTimeouts(
        election_ms=settings.election_timeout_ms,
        election_backoff_max_ms=settings.election_backoff_max_ms,
        fetch_ms=settings.fetch_timeout_ms,
        retry_backoff_ms=settings.retry_backoff_ms,
    )


def static_voters(place: QuorumPlace) -> VoterSet:
    """The voters by the settings, which count until records name others: those listed, or this node if it is alone."""
    listed = place.roles.quorum.voters
    if listed:
        listener = place.roles.controller_listeners[0]
        voters = (
            Voter(ReplicaKey(one.node_id), (Endpoint(listener, one.host, one.port),), (0, KRAFT_VERSION_MAX))
            for one in sorted(listed)
        )
        return VoterSet(tuple(voters))
    if place.is_alone:
        return VoterSet((Voter(ReplicaKey(place.roles.node_id), place.endpoints, (0, KRAFT_VERSION_MAX)),))
    return VoterSet()


def open_quorum(
    place: QuorumPlace,
    *,
    peers: QuorumPeers,
    files: Filesystem,
    clock: Clock,
    dice: random.Random,
    threads: Executor,
    in_slices: InSlices,
    on_failed: Callable[[], None],
) -> Quorum:
    """Open the metadata log and everything around it; the quorum has not begun when this returns.

    ``in_slices`` carries steps out so that clients have their turns between. ``on_failed`` is called when the node has to
    end. Raises `Corrupt`, `OSError`, `Invalid` for a log of other voters; the files are unchanged then.
    """
    try:
        return _open(
            place,
            peers=peers,
            files=files,
            clock=clock,
            dice=dice,
            threads=threads,
            in_slices=in_slices,
            on_failed=on_failed,
        )
    except Corrupt as error:
        if not place.roles.has_peers:
            raise
        raise Corrupt(f"{error}. {_way_back(place, files)}") from error


def _way_back(place: QuorumPlace, files: Filesystem) -> str:
    """The way of a node with damaged metadata back into a cluster whose other nodes have the same log."""
    where = place.home.files.partition_path(METADATA_PARTITION)
    if not place.roles.is_controller:
        return (
            f"This node is a broker and has no vote: move {where} out of the way, and start it again; it fetches the log "
            "from the controllers, and topics stay as they are"
        )
    if _is_static(place, files, where):
        return (
            "This node is a static voter, and one that has forgotten its last vote could vote twice. While the other voters "
            f"have a leader, and no other one lacks its log: move {where} out of the way, and start it again; it fetches the "
            "log from the leader"
        )
    return (
        "Other voters have the log, too, and a copy that is older than this voter's last vote could vote twice. Rather remove "
        "this voter (stratalog quorum remove-controller), format its emptied directory with --no-initial-controllers, start "
        "it, and add it again (stratalog quorum add-controller)"
    )


def _is_static(place: QuorumPlace, files: Filesystem, directory: str) -> bool:
    """Whether voters are known by their ids alone: the settings name them, and no later change has overtaken the settings."""
    try:
        path = f"{directory}/{FILE_NAME}"
        return parse_quorum_state(files.read_bytes(path), path).data_version == 0
    except (Corrupt, OSError):
        return bool(place.roles.quorum.voters)


def _open(
    place: QuorumPlace,
    *,
    peers: QuorumPeers,
    files: Filesystem,
    clock: Clock,
    dice: random.Random,
    threads: Executor,
    in_slices: InSlices,
    on_failed: Callable[[], None],
) -> Quorum:
    settings = place.roles.quorum
    log_ = open_metadata_log(place.home, now_ms=clock.wall_ms(), is_copy=not place.roles.is_controller)
    replica = MetadataReplica(log_, directory=place.home.writer, files=files, threads=threads)
    publisher = Publisher(replica, files, in_slices=in_slices, on_failed=lambda _error: on_failed())
    if place.is_alone:
        publisher.read_ahead(log_.log_end_offset)
        _check_only_voter(place, publisher.quorum)
    look = partial(_look, replica, files, publisher, static_voters(place))
    rules = SnapshotRules(
        snapshot_bytes=settings.snapshot_bytes,
        snapshot_interval_ms=settings.snapshot_interval_ms,
        retention_bytes=settings.retention_bytes,
        retention_ms=settings.retention_ms,
        keeps_log=not place.is_alone,
    )
    return Quorum(
        QuorumParts(
            identity=_identity(place, publisher.quorum),
            timeouts=quorum_timeouts(settings),
            replica=replica,
            publisher=publisher,
            snapshotting=Snapshotting(replica, publisher, rules, in_slices=in_slices, clock=clock),
            peers=peers,
            clock=clock,
            dice=dice,
            view=_view(look, replica),
            look=look,
            in_slices=in_slices,
            state=partial(_stored_state, place, files, log_.directory),
            on_failed=on_failed,
        )
    )


def _look(
    replica: MetadataReplica, files: Filesystem, publisher: Publisher, static: VoterSet
) -> Generator[None, None, LogView]:
    """The log as it is on the disk, with the voters that the image's records and those behind it name."""
    quorum_end = publisher.image.provenance.offset + 1
    return log_view_steps(replica.log, files, publisher.quorum, quorum_end, static)


def _view(look: Callable[[], Generator[None, None, LogView]], replica: MetadataReplica) -> LogView:
    """The log as the first machine begins with it; one that its newest snapshot has overtaken begins empty behind that.

    A power cut may take records of an observer that its snapshots have. Raises `Corrupt`, `OSError`.
    """
    view = at_once(look)()
    newest = view.overtaken_by
    if newest is None:
        return view
    replica.begin_behind(SnapshotId(*newest))
    return at_once(look)()


def _identity(place: QuorumPlace, quorum: QuorumRecords) -> Identity:
    """A node without a controller listener goes on being known under the address that the voters have of it."""
    endpoints = place.endpoints
    if not endpoints:
        mine = next((one for one in quorum.voters if one.voter_id == place.key.id), None)
        endpoints = () if mine is None else tuple(Endpoint(one.name, one.host, one.port) for one in mine.endpoints)
    return Identity(
        place.key,
        endpoints,
        place.cluster_id,
        (0, KRAFT_VERSION_MAX),
        can_become_voter=place.roles.is_controller,
        auto_join=place.roles.is_controller and place.roles.quorum.auto_join,
    )


def _stored_state(place: QuorumPlace, files: Filesystem, directory: str, view: LogView) -> QuorumState | None:
    only_voter = place.is_alone and view.voters.ids <= {place.key.id}
    state = read_quorum_state(files, directory, only_voter=only_voter, last_epoch=view.last_epoch)
    if only_voter and state is not None and state.voters not in {(), (place.key.id,)}:
        raise Corrupt(
            f"{directory}/{FILE_NAME} lists the voters {list(state.voters)}, this node is {place.key.id}: is it another "
            "node's directory?"
        )
    return state


def _check_only_voter(place: QuorumPlace, quorum: QuorumRecords) -> None:
    """Raise `Invalid` if the log belongs to a quorum of more voters, or to another directory's voter."""
    directory, node_id = place.home.path, place.key.id
    others = sorted(voter.voter_id for voter in quorum.voters if voter.voter_id != node_id)
    if others:
        raise Invalid(
            f"{directory} belongs to a quorum with the voters {', '.join(map(str, others))} beside this node: name their "
            "controllers in controller.quorum.bootstrap.servers, or format an empty directory with --standalone"
        )
    for voter in quorum.voters:
        if voter.voter_directory_id != place.key.directory_id:
            raise Invalid(
                f"{directory} names the directory {uuid_text(voter.voter_directory_id)} as that of node {node_id}, and "
                f"meta.properties says {uuid_text(place.key.directory_id)}: restore the file that belongs to this "
                "metadata log"
            )
