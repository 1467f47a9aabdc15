"""Administrative commands, one at a time: decide, write, sync, apply, answer.

The decisions are pure functions in ``metadata``; this drives them. What a command changes becomes part of the image
only after its records are on disk, and the command is answered only after the image has been applied here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from typing import Any, Final, TypeVar

from stratalog.broker.clock import Clock
from stratalog.broker.metadata_log import MetadataLog
from stratalog.metadata.controller import Decision, allocate_producer_ids
from stratalog.metadata.decision import Steps, at_once
from stratalog.metadata.image import ClusterImage, ImageDelta, Provenance
from stratalog.wire.schema import Message

__all__ = ["ControlPlane", "ProducerIds", "new_topic_id"]

_UUID_BYTES: Final = 16
_DASH: Final = 62
"""The number of the dash in URL-safe base64, in which topic ids are printed."""

T = TypeVar("T")

Applied = Callable[[ClusterImage, ImageDelta], Awaitable[None]]
"""Called with the new image and what changed, on the loop. The command is answered, and the next one decided, when it
has come to its end; it may give others their turns on the way."""


def new_topic_id() -> bytes:
    """A topic id; never one that prints with a leading dash, which command lines would take for a flag."""
    while True:
        topic_id = os.urandom(_UUID_BYTES)
        if topic_id[0] >> 2 != _DASH:
            return topic_id


async def _at_once(steps: Generator[None, None, Any]) -> Any:
    return at_once(lambda: steps)()


class ControlPlane:
    """The one voter's image and the queue of commands in front of it."""

    def __init__(
        self,
        image: ClusterImage,
        log: MetadataLog,
        clock: Clock,
        on_applied: Applied,
        *,
        before: Callable[[ClusterImage, Sequence[Message]], None] = lambda _image, _records: None,
        in_slices: Callable[[Generator[None, None, Any]], Awaitable[Any]] = _at_once,
    ) -> None:
        """``before`` is called before records are written; what it raises keeps them from being written.

        ``in_slices`` carries out what is decided or made in steps, so that others have their turns meanwhile.
        """
        self.image = image
        self.log: Final = log
        self._clock = clock
        self._on_applied = on_applied
        self._before = before
        self._in_slices = in_slices
        self._turn = asyncio.Lock()

    async def execute(self, decide: Callable[[ClusterImage], Decision[T] | Steps[T]]) -> T:
        """Carry out one command. Raises what ``decide`` raises, or KAFKA_STORAGE_ERROR if it cannot be written.

        A caller that is cancelled (its client has gone) before its turn leaves nothing behind; later, the command is
        carried to its end first: records in the log that the image does not know would be decided upon again.
        """
        async with self._turn:
            found = decide(self.image)
            # The image stays what it is meanwhile: no other command is decided before this one is carried out.
            decision: Decision[T] = found if isinstance(found, Decision) else await self._in_slices(found)
            if decision.records:
                await _to_its_end(self._write(decision.records))
            return decision.result

    async def write(self, records: tuple[Message, ...]) -> None:
        """Write records that need no decision (those of a new cluster)."""
        async with self._turn:
            await _to_its_end(self._write(records))

    async def _write(self, records: tuple[Message, ...]) -> None:
        now_ms = self._clock.wall_ms()
        self._before(self.image, records)
        last_offset = await self.log.append(records, now_ms)
        delta = ImageDelta(self.image)
        for record in records:
            delta.replay(record)
        image = delta.build(Provenance(last_offset, self.log.partition.leader_epoch, now_ms))
        self.image = image
        await self._on_applied(image, delta)
        if self.log.snapshot_due:
            try:
                await self.log.write_snapshot(image, self._in_slices)
            except OSError as error:
                # What was asked for is on disk and in force; only the shortening of the log has to wait.
                self.log.partition.directory.report(error, self.log.partition)


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Wait for ``work``, which no cancellation reaches; a cancellation of the caller is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    failure = task.exception()
    if cancelled is not None:
        raise cancelled from failure
    if failure is not None:
        raise failure


class ProducerIds:
    """Producer ids for idempotent producers, from blocks that are given out once for good (KIP-730)."""

    def __init__(self, control: ControlPlane, node_id: int) -> None:
        self._control = control
        self._node_id = node_id
        self._next = 0
        self._left = 0
        self._turn = asyncio.Lock()

    def skip_to(self, first: int) -> None:
        """Give out nothing below ``first`` any more; what is left of the present block goes."""
        if self._next < first:
            self._left = 0

    async def next(self) -> int:
        """An id that nobody has or will ever have. Raises `KafkaError`."""
        async with self._turn:
            if not self._left:
                block = await self._control.execute(
                    lambda image: allocate_producer_ids(
                        image, self._node_id, image.brokers.brokers[self._node_id].epoch
                    )
                )
                self._next, self._left = block
            producer_id = self._next
            self._next += 1
            self._left -= 1
            return producer_id
