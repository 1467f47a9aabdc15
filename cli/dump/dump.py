"""One file of a data directory or one object of a bucket as rows, with all that is wrong in it.

The name says what a file is. Everything checkable is checked: CRCs, order of offsets, counts, indexes against the log
beside them. The parsers are those of the broker itself.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from stratalog.cli.dump.archive import dump_json, dump_manifest, dump_segment_object
from stratalog.cli.dump.files import SMALL_FILES
from stratalog.cli.dump.index import (
    dump_offset_index,
    dump_producer_snapshot,
    dump_time_index,
    dump_transaction_index,
)
from stratalog.cli.dump.log import METADATA_TOPIC, dump_batches, metadata_record, plain_record
from stratalog.cli.dump.row import Row, problem
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.tier.stores.opening import open_store
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.errors import Corrupt, Invalid

__all__ = ["KINDS_HELP", "UnknownKind", "dump"]

_SEGMENT_FILE: Final = re.compile(r"([0-9]{20})\.(log|index|timeindex|txnindex|snapshot)(?:\.[a-z]+)?")
_CHECKPOINT: Final = re.compile(r"[0-9]{20}-[0-9]{10}\.checkpoint(?:\.[a-z]+)?|bootstrap\.checkpoint")
_ARCHIVED: Final = (".seg", ".json", ".json.zst")

KINDS_HELP: Final = (
    "00000000000000000000.log, .index, .timeindex, .txnindex, .snapshot; a .checkpoint of the metadata log; "
    "quorum-state, leader-epoch-checkpoint, the offset checkpoints, meta.properties, partition.metadata; .seg, "
    "manifest.json and other JSON of the bucket"
)


class UnknownKind(Invalid):
    """The name is none of a file that can be read here."""


def dump(target: str, *, records: bool = False, quick: bool = False) -> Iterator[Row]:
    """The rows of a file: a path, or a URL of anything `stratalog.tier.stores.opening.open_store` opens.

    ``records`` adds the records of every batch; ``quick`` reads no more than the footer of a ``.seg``. The last row
    is a summary, unless the file could not be read to its end: then it is a problem. Raises `UnknownKind`,
    `FileNotFoundError`, or what the store raises.
    """
    try:
        yield from _rows(target, records=records, quick=quick)
    except Corrupt as error:
        yield problem(str(error))


def _rows(target: str, *, records: bool, quick: bool) -> Iterator[Row]:
    if "://" not in target:
        return _local(Path(target), records=records, quick=quick)
    parts = urlsplit(target)
    if parts.scheme == "file":
        return _local(Path(unquote(parts.path)), records=records, quick=quick)
    root, _, key = parts.path.lstrip("/").rpartition("/") if parts.scheme != "s3" else ("", "", parts.path.lstrip("/"))
    store = open_store(f"{parts.scheme}://{parts.netloc}" + (f"/{root}" if root else ""))
    if key.endswith(_ARCHIVED):
        return _archived(store, key, records=records, quick=quick)
    return _downloaded(store, key, records=records, quick=quick)


def _downloaded(store: ObjectStore, key: str, *, records: bool, quick: bool) -> Iterator[Row]:
    """A copy of a data directory's file that lies in a bucket."""
    name = key.rpartition("/")[2]
    with tempfile.TemporaryDirectory(prefix="stratalog-dump-") as directory:
        path = Path(directory) / name
        path.write_bytes(store.get(key)[0])
        yield from _local(path, records=records, quick=quick)


def _local(path: Path, *, records: bool, quick: bool) -> Iterator[Row]:
    if path.is_dir():
        raise IsADirectoryError(21, "This is a directory; name one file in it", str(path))
    if not path.is_file():
        raise FileNotFoundError(2, "No such file", str(path))
    if path.name in SMALL_FILES:
        return SMALL_FILES[path.name](path)
    if path.name.endswith(_ARCHIVED):
        store = open_store(f"file://{path.absolute().parent}", create=False)
        return _archived(store, path.name, records=records, quick=quick)
    if _CHECKPOINT.fullmatch(path.name):
        return _batches(path, 0, records=records, is_metadata=True)
    match = _SEGMENT_FILE.fullmatch(path.name)
    if match is None:
        raise UnknownKind(f"{path.name!r} is no name of a file that can be read here; known are {KINDS_HELP}")
    return _segment_file(path, int(match[1]), match[2], records=records)


def _archived(store: ObjectStore, key: str, *, records: bool, quick: bool) -> Iterator[Row]:
    if key.endswith(".seg"):
        return dump_segment_object(store, key, records=plain_record if records else None, quick=quick)
    if key.rpartition("/")[2] == "manifest.json":
        return dump_manifest(store, key, key)
    return dump_json(store, key)


def _segment_file(path: Path, base_offset: int, kind: str, *, records: bool) -> Iterator[Row]:
    log = path.with_name(f"{base_offset:020d}.log")
    beside = log if log.is_file() else None
    if kind == "log":
        is_metadata = path.absolute().parent.name.startswith(f"{METADATA_TOPIC}-")
        return _batches(path, base_offset, records=records, is_metadata=is_metadata)
    if kind == "index":
        return dump_offset_index(path.read_bytes(), base_offset, beside)
    if kind == "timeindex":
        return dump_time_index(path.read_bytes(), base_offset, beside)
    if kind == "txnindex":
        return dump_transaction_index(path.read_bytes())
    return dump_producer_snapshot(path.read_bytes())


def _batches(path: Path, base_offset: int, *, records: bool, is_metadata: bool) -> Iterator[Row]:
    reader = metadata_record if is_metadata else plain_record
    file = RealFilesystem().open_read(str(path))
    try:
        yield from dump_batches(file, file.size_bytes(), base_offset, records=reader if records else None)
    finally:
        file.close()
