"""Small files that are replaced as a whole: offset checkpoints, identities, the mark of a clean shutdown.

Text as Kafka writes it. A checkpoint is version 0, the number of lines, then ``topic partition number...`` a
line; ours for the remote log carries more than one number a line. Every file is written beside its name, synced,
renamed over it, and the directory synced. Source: Kafka's ``CheckpointFile``, ``MetaProperties``,
``PartitionMetadataFile``, ``CleanShutdownFileHandler``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from stratalog.hot.storage.filesystem import Filesystem, append_all
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import TopicPartition, Uuid, uuid_parse, uuid_text

__all__ = [
    "BOOTSTRAP",
    "CLEANER_OFFSETS",
    "CLEAN_SHUTDOWN",
    "DELETED_ARCHIVES",
    "FORGOTTEN_OFFSETS",
    "HIGH_WATERMARKS",
    "KNOWN_BUCKET",
    "LEADER_EPOCHS",
    "LOG_START_OFFSETS",
    "META_PROPERTIES",
    "PARTITION_METADATA",
    "RECOVERY_POINTS",
    "REMOTE_LOG",
    "SECOND_TIMELINES",
    "TRUNCATION",
    "MetaProperties",
    "RemoteLogState",
    "numbers_framed",
    "numbers_from_bytes",
    "numbers_to_bytes",
    "read_meta_properties",
    "read_offsets",
    "read_remote_log",
    "read_topic_id",
    "read_truncation",
    "remote_states_from_bytes",
    "take_clean_shutdown",
    "topic_id_to_bytes",
    "write_clean_shutdown",
    "write_durably",
    "write_meta_properties",
    "write_offsets",
    "write_remote_log",
    "write_topic_id",
    "write_truncation",
]

SECOND_TIMELINES: Final = "second-timeline-checkpoint"
"""Partitions that went back in time and have not been compared with their archives yet."""
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
FORGOTTEN_OFFSETS: Final = "forgotten-offset-checkpoint"
"""Up to where logs may lack tombstones and markers for good."""
REMOTE_LOG: Final = "remote-log-checkpoint"
DELETED_ARCHIVES: Final = "deleted-archives"
"""Archives of deleted topics that are to be removed; JSON, written by the broker in the directory of its metadata."""
KNOWN_BUCKET: Final = "known-bucket"
"""Which bucket the broker archives to; JSON, written by the broker in the directory of its metadata."""
META_PROPERTIES: Final = "meta.properties"
BOOTSTRAP: Final = "bootstrap.checkpoint"
"""The first records of a cluster, from the command that formatted the directory."""
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
PARTITION_METADATA: Final = "partition.metadata"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
TRUNCATION: Final = "truncation-checkpoint"

_TEMPORARY: Final = ".tmp"
_OWNER_PROPERTIES: Final = ("version", "cluster.id", "node.id", "directory.id")
_SHOWN: Final = 40
"""Characters of a damaged value that a message shows."""
_HEADER_LINES: Final = 2


class MetaProperties(NamedTuple):
    """The owner of a log directory."""

    cluster_id: str
    node_id: int
    directory_id: Uuid


class RemoteLogState(NamedTuple):
    """The figures of a partition's archive that a broker keeps, to start and to answer without the bucket.

    ``manifest_seq`` is the number of the manifest that had them, 0 if an older release stored them.
    """

    log_start_offset: int
    remote_end_offset: int
    remote_bytes: int
    manifest_seq: int = 0


def write_durably(files: Filesystem, path: str, data: bytes, *, sync_directory: bool = True) -> None:
    """Replace the file at ``path`` in one step; durable on return (the name only with ``sync_directory``).

    Raises `OSError`; then the old content stands.
    """
    temporary = path + _TEMPORARY
    file = files.open_append(temporary)
    try:
        file.truncate(0)
        append_all(file, [data])
        file.fdatasync()
    finally:
        file.close()
    files.rename(temporary, path)
    if sync_directory:
        files.sync_directory(path.rpartition("/")[0])


def _read_or_none(files: Filesystem, path: str) -> bytes | None:
    try:
        return files.read_bytes(path)
    except FileNotFoundError:
        return None


# -- checkpoints of numbers per partition ----------------------------------------------------------------------


def numbers_to_bytes(rows: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    """The text of a checkpoint, sorted by partition."""
    lines = ["0", str(len(rows))]
    for (topic, partition), numbers in sorted(rows.items()):
        lines.append(" ".join((topic, str(partition), *map(str, numbers))))
    return ("\n".join(lines) + "\n").encode("utf-8")


def numbers_framed(pieces: Iterable[str], count: int) -> bytes:
    """The content of a checkpoint whose ``count`` rows are text already, each with a line's end."""
    return f"0\n{count}\n{''.join(pieces)}".encode()


