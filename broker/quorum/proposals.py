"""Records that the active controller wants committed: written at the log's end, and answered once they are applied."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from stratalog.broker.quorum.batches import data_batch
from stratalog.broker.quorum.log_changes import LogChanges
from stratalog.broker.quorum.publishing import Publisher
from stratalog.metadata.image.features import METADATA_VERSION
from stratalog.metadata.image.image import Provenance
from stratalog.metadata.image.record_values import record_values
from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.events import Proposed
from stratalog.metadata.raft.messages import Batch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.schema import Message

__all__ = ["Proposal", "Proposals"]


class Proposal(Struct):
    """Records that wait for their place in the log."""

    records: tuple[Message, ...]
    epoch: int
    done: asyncio.Future[int]


class Proposals:
    """The proposals that are written and not answered yet. Lives on the event loop."""

    def __init__(
        self, changes: LogChanges, publisher: Publisher, *, beside: Callable[[Coroutine[Any, Any, None]], None]
    ) -> None:
        """``beside`` runs a coroutine beside the quorum's events."""
        self._changes = changes
        self._publisher = publisher
        self._beside = beside
        self._written: dict[asyncio.Future[int], None] = {}
        self._upgrades: dict[asyncio.Future[int], None] = {}

    async def wait_answered(self, seconds: float) -> None:
        """Wait until every proposal that was written has its answer, for so long at most."""
        if self._written:
            await asyncio.wait(set(self._written), timeout=seconds)

    def place(self, proposal: Proposal, base_offset: int, now_ms: int) -> Proposed | None:
        """Write a proposal at the log's end, ``base_offset``; the event that gives it to the machine.

        None if the disk has refused it: it is answered, and the log is as it was. ``now_ms`` is wall time.
        """
        records, epoch, done = proposal.records, proposal.epoch, proposal.done
        end_offset = base_offset + len(records)
        try:
            values = list(record_values(records, self._publisher.image.features.get(METADATA_VERSION, 0)))
            data = data_batch(values, base_offset=base_offset, epoch=epoch, timestamp_ms=now_ms)
            self._changes.place(Batch(base_offset, end_offset, epoch, data=data))
        except KafkaError as error:
            done.set_exception(error)
            return None
        self._publisher.expect(records, Provenance(end_offset - 1, epoch, now_ms))
        self._written[done] = None
        self._beside(self._answer(done, end_offset))
        return Proposed(done, epoch, len(records), data)

    def upgrade(self) -> asyncio.Future[int]:
        """The outcome of an `UpgradeProposed` with this token. The machine itself writes its records."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._upgrades[done] = None
        return done

    def accepted(self, action: act.Accepted) -> None:
        """An upgrade is in the log, and is answered when it is applied; `place` has noted all others."""
        done = action.token
        if done in self._upgrades:
            del self._upgrades[done]
            self._written[done] = None
            self._beside(self._answer(done, action.end_offset))

    def refused(self, action: act.Refused) -> None:
        """Answer an upgrade that cannot be made."""
        done = action.token
        if done not in self._upgrades:
            raise RuntimeError(f"the quorum refused a proposal that is in the log already: {action.error.name}")
        del self._upgrades[done]
        moved = action.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not done.done():
            done.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER if moved else action.error, action.message))

    async def _answer(self, done: asyncio.Future[int], end_offset: int) -> None:
        try:
            await self._publisher.reached(end_offset)
        except Exception as error:  # noqa: BLE001 - the publisher has logged it, and the node ends
            self.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata log cannot be applied here: {error}"))
            return
        self._written.pop(done, None)
        if not done.done():
            done.set_result(end_offset - 1)

    def fail(self, error: KafkaError) -> None:
        """Answer all that wait with an error; their records may be committed yet, or not."""
        written, self._written, self._upgrades = (*self._written, *self._upgrades), {}, {}
        for done in written:
            if not done.done():
                done.set_exception(KafkaError(error.code, error.message))
