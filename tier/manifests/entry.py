"""One archived range as the manifest and the object's own footer describe it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from stratalog.tier.documents.unknown_fields import UnknownFields, integer, keep_unknown, restore_unknown, text
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import Uuid, uuid_parse, uuid_text

__all__ = ["Entry", "LeaderEpoch", "entry_from_fields", "entry_to_fields", "joined_epochs"]


class LeaderEpoch(NamedTuple):
    """A leadership and the first offset written under it."""

    epoch: int
    start_offset: int


class Entry(Struct, frozen=True):
    """One ``.seg`` object: the offsets ``[base, end)`` of one partition.

    ``epoch`` is the leader epoch of the uploader, ``epochs`` are those of the batches inside. ``crc32c`` covers the
    whole object, ``data_crc32c`` its first ``data_bytes`` bytes, which are the ``.log`` bytes of the range.
    ``max_timestamp_offset`` is the last offset of the batch that holds the largest timestamp, as in Kafka's index.
    """

    uuid: Uuid
    base: int
    end: int
    epoch: int
    key: str
    size_bytes: int
    data_bytes: int
    crc32c: int
    data_crc32c: int
    chunks_position: int
    chunks_bytes: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    max_timestamp_offset: int
    batch_count: int
    record_count: int
    control_batch_count: int = 0
    aborted_count: int = 0
    codecs: tuple[str, ...] = ("none",)
    epochs: tuple[LeaderEpoch, ...] = ()
    compacted: bool = False
    sealed_ms: int = -1
    uploaded_ms: int = -1
    broker_id: int = -1
    unknown: UnknownFields = ()


_NUMBERS: Final = {
    "base": "base",
    "end": "end",
    "epoch": "epoch",
    "size": "size_bytes",
    "data_len": "data_bytes",
    "crc32c": "crc32c",
    "data_crc32c": "data_crc32c",
    "chunks_pos": "chunks_position",
    "chunks_len": "chunks_bytes",
    "min_ts": "min_timestamp_ms",
    "max_ts": "max_timestamp_ms",
    "max_ts_offset": "max_timestamp_offset",
    "batches": "batch_count",
    "records": "record_count",
}
"""Name in JSON: name here. These must be present."""
_OPTIONAL_NUMBERS: Final = {
    "control_batches": ("control_batch_count", 0),
    "aborted": ("aborted_count", 0),
    "sealed_ts": ("sealed_ms", -1),
    "uploaded_ts": ("uploaded_ms", -1),
    "broker": ("broker_id", -1),
}
_ATTRIBUTES: Final = (*_NUMBERS.values(), *(attribute for attribute, _ in _OPTIONAL_NUMBERS.values()))
_INTEGER: Final = frozenset({int})
"""Looking at all types of an entry at once makes reading 100,000 of them half as dear."""
_KNOWN: Final = frozenset({*_NUMBERS, *_OPTIONAL_NUMBERS, "uuid", "loc", "codecs", "epochs", "compacted"})


def entry_to_fields(entry: Entry, folder: str) -> dict[str, Any]:
    """JSON fields; ``loc`` is written relative to ``folder`` (the partition's prefix), or absolute with a slash."""
    loc = entry.key.removeprefix(folder) if entry.key.startswith(folder) else "/" + entry.key
    fields: dict[str, Any] = {"uuid": uuid_text(entry.uuid), "loc": loc}
    for name, attribute in _NUMBERS.items():
        fields[name] = getattr(entry, attribute)
    for name, (attribute, default) in _OPTIONAL_NUMBERS.items():
        if getattr(entry, attribute) != default:
            fields[name] = getattr(entry, attribute)
    fields["codecs"] = list(entry.codecs)
    fields["epochs"] = [list(epoch) for epoch in entry.epochs]
    if entry.compacted:
        fields["compacted"] = True
    return restore_unknown(fields, entry.unknown)


def entry_from_fields(fields: Mapping[str, Any], folder: str) -> Entry:
    """The inverse of :func:`entry_to_fields`. Raises `Corrupt`."""
    try:
        loc = text(fields, "loc")
        numbers = [fields[name] for name in _NUMBERS]
        optional = [fields.get(name, default) for name, (_, default) in _OPTIONAL_NUMBERS.items()]
        if not _INTEGER.issuperset(map(type, numbers)) or not _INTEGER.issuperset(map(type, optional)):
            for name in (*_NUMBERS, *_OPTIONAL_NUMBERS):
                integer(fields, name, 0 if name in _OPTIONAL_NUMBERS else None)  # tells which one
        entry = Entry(
            uuid=uuid_parse(text(fields, "uuid")),
            key=loc[1:] if loc.startswith("/") else folder + loc,
            codecs=tuple([str(codec) for codec in fields.get("codecs", ())]),
            epochs=tuple([LeaderEpoch(int(epoch), int(start)) for epoch, start in fields.get("epochs", ())]),
            compacted=bool(fields.get("compacted", False)),
            unknown=() if _KNOWN.issuperset(fields) else keep_unknown(fields, _KNOWN),
            **dict(zip(_ATTRIBUTES, numbers + optional, strict=True)),
        )
    except KeyError as error:
        raise Corrupt(f"an archive entry is damaged: it has no field {error}") from error
    except (AttributeError, TypeError, ValueError, Invalid) as error:
        raise Corrupt(f"an archive entry is damaged: {error}") from error
    if not 0 <= entry.base < entry.end or not 0 <= entry.data_bytes <= entry.size_bytes:
        raise Corrupt(
            f"the archive entry {loc!r} claims offsets [{entry.base}, {entry.end}) and {entry.data_bytes} data bytes "
            f"of {entry.size_bytes}"
        )
    return entry


def joined_epochs(last: tuple[LeaderEpoch, ...], inputs: Sequence[Entry]) -> tuple[LeaderEpoch, ...]:
    """The leader epochs up to the end of ``inputs``: those of each as it was uploaded, and before them those that the ``last`` one knew.

    A leader that copied a cleaned log may have uploaded that one, with a later start of an epoch.
    """
    own: list[LeaderEpoch] = []
    for entry in inputs:
        own += [each for each in entry.epochs if not own or each.epoch > own[-1].epoch]
    if not own:
        return last
    first = min([own[0], *(each for each in last if each.epoch == own[0].epoch)], key=lambda each: each.start_offset)
    return (*(each for each in last if each.epoch < first.epoch), first, *own[1:])
