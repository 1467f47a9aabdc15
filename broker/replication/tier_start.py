"""A replica that begins behind its archive: it copies from its leader only what the archive does not have (KIP-405).

The leader's local start is asked for first and the manifest is read afterwards, so the archive reaches at least that far. With
the records below the remote end come the history of leader epochs and the state of producers there: without the first an old
fork would not be seen, without the second a retry would be taken for a new batch. Rule 28 of the cluster's design.

An archive that a later incarnation owns goes on with records of another cluster. The part that is this cluster's reaches at least to the
leader's local start, for it evicts nothing else: the log begins there then.

A replica that has records which its leader has evicted asks the archive before it lets them go: they may be the last copies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.view import ManifestView
from stratalog.tier.messages import commands
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["ArchiveAccess", "ArchivedHistory", "read_back", "read_history"]

Submit = Callable[[commands.Command, Callable[[commands.Report], None]], None]
"""Sends a command to the worker of the archive; the report comes later, on the event loop."""


class ArchiveAccess(NamedTuple):
    """The way to the archives of a cluster, and its incarnation, under which it writes to them."""

    submit: Submit
    incarnation: Callable[[], int]


class ArchivedHistory(NamedTuple):
    """The end of an archive, or of the part that is this cluster's, and what a log needs to go on there."""

    remote_end: int
    leader_epochs: tuple[EpochEntry, ...]
    producer_snapshot: bytes | None


async def read_history(
    archive: ArchiveAccess, partition: PartitionId, local_start: int, leader_epoch: int
) -> ArchivedHistory:
    """Read the manifest, and the state of producers where the log is to go on; ``local_start`` is the leader's.

    Later epochs than ``leader_epoch`` are those of another owner, which has gone back to a cut if they begin below.

    Raises `KafkaError` KAFKA_STORAGE_ERROR if the archive does not answer, or has nothing.
    """
    manifest = await _asked(archive.submit, commands.ReadManifest(partition, lets_go=True))
    if not isinstance(manifest, commands.ManifestRead) or manifest.view.deleted:
        raise _unusable(partition, manifest)
    view = manifest.view
    end, key = view.remote_end, view.newest_key
    epochs = [EpochEntry(*entry) for entry in view.leader_epochs]
    if view.claimant.incarnation > archive.incarnation() and end > local_start:
        own = [entry for entry in epochs if entry.epoch <= leader_epoch]
        is_own = all(entry.start_offset >= local_start for entry in epochs[len(own) :])
        end, key = local_start, _key_ending_at(local_start, view) if is_own else ""
        epochs = own
    snapshot: bytes | None = None
    if key:
        state = await _asked(archive.submit, commands.ReadRestartState(partition, key))
        if not isinstance(state, commands.RestartStateRead):
            raise _unusable(partition, state)
        snapshot = state.producer_snapshot or None
    return ArchivedHistory(end, tuple(entry for entry in epochs if entry.start_offset < end), snapshot)


async def read_back(archive: ArchiveAccess, partition: PartitionId, start: int, end: int) -> tuple[int, str]:
    """Up to which offset of ``[start, end)`` the archive certainly has everything (rule 4), and why there is no more.

    ``start`` if it does not tell; the reason is empty where it is to be asked again. It has to be this cluster's. A call looks at
    some of the objects only, the first ones.
    """
    report = await _asked(archive.submit, commands.ReadBack(partition, start, end, archive.incarnation()))
    if isinstance(report, commands.VerifiedUpTo):
        return report.offset, f"its archive lacks the records from offset {start} on"
    if isinstance(report, commands.FailedReport) and report.retriable:
        return start, ""
    return start, str(getattr(report, "message", report))


def _key_ending_at(offset: int, view: ManifestView) -> str:
    """The object that ends at an offset; empty if none does: the owner may have merged it, and its producers are forgotten."""
    entries = view.entries
    return next((entries.unpack(view.partition, at).key for at, end in enumerate(entries.ends) if end == offset), "")


async def _asked(submit: Submit, command: commands.Command) -> commands.Report:
    answered: asyncio.Future[commands.Report] = asyncio.get_running_loop().create_future()
    submit(command, lambda report: None if answered.done() else answered.set_result(report))
    return await answered


def _unusable(partition: PartitionId, report: commands.Report) -> KafkaError:
    why = getattr(report, "message", "it is being removed")
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: its archive cannot be used: {why}")
