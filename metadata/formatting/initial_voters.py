"""The first voters of a dynamic quorum, as ``--initial-controllers`` names them: ``id@host:port:directory``.

Source: Kafka's ``DynamicVoter``, ``DynamicVoters``; KIP-853.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from stratalog.metadata.quorum.checkpoint import KRAFT_VERSION_MAX, QuorumRecords
from stratalog.wire.address import PORT_MAX
from stratalog.wire.errors import Invalid
from stratalog.wire.records.control import Endpoint, KRaftVersionFeature, QuorumVoter
from stratalog.wire.topic import Uuid, uuid_parse

__all__ = ["InitialVoter", "is_reserved", "parse_initial_voters", "quorum_of"]

_VOTER: Final = re.compile(
    r"(?P<id>[^@]*)@(?:\[(?P<v6>[^\]]*)\]|(?P<host>[^:\[\]]*)):(?P<port>[^:]*):(?P<directory>[^:]*)"
)
_ID_MAX: Final = (1 << 31) - 1
_RESERVED_BELOW: Final = 100


class InitialVoter(NamedTuple):
    """A voter with the address of its controller listener and the id of its metadata directory."""

    node_id: int
    host: str
    port: int
    directory_id: Uuid


def is_reserved(directory_id: Uuid) -> bool:
    """Whether the id means no directory: the first hundred ids stand for states of one (KIP-858)."""
    return int.from_bytes(directory_id, "big") < _RESERVED_BELOW


def parse_initial_voters(text: str) -> tuple[InitialVoter, ...]:
    """The voters of ``id@host:port:directory,…``, by id; an IPv6 address stands in brackets.

    Raises `Invalid` for an entry of another form, and for an id or directory that is named twice.
    """
    voters = [_parse(entry.strip()) for entry in text.split(",") if entry.strip()]
    if not voters:
        raise Invalid("--initial-controllers: no voters given; write id@host:port:directory,…")
    seen: set[int] = set()
    directories: set[Uuid] = set()
    for voter in voters:
        if voter.node_id in seen:
            raise Invalid(f"--initial-controllers: node id {voter.node_id} was specified more than once.")
        if voter.directory_id in directories:
            raise Invalid(f"--initial-controllers: node {voter.node_id} has the directory id of another voter")
        seen.add(voter.node_id)
        directories.add(voter.directory_id)
    return tuple(sorted(voters))


def _parse(entry: str) -> InitialVoter:
    found = _VOTER.fullmatch(entry)
    if found is None:
        raise Invalid(f"--initial-controllers: {entry!r} is not id@host:port:directory")
    host = found["v6"] if found["v6"] is not None else found["host"]
    if not host:
        raise Invalid(f"--initial-controllers: {entry!r} has no host")
    try:
        directory_id = uuid_parse(found["directory"])
    except Invalid as error:
        raise Invalid(f"--initial-controllers: the directory id of {entry!r} cannot be read: {error}") from error
    if is_reserved(directory_id):
        raise Invalid(
            f"--initial-controllers: the directory id of {entry!r} is reserved; stratalog format --random-uuid makes one"
        )
    return InitialVoter(
        _number(found["id"], "node id", _ID_MAX, entry),
        host,
        _number(found["port"], "port", PORT_MAX, entry),
        directory_id,
    )


def _number(text: str, name: str, most: int, entry: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > most:
        raise Invalid(f"--initial-controllers: the {name} {text!r} of {entry!r} is no number from 0 to {most}")
    return int(text)


def quorum_of(voters: Sequence[InitialVoter], listener: str) -> QuorumRecords:
    """The control records of a quorum of these voters; ``listener`` is the name of their controller listener."""
    return QuorumRecords(
        KRAFT_VERSION_MAX,
        tuple(
            QuorumVoter(
                voter_id=voter.node_id,
                voter_directory_id=voter.directory_id,
                endpoints=[Endpoint(name=listener, host=voter.host, port=voter.port)],
                kraft_version_feature=KRaftVersionFeature(
                    min_supported_version=0, max_supported_version=KRAFT_VERSION_MAX
                ),
            )
            for voter in voters
        ),
    )
