"""Administrative commands, one at a time: decide, write, sync, apply, answer.

The decisions are pure functions in ``metadata``; this drives them. The changes of a command become part of the image
only after its records are on disk, and the command is answered only after the image has been applied here.

Clients have their turns in fair shares, short commands before long ones of others. Long commands, and those that only
ask, are decided beside the others: one without records ends there and has no turn. One with records is written in its
turn if the decision would be the same on the image of that time, and is decided again in it if not. So each command
has the result that it has alone, on the image of its writing or, without records, on the image of its decision.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable, Sequence
from typing import Any, Final, TypeVar

from stratalog.broker.control.command_turns import CommandTurns
from stratalog.broker.control.metadata_log import MetadataLog
from stratalog.broker.runtime.clock import Clock
from stratalog.metadata.controller.controller import Decision
from stratalog.metadata.image.decision import Steps, at_once
from stratalog.metadata.image.features import METADATA_VERSION
from stratalog.metadata.image.image import ClusterImage, ImageDelta, Provenance
from stratalog.metadata.image.same_image import Same, same_everywhere
from stratalog.wire.schema import Message

__all__ = ["ControlPlane", "new_topic_id"]

_UUID_BYTES: Final = 16
_DASH: Final = 62
"""The number of the dash in URL-safe base64, in which topic ids are printed."""

LONG: Final = 256
"""A command about so many things is a long one."""
_SIZE_MAX: Final = 10_000
"""A command that says it is about more things does not cost more: it is refused."""
_COMMAND_COST: Final = 100
"""The cost of a command about nothing, in things: its records are synced, as those of any other are."""
_ASIDE_MAX: Final = 4
"""Long commands that are decided, or wait for their turn to be written. Each holds its records in memory."""

T = TypeVar("T")

Decide = Callable[[ClusterImage], Decision[T] | Steps[T]]

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
    """The one voter's image and the commands that wait in front of it."""

    def __init__(
        self,
        image: ClusterImage,
        log: MetadataLog,
        clock: Clock,
        on_applied: Applied,
        *,
        before: Callable[[ClusterImage, Sequence[Message]], None] = lambda _image, _records: None,
        in_slices: Callable[[Generator[None, None, Any]], Awaitable[Any]] = _at_once,
        aside: Callable[[Generator[None, None, Any]], Awaitable[Any]] = _at_once,
    ) -> None:
        """``before`` is called before records are written; what it raises keeps them from being written.

        ``in_slices`` carries out what is decided or made in steps, so that others have their turns meanwhile; ``aside``
        does the same for a command that has no turn yet, so that no other command waits for its end.
        """
        self.image = image
        self.log: Final = log
        self._clock = clock
        self._on_applied = on_applied
        self._before = before
        self._in_slices = in_slices
        self._decide_aside = aside
        self._turns = CommandTurns(1)
        self._long = CommandTurns(_ASIDE_MAX)

    async def execute(
        self,
        decide: Decide[T],
        *,
        source: Hashable = None,
        size: int = 1,
        only_asks: bool = False,
        same: Same = same_everywhere,
    ) -> T:
        """Carry out one command. Raises what ``decide`` raises, or KAFKA_STORAGE_ERROR if it cannot be written.

        ``source`` is the client, and ``size`` the number of things that the command is about: turns are given by these.
        ``only_asks``: there will be no records. ``same`` says whether the decision would be the same on a later image;
        ``decide`` may be called a second time if not.

        A caller that is cancelled (its client has gone) before its turn leaves nothing behind; later, the command is
        carried to its end first: records in the log that the image does not know would be decided upon again.
        """
        cost = _COMMAND_COST + min(size, _SIZE_MAX)
        if size < LONG and not only_asks:
            return await self._in_turn(decide, source, cost)
        async with self._long.turn(source, cost):
            image = self.image
            found = decide(image)
            decision: Decision[T] = found if isinstance(found, Decision) else await self._decide_aside(found)
            if not decision.records:
                return decision.result
            return await self._in_turn(decide, source, cost, (image, decision, same))

    async def write(self, records: tuple[Message, ...]) -> None:
        """Write records that need no decision (those of a new cluster)."""
        async with self._turns.turn(self, _COMMAND_COST + len(records)):
            await _to_its_end(self._write(records))

    async def _in_turn(
        self,
        decide: Decide[T],
        source: Hashable,
        cost: int,
        aside: tuple[ClusterImage, Decision[T], Same] | None = None,
    ) -> T:
        """Decide a command in its turn, unless what was decided ``aside`` still holds, and write what it comes to."""
        async with self._turns.turn(source, cost):
            # The image stays what it is meanwhile: no other command is written before this one is carried out.
            if aside is not None and aside[2](aside[0], self.image):
                decision = aside[1]
            else:
                found = decide(self.image)
                decision = found if isinstance(found, Decision) else await self._in_slices(found)
            if decision.records:
                await _to_its_end(self._write(decision.records))
            return decision.result

    async def _write(self, records: tuple[Message, ...]) -> None:
        now_ms = self._clock.wall_ms()
        self._before(self.image, records)
        level = self.image.features.get(METADATA_VERSION, 0)
        last_offset = await self.log.append(records, now_ms, level)
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
                # The requested change is on disk and in force; only the shortening of the log has to wait.
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