def numbers_from_bytes(data: bytes, columns: int, least: int | None = None) -> dict[TopicPartition, tuple[int, ...]]:
    """Parse a checkpoint with ``columns`` numbers a line; older releases wrote ``least``. Raises `Corrupt`."""
    rows: dict[TopicPartition, tuple[int, ...]] = {}
    try:
        lines = data.decode("utf-8").splitlines()
        version, count = int(lines[0]), int(lines[1])
        for line in lines[_HEADER_LINES:]:
            topic, partition, *numbers = line.split(" ")
            if len(numbers) not in {columns, columns if least is None else least}:
                raise ValueError(f"{line!r} has {len(numbers)} numbers, {columns} are expected")
            rows[TopicPartition(topic, int(partition))] = tuple(map(int, numbers))
    except (ValueError, IndexError) as error:
        raise Corrupt(f"a checkpoint is not readable: {error}") from error
    if version != 0 or count != len(rows):
        raise Corrupt(f"a checkpoint of version {version} says {count} lines and has {len(rows)}")
    return rows


def remote_states_from_bytes(data: bytes) -> dict[TopicPartition, RemoteLogState]:
    """Parse a remote-log checkpoint, of this release or an older one. Raises `Corrupt`."""
    columns = len(RemoteLogState._fields)
    rows = numbers_from_bytes(data, columns, columns - len(RemoteLogState._field_defaults))
    return {key: RemoteLogState(*row) for key, row in rows.items()}


def read_offsets(files: Filesystem, directory: str, name: str) -> dict[TopicPartition, int]:
    """An offset checkpoint of a log directory; empty when absent. Raises `Corrupt`."""
    data = _read_or_none(files, f"{directory}/{name}")
    return {} if data is None else {key: row[0] for key, row in numbers_from_bytes(data, 1).items()}


