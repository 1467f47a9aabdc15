"""Objects of the bucket as rows: segment objects, manifests and other JSON, each checked against itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import asdict

from stratalog.cli.dump.log import RecordReader, batch_row, batch_rows
from stratalog.cli.dump.row import Row, problem, row
from stratalog.tier.documents.json import decompressed, parse_json
from stratalog.tier.manifests import json as manifest_json
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.pages import page_from_bytes
from stratalog.tier.objects.chunk_table import Chunk
from stratalog.tier.objects.footer import BLOBS, Footer
from stratalog.tier.objects.segment_reader import CorruptObject, read_blob, read_chunks, read_object_footer
from stratalog.tier.stores.store import NotFound, ObjectStore
from stratalog.wire.batch import check_batch, iter_headers
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import uuid_text

__all__ = ["dump_json", "dump_manifest", "dump_segment_object"]

JSON_BYTES_MAX = 64 << 20


def dump_segment_object(store: ObjectStore, key: str, *, records: RecordReader | None, quick: bool) -> Iterator[Row]:
    """Footer, chunk table and every other part of a ``.seg``, all checked; with ``quick`` the data is not read.

    Raises `CorruptObject` if there is no readable footer.
    """
    footer = read_object_footer(store, key)
    yield row(
        "segment",
        topic=footer.partition.topic,
        topic_id=uuid_text(footer.partition.topic_id),
        partition=footer.partition.partition,
        cluster_id=footer.cluster_id,
        writer=footer.writer,
        **{name: value for name, value in _entry_fields(footer.entry).items() if name != "crc32c"},
    )
    for name in BLOBS:
        yield from _blob_rows(store, key, footer, name)
    chunks = list(footer.chunks or ())
    for chunk in chunks:
        yield row("chunk", **chunk._asdict() | {"crc32c": f"{chunk.crc32c:#010x}"})
    batches = record_count = 0
    if not quick:
        end = footer.entry.base
        for chunk in chunks:
            for found in _chunk_rows(store, key, chunk, end, records):
                if found["what"] == "batch":
                    batches += 1
                    record_count += found["records"]
                    end = found["last_offset"] + 1
                yield found
        yield from _total_problems(footer, batches, record_count, end)
    yield row("summary", chunks=len(chunks), batches=batches, records=record_count, data_read=not quick)


def _entry_fields(entry: Entry) -> dict[str, Any]:
    fields = asdict(entry)
    del fields["unknown"]
    return {
        **fields,
        "uuid": uuid_text(entry.uuid),
        "epochs": [list(epoch) for epoch in entry.epochs],
        "crc32c": f"{entry.crc32c:#010x}",
        "data_crc32c": f"{entry.data_crc32c:#010x}",
    }


def _blob_rows(store: ObjectStore, key: str, footer: Footer, name: str) -> Iterator[Row]:
    blob = footer.blobs.get(name)
    if blob is None:
        yield problem(f"the footer names no part {name!r}")
        return
    yield row("part", name=name, position=blob.position, length=blob.length, crc32c=f"{blob.crc32c:#010x}")
    try:
        read_blob(store, key, footer, name)
    except CorruptObject as error:
        yield problem(error.reason, position=error.position)


def _chunk_rows(
    store: ObjectStore, key: str, chunk: Chunk, next_offset: int, records: RecordReader | None
) -> Iterator[Row]:
    """The batches of one chunk, or what is wrong with it."""
    try:
        (data,) = read_chunks(store, key, [chunk])
    except CorruptObject as error:
        yield problem(error.reason, position=error.position, offset=error.offset)
        return
    end = 0
    for at, header in iter_headers(data):
        position = chunk.position + at
        try:
            check_batch(data, at)
        except Corrupt as error:
            yield problem(str(error), position=position, offset=header.base_offset)
            return
        if header.base_offset < next_offset:
            yield problem(f"an offset below {next_offset} comes again", position=position, offset=header.base_offset)
        next_offset = header.next_offset
        yield batch_row(position, header)
        yield from batch_rows(data, at, header, position, records)
        end = at + header.size_bytes
    if end != len(data):
        yield problem(f"{len(data) - end} bytes of the chunk are no whole batch", position=chunk.position + end)


def _total_problems(footer: Footer, batches: int, records: int, end: int) -> Iterator[Row]:
    entry = footer.entry
    if (batches, records) != (entry.batch_count, entry.record_count):
        yield problem(
            f"the footer counts {entry.batch_count} batches and {entry.record_count} records, "
            f"the data has {batches} and {records}"
        )
    if end > entry.end or (end != entry.end and not entry.compacted):
        yield problem(f"the footer ends at offset {entry.end}, the data at {end}", offset=end)


def dump_manifest(store: ObjectStore, key: str, name: str) -> Iterator[Row]:
    """A manifest and its entries, those of its pages first, which lie beside it.

    Raises `Corrupt`: also for entries that overlap or leave a hole.
    """
    data, version = store.get(key)
    manifest = manifest_json.from_bytes(data, name)
    held = manifest.claimant
    yield row(
        "manifest",
        topic=manifest.partition.topic,
        topic_id=uuid_text(manifest.partition.topic_id),
        partition=manifest.partition.partition,
        cluster_id=manifest.cluster_id,
        seq=manifest.seq,
        object_version=version,
        incarnation=held.incarnation,
        leader_epoch=held.leader_epoch,
        broker_id=held.broker_id,
        claim=uuid_text(held.uuid),
        log_start_offset=manifest.log_start_offset,
        remote_start=manifest.remote_start,
        remote_end=manifest.remote_end,
        archive_clean_offset=manifest.archive_clean_offset,
        leader_epochs=[list(epoch) for epoch in manifest.leader_epochs],
        deleted_ms=manifest.deleted_ms,
        rewritten_seq=manifest.rewritten_seq,
        size_bytes=len(data),
    )
    live: list[int] = []
    for page in manifest.pages:
        fields = asdict(page) | page.totals._asdict() | {"size_bytes": page.size_bytes}
        yield row("page", **{name: value for name, value in fields.items() if name not in {"totals", "unknown"}})
        beside = key.removesuffix("manifest.json") + page.key.removeprefix(manifest.partition.prefix)
        try:
            inside = page_from_bytes(store.get(beside)[0], page, manifest.partition)[page.dead_count :]
        except (Corrupt, NotFound) as error:
            yield problem(str(error), offset=page.first)
            continue
        for entry in inside:
            live.append(entry.size_bytes)
            yield row("entry", **_entry_fields(entry))
    for entry in manifest.entries:
        live.append(entry.size_bytes)
        yield row("entry", **_entry_fields(entry))
    yield from _manifest_lists(manifest)
    if (len(live), sum(live)) != manifest.totals[:2]:
        yield problem(
            f"the totals say {manifest.totals.segments} objects of {manifest.totals.size_bytes} bytes, "
            f"the entries are {len(live)} of {sum(live)}"
        )
    yield row("summary", **manifest.totals._asdict(), entries=len(live), trash=len(manifest.trash))


def _manifest_lists(manifest: Manifest) -> Iterator[Row]:
    for item in manifest.trash:
        kind = {"kind": item.kind} if item.kind else {}
        yield row("trash", key=item.key, size_bytes=item.size_bytes, epoch=item.epoch, reason=item.reason, **kind)
    for job in manifest.jobs:
        inputs = [uuid_text(uuid) for uuid in job.inputs]
        yield row("job", uuid=uuid_text(job.uuid), kind=job.kind, expires_ms=job.expires_ms, inputs=inputs)
    for pin in manifest.pins:
        yield row("pin", **{name: value for name, value in asdict(pin).items() if name != "unknown"})
    if manifest.history is not None:
        yield row("history", key=manifest.history.key, seq=manifest.history.seq, sha256=manifest.history.sha256)
    for commit in manifest.commits:
        yield row("commit", **commit._asdict())


def dump_json(store: ObjectStore, key: str) -> Iterator[Row]:
    """Any other JSON object of the bucket, also compressed. Raises `Corrupt`."""
    data, version = store.get(key)
    try:
        if key.endswith(".zst"):
            data = decompressed(data, key, JSON_BYTES_MAX)
        content = parse_json(data, key, limit_bytes=JSON_BYTES_MAX)
    except Corrupt as error:
        raise Corrupt(f"{key} is not the JSON it should be: {error}") from error
    yield row("json", object_version=version, content=content)
