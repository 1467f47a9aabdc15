"""A replica that begins behind its archive: it copies from its leader only what the archive does not have (KIP-405).

The leader's local start is asked for first and the manifest is read afterwards, so the archive reaches at least that far. With
the records below the remote end come the history of leader epochs and the state of producers there: without the first an old
fork would not be seen, without the second a retry would be taken for a new batch. Rule 28 of the cluster's design.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.messages import commands
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["ArchivedHistory", "Submit", "read_history"]

Submit = Callable[[commands.Command, Callable[[commands.Report], None]], None]
"""Sends a command to the worker of the archive; the report comes later, on the event loop."""


class ArchivedHistory(NamedTuple):
    """The end of an archive, and what a log needs to go on there."""

    remote_end: int
    leader_epochs: tuple[EpochEntry, ...]
    producer_snapshot: bytes | None


async def read_history(submit: Submit, partition: PartitionId) -> ArchivedHistory:
    """Read the manifest, and the state of producers behind its newest object.

    Raises `KafkaError` KAFKA_STORAGE_ERROR if the archive does not answer, or has nothing.
    """
    manifest = await _asked(submit, commands.ReadManifest(partition))
    if not isinstance(manifest, commands.ManifestRead) or manifest.view.deleted:
        raise _unusable(partition, manifest)
    view = manifest.view
    snapshot: bytes | None = None
    if view.newest_key:
        state = await _asked(submit, commands.ReadRestartState(partition, view.newest_key))
        if not isinstance(state, commands.RestartStateRead):
            raise _unusable(partition, state)
        snapshot = state.producer_snapshot or None
    epochs = tuple(EpochEntry(*entry) for entry in view.leader_epochs if entry[1] < view.remote_end)
    return ArchivedHistory(view.remote_end, epochs, snapshot)


async def _asked(submit: Submit, command: commands.Command) -> commands.Report:
    answered: asyncio.Future[commands.Report] = asyncio.get_running_loop().create_future()
    submit(command, lambda report: None if answered.done() else answered.set_result(report))
    return await answered


def _unusable(partition: PartitionId, report: commands.Report) -> KafkaError:
    why = getattr(report, "message", "it is being removed")
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: its archive cannot be used: {why}")
