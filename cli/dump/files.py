"""The small files of a data directory as rows: checkpoints, identities, quorum state, the mark of a clean stop."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from stratalog.cli.dump.row import Row, problem, row
from stratalog.hot.directory import OFFLINE
from stratalog.hot.state.leader_epochs import LeaderEpochCache
from stratalog.hot.storage import checkpoint
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.quorum.quorum_state import FILE_NAME as QUORUM_STATE
from stratalog.metadata.quorum.quorum_state import parse_quorum_state
from stratalog.wire.topic import uuid_text

__all__ = ["SMALL_FILES"]


def _offsets(path: Path) -> Iterator[Row]:
    for (topic, partition), (offset,) in checkpoint.numbers_from_bytes(path.read_bytes(), 1).items():
        yield row("partition", topic=topic, partition=partition, offset=offset)


def _remote_log(path: Path) -> Iterator[Row]:
    for (topic, partition), state in checkpoint.remote_states_from_bytes(path.read_bytes()).items():
        yield row("partition", topic=topic, partition=partition, **state._asdict())


def _leader_epochs(path: Path) -> Iterator[Row]:
    for entry in LeaderEpochCache.from_bytes(path.read_bytes()).entries:
        yield row("leader_epoch", epoch=entry.epoch, start_offset=entry.start_offset)


def _meta_properties(path: Path) -> Iterator[Row]:
    owner = checkpoint.read_meta_properties(RealFilesystem(), str(path.parent))
    assert owner is not None
    yield row("owner", cluster_id=owner.cluster_id, node_id=owner.node_id, directory_id=uuid_text(owner.directory_id))


def _topic_id(path: Path) -> Iterator[Row]:
    topic_id = checkpoint.read_topic_id(RealFilesystem(), str(path.parent))
    assert topic_id is not None
    yield row("topic", topic_id=uuid_text(topic_id))


def _quorum_state(path: Path) -> Iterator[Row]:
    state = parse_quorum_state(path.read_bytes())
    yield row(
        "quorum",
        data_version=state.data_version,
        leader_epoch=state.leader_epoch,
        leader_id=state.leader_id,
        voted_id=state.voted_id,
        voted_directory_id=uuid_text(state.voted_directory_id),
        voters=list(state.voters),
    )


def _clean_shutdown(path: Path) -> Iterator[Row]:
    try:
        fields = json.loads(path.read_bytes())
        yield row("clean_shutdown", version=fields["version"], broker_epoch=fields["brokerEpoch"])
    except (ValueError, KeyError, TypeError) as error:
        yield problem(f"the mark of a clean stop is not readable: {error!r}", position=0)


def _offline(path: Path) -> Iterator[Row]:
    try:
        fields = json.loads(path.read_bytes())
        yield row("offline", version=fields["version"], reason=fields["reason"])
    except (ValueError, KeyError, TypeError) as error:
        yield problem(f"the mark of a failed directory is not readable: {error!r}", position=0)


SMALL_FILES: Final[dict[str, Callable[[Path], Iterator[Row]]]] = {
    checkpoint.RECOVERY_POINTS: _offsets,
    checkpoint.LOG_START_OFFSETS: _offsets,
    checkpoint.HIGH_WATERMARKS: _offsets,
    checkpoint.CLEANER_OFFSETS: _offsets,
    checkpoint.FORGOTTEN_OFFSETS: _offsets,
    checkpoint.REMOTE_LOG: _remote_log,
    checkpoint.LEADER_EPOCHS: _leader_epochs,
    checkpoint.META_PROPERTIES: _meta_properties,
    checkpoint.PARTITION_METADATA: _topic_id,
    checkpoint.CLEAN_SHUTDOWN: _clean_shutdown,
    QUORUM_STATE: _quorum_state,
    OFFLINE: _offline,
}
"""Reader by file name. Each raises `Corrupt` for content that is not of its kind."""
