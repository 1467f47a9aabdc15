"""From the batches of ``__cluster_metadata`` to images.

Control batches (leader changes, the quorum's own records) are not part of the image; the level of ``kraft.version`` and
the voters that they name are kept beside it. Records between a begin and an end marker take effect together, those before an abort marker never (KIP-868). Batches below the start, which a
snapshot already holds, are passed over.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from stratalog.metadata.image.decision import at_once
from stratalog.metadata.image.features import UPDATE_NODE
from stratalog.metadata.image.image import EMPTY_IMAGE, ClusterImage, ImageDelta, Provenance
from stratalog.metadata.quorum.checkpoint import STATIC_QUORUM, QuorumRecords
from stratalog.wire.batch import Buffer, Record, check_batch, iter_headers, iter_records
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.records import control
from stratalog.wire.records.control import ControlType, decode_key
from stratalog.wire.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    decode_record,
)
from stratalog.wire.schema import DecodeError, Message

__all__ = ["MetadataReplay"]

_OF_QUORUM: Final = frozenset({ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS})
_RECORDS_PER_PAUSE: Final = 100


class MetadataReplay:
    """Takes batches in the order of the log and makes an image whenever asked.

    ``image`` and ``quorum`` are where to begin: empty, or what a snapshot held; the provenance of the image says which
    offset comes next.
    """

    __slots__ = ("_delta", "_in_transaction", "_pending", "_provenance", "next_offset", "quorum")

    def __init__(self, image: ClusterImage = EMPTY_IMAGE, quorum: QuorumRecords = STATIC_QUORUM) -> None:
        self.quorum = quorum
        """The voters and their level, up to the last batch."""
        self._delta = ImageDelta(image)
        self._provenance = image.provenance
        self._pending: list[Message] = []
        self._in_transaction = False
        self.next_offset = image.provenance.offset + 1
        """The offset of the next record that is expected."""

    @property
    def in_transaction(self) -> bool:
        """Whether records wait for the end of their transaction."""
        return self._in_transaction

    def replay(self, buffer: Buffer) -> None:
        """Take in every whole batch of ``buffer``.

        Raises `Corrupt` for a damaged batch, a gap, or a record that does not fit what came before, `Invalid` for a
        record or a level of ``metadata.version`` of a newer release.
        """
        for position, _ in iter_headers(buffer):
            self.replay_batch(buffer, position)

    def replay_steps(self, buffer: Buffer) -> Generator[None, None, None]:
        """The same as `replay`, with a pause every 100 records, so that others have their turns."""
        for position, _ in iter_headers(buffer):
            yield from self._batch_steps(buffer, position)

    def replay_batch(self, buffer: Buffer, position: int = 0) -> None:
        """Take in the batch at ``position``; see :meth:`replay`."""
        at_once(self._batch_steps)(buffer, position)

    def replay_own(self, records: Sequence[Message], provenance: Provenance) -> Generator[None, None, None]:
        """Take in a batch that this node wrote itself, in steps, without decoding it again.

        ``provenance`` names its last record. Raises `Corrupt` for a gap and for a record that does not fit.
        """
        base_offset = provenance.offset + 1 - len(records)
        if base_offset != self.next_offset:
            raise Corrupt(f"this node wrote offset {base_offset} of the metadata log, {self.next_offset} was expected")
        for count, record in enumerate(records, 1):
            yield from self._take(record)
            if count % _RECORDS_PER_PAUSE == 0:
                yield
        self.next_offset = provenance.offset + 1
        if not self._in_transaction:
            self._provenance = provenance

    def _batch_steps(self, buffer: Buffer, position: int) -> Generator[None, None, None]:
        header = check_batch(buffer, position)
        if header.next_offset <= self.next_offset:
            return
        if header.base_offset != self.next_offset:
            raise Corrupt(
                f"the metadata log goes on at offset {header.base_offset}, {self.next_offset} was expected: "
                "restore the log directory or begin from a snapshot"
            )
        for count, record in enumerate(iter_records(buffer, position), 1):
            if count % _RECORDS_PER_PAUSE == 0:
                yield
            if not header.is_control:
                yield from self._take(_decoded(record))
            elif (kind := decode_key(record.key or b"")) in _OF_QUORUM:
                self.quorum = self.quorum.after(control.decode_record(kind, record.value or b""))
        self.next_offset = header.next_offset
        if not self._in_transaction:
            self._provenance = Provenance(header.last_offset, header.partition_leader_epoch, header.max_timestamp)

    def _take(self, record: Message) -> Generator[None, None, None]:
        if isinstance(record, BeginTransactionRecord):
            if self._in_transaction:
                raise Corrupt(f"a metadata transaction begins inside another, before offset {self.next_offset}")
            self._in_transaction = True
        elif isinstance(record, EndTransactionRecord | AbortTransactionRecord):
            if not self._in_transaction:
                raise Corrupt(f"a metadata transaction ends that never began, before offset {self.next_offset}")
            if isinstance(record, EndTransactionRecord):
                for count, pending in enumerate(self._pending, 1):
                    yield from self._delta.replaying(pending)
                    if count % _RECORDS_PER_PAUSE == 0:
                        yield
            self._pending.clear()
            self._in_transaction = False
        elif self._in_transaction:
            self._pending.append(record)
        else:
            yield from self._delta.replaying(record)

    def image(self) -> ClusterImage:
        """The image of all that has taken effect; later batches go on from it."""
        return at_once(self.taking)()[0]

    def taking(self) -> Generator[None, None, tuple[ClusterImage, ImageDelta]]:
        """The same in steps, and what has changed since the image before."""
        delta = self._delta
        image = yield from delta.building(self._provenance)
        self._delta = ImageDelta(image)
        return image, delta


def _decoded(record: Record) -> Message:
    """Raises `Invalid` for a record that this release cannot read: its batch is whole, so it is no damage."""
    try:
        return decode_record(record.value or b"")
    except DecodeError as error:
        raise Invalid(f"the record at offset {record.offset} of the metadata log: {error}. {UPDATE_NODE}") from error