def write_offsets(files: Filesystem, directory: str, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace an offset checkpoint. Raises `OSError`."""
    data = numbers_to_bytes({key: (offset,) for key, offset in offsets.items()})
    write_durably(files, f"{directory}/{name}", data)


def read_remote_log(files: Filesystem, directory: str) -> dict[TopicPartition, RemoteLogState]:
    """The remote-log checkpoint; empty when absent. Raises `Corrupt`."""
    data = _read_or_none(files, f"{directory}/{REMOTE_LOG}")
    if data is None:
        return {}
    return remote_states_from_bytes(data)


def write_remote_log(files: Filesystem, directory: str, states: Mapping[TopicPartition, RemoteLogState]) -> None:
    """Replace the remote-log checkpoint. Raises `OSError`."""
    write_durably(files, f"{directory}/{REMOTE_LOG}", numbers_to_bytes(states))


# -- identities ------------------------------------------------------------------------------------------------


def read_meta_properties(files: Filesystem, directory: str) -> MetaProperties | None:
    """The owner of a log directory, None when it has none yet. Raises `Corrupt`."""
    data = _read_or_none(files, f"{directory}/{META_PROPERTIES}")
    if data is None:
        return None
    properties: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        text = line.strip()
        if text and not text.startswith(("#", "!")):
            key, _, value = text.partition("=")
            properties[key.strip()] = value.strip()
    try:
        for name in _OWNER_PROPERTIES:
            if not properties.get(name):
                raise ValueError(f"{name} is missing")
        if properties["version"] != "1":
            raise ValueError(f"version is {properties['version'][:_SHOWN]!r}, known is 1")
        owner = properties["cluster.id"], int(properties["node.id"]), uuid_parse(properties["directory.id"][:_SHOWN])
    except (ValueError, Invalid) as error:
        raise Corrupt(
            f"{directory}/{META_PROPERTIES} is not readable: {error}. It says whose directory this is: restore it from a "
            "copy; nothing was changed"
        ) from error
    return MetaProperties(*owner)


def write_meta_properties(files: Filesystem, directory: str, owner: MetaProperties) -> None:
    """Write the owner of a log directory. Raises `OSError`."""
    lines = [
        "version=1",
        f"cluster.id={owner.cluster_id}",
        f"node.id={owner.node_id}",
        f"directory.id={uuid_text(owner.directory_id)}",
    ]
    write_durably(files, f"{directory}/{META_PROPERTIES}", ("\n".join(lines) + "\n").encode("utf-8"))


def read_topic_id(files: Filesystem, directory: str) -> Uuid | None:
    """The topic id in a partition's ``partition.metadata``, None when the file is absent. Raises `Corrupt`."""
    data = _read_or_none(files, f"{directory}/{PARTITION_METADATA}")
    if data is None:
        return None
    lines = dict(line.split(": ", 1) for line in data.decode("utf-8", "replace").splitlines() if ": " in line)
    if lines.get("version") != "0" or "topic_id" not in lines:
        raise Corrupt(f"{PARTITION_METADATA} in {directory} is not readable: {data[:80]!r}")
    try:
        return uuid_parse(lines["topic_id"])
    except Invalid as error:
        raise Corrupt(f"{PARTITION_METADATA} in {directory} is not readable: {error}") from error


def topic_id_to_bytes(topic_id: Uuid) -> bytes:
    """The content of ``partition.metadata``; Kafka ends it without a newline."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode("ascii")


def write_topic_id(files: Filesystem, directory: str, topic_id: Uuid) -> None:
    """Write a partition's ``partition.metadata``, durably. Raises `OSError`."""
    write_durably(files, f"{directory}/{PARTITION_METADATA}", topic_id_to_bytes(topic_id))


def read_truncation(files: Filesystem, directory: str) -> int | None:
    """The offset to which a log was truncated below its recovery point; None when that is settled."""
    data = _read_or_none(files, f"{directory}/{TRUNCATION}")
    if data is None:
        return None
    try:
        return int(data.split(b"\n")[1])
    except (ValueError, IndexError):
        return 0  # whatever was meant, verifying from the start is safe


def write_truncation(files: Filesystem, directory: str, offset: int) -> None:
    """Say, before a log is truncated, that recovery points above ``offset`` are void. Raises `OSError`."""
    write_durably(files, f"{directory}/{TRUNCATION}", f"0\n{offset}\n".encode("ascii"))


# -- the mark of a clean shutdown ------------------------------------------------------------------------------


def write_clean_shutdown(files: Filesystem, directory: str, broker_epoch: int) -> None:
    """The last write of an orderly stop: everything in ``directory`` is synced and indexed."""
    mark = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    write_durably(files, f"{directory}/{CLEAN_SHUTDOWN}", mark.encode("ascii"))


def take_clean_shutdown(files: Filesystem, directory: str) -> int | None:
    """Remove the mark and return its broker epoch (-1 if unreadable); None if the last stop was not clean.

    The mark is gone, durably, before the first log is opened: a crash from here on is an unclean stop.
    """
    path = f"{directory}/{CLEAN_SHUTDOWN}"
    data = _read_or_none(files, path)
    if data is None:
        return None
    files.unlink(path)
    files.sync_directory(directory)
    try:
        return int(json.loads(data)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return -1
