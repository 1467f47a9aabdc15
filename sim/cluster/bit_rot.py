"""Bit rot: a bit of a log at rest changes under a broker that runs, and a reader comes upon it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from sim.cluster.member import Member
from sim.cluster.plan import Kind
from sim.cluster.surroundings import Surroundings
from stratalog.metadata.image.directory_ids import LOST
from stratalog.wire.batch import BatchHeader, iter_headers
from stratalog.wire.errors import Corrupt, KafkaError
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["BitRot", "is_lost"]

_LEADER_EPOCH: Final = range(12, 16)
"""The one part of a batch that nothing covers: another epoch that the log knows is believed."""
_BASE_OFFSET: Final = range(8)
"""Its neighbours tell whether it is right, where no offset may be missing."""
_HEADER_BYTES: Final = 21
"""The part before what the CRC covers: base offset, length, leader epoch, magic, CRC."""
_HEADERS: Final = 0.2
"""The share of the changed bits that are in that part, which is small."""


class _Spot(NamedTuple):
    """A batch with a changed bit."""

    member: Member
    name: TopicPartition
    topic_id: Uuid
    offset: int
    path: str
    position: int
    damaged: bytes


class BitRot:
    """The bits that have changed, until the broker has told the controller of them or the batch is gone."""

    def __init__(self, world: Surroundings, dice: random.Random) -> None:
        self._world = world
        self._dice = dice
        self._spots: list[_Spot] = []

    def flip(self, member: Member, *, newest: bool = False) -> bool:
        """Change a bit of a batch of any segment, or of the ``newest`` one; False if the broker has no replicated log."""
        found = [(unified, *spot) for unified in _replicated(member) for spot in _batches(unified, newest=newest)]
        if not found:
            return False
        unified, path, at, header = self._dice.choice(found)
        name, byte = unified.topic_partition, self._byte_of(header)
        self._world.trace.note("faults", f"byte {byte} of the batch at {header.base_offset} of {name} rots in {path}")
        member.disk.flip(path, at + byte, self._dice.randrange(8))
        damaged = Path(path).read_bytes()[at : at + header.size_bytes]
        self._spots.append(_Spot(member, name, unified.topic_id, header.base_offset, path, at, damaged))
        return True

    def _byte_of(self, header: BatchHeader) -> int:
        if self._dice.random() < _HEADERS:
            hidden = {*_LEADER_EPOCH, *(_BASE_OFFSET if self._world.plan.kind is Kind.COMPACTED else ())}
            return self._dice.choice([one for one in range(_HEADER_BYTES) if one not in hidden])
        return self._dice.randrange(_HEADER_BYTES, header.size_bytes)

    def is_told(self) -> bool:
        """Whether the controller has heard of every damaged log that is there; where it has not, reads there as a consumer."""
        self._spots = [one for one in self._spots if not self._is_over(one)]
        for one in self._spots:
            process = one.member.process
            if process is not None and process.alive and not process.frozen:
                process.context.run(_read, one)
        return not self._spots

    def _is_over(self, spot: _Spot) -> bool:
        topic = self._world.newest_image().topics.by_id.get(spot.topic_id)
        state = None if topic is None else topic.partitions[spot.name.partition]
        if state is None or spot.member.id not in state.replicas or is_lost(state, spot.member):
            return True
        try:
            data = Path(spot.path).read_bytes()
        except FileNotFoundError:
            return True  # the segment was deleted, or the log is another one by now
        return data[spot.position : spot.position + len(spot.damaged)] != spot.damaged


def is_lost(state: Any, member: Member) -> bool:
    """Whether a partition's replica on this broker counts as lost: it is given up, and will be copied again."""
    return member.id in state.replicas and state.directory_of(member.id) == LOST


def _read(spot: _Spot) -> None:
    """Ask twice, as a consumer does that could not use what it got."""
    unified = spot.member.replica(spot.name, spot.topic_id)
    if unified is None or unified.partition.directory.offline is not None:
        return
    end = unified.partition.log.written_offset
    with suppress(Corrupt, KafkaError):
        for _ in range(2):
            unified.read(spot, spot.offset, limit=end, max_bytes=1, committed=False, min_one_batch=True)


def _replicated(member: Member) -> Iterator[Any]:
    """The logs of the clients' topics of a broker."""
    for unified in member.hosted():
        if unified.topic_partition.topic.startswith("replicated"):
            yield unified


def _batches(unified: Any, *, newest: bool) -> Iterator[tuple[str, int, BatchHeader]]:
    """All whole batches on the disk: the file, the position there, the header."""
    for path in sorted(Path(unified.partition.log.directory).glob("*.log"))[-1 if newest else 0 :]:
        data = path.read_bytes()
        with suppress(Corrupt):
            yield from ((str(path), at, header) for at, header in iter_headers(data))
