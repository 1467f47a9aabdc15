"""Administrative commands, one at a time: decide, write, sync, apply, answer.

The decisions are pure functions in ``metadata``; this drives them on the node whose controller is active. The changes of
a command become part of the image only after its records are committed, and the command is answered only after the image
has been applied here.

Clients have their turns in fair shares, short commands before long ones of others. Long commands, and those that only
ask, are decided beside the others: one without records ends there and has no turn. One with records is written in its
turn if the decision would be the same on the image of that time, and is decided again in it if not. So each command
has the result that it has alone, on the image of its writing or, without records, on the image of its decision.

A turn ends a metadata transaction that it finds open before it decides: a batch of the command before was refused, or
another controller died inside. The transaction would take along all that is written behind it. After that, the first turn
of an office writes the office's first records. Kafka's controllers put both in front of their queue.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable, Sequence
from typing import Any, Final, Protocol, TypeVar

from stratalog.broker.control.command_turns import CommandTurns
from stratalog.broker.runtime.windows import Windows
from stratalog.metadata.controller.controller import Decision
from stratalog.metadata.image.decision import Steps, at_once
from stratalog.metadata.image.decision_batches import batch_steps, batches
from stratalog.metadata.image.features import METADATA_VERSION
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.same_image import Same, same_everywhere
from stratalog.wire.records.metadata import AbortTransactionRecord
from stratalog.wire.schema import Message

__all__ = ["ControlPlane", "new_topic_id"]

log = logging.getLogger(__name__)

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

_REASON: Final = "The rest of the transaction was never written"

T = TypeVar("T")

Decide = Callable[[ClusterImage], Decision[T] | Steps[T]]


class Committing(Protocol):
    """The metadata log as commands need it: `stratalog.broker.quorum.quorum.Quorum`."""

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""

    @property
    def active_epoch(self) -> int:
        """The epoch in which this node's controller decides. Raises `KafkaError` NOT_CONTROLLER."""

    @property
    def in_transaction(self) -> bool:
        """Whether the last applied record stands inside a metadata transaction (KIP-868)."""

    def propose(self, records: Sequence[Message], /, *, epoch: int) -> asyncio.Future[int]:
        """The offset of the last record, once all are committed and applied. Fails with `KafkaError`."""


def new_topic_id() -> bytes:
    """A topic id; never one that prints with a leading dash, which command lines would take for a flag."""
    while True:
        topic_id = os.urandom(_UUID_BYTES)
        if topic_id[0] >> 2 != _DASH:
            return topic_id


def _nothing(_image: ClusterImage) -> Decision[None]:
    return Decision((), None)


async def _at_once(steps: Generator[None, None, Any]) -> Any:
    return at_once(lambda: steps)()


class ControlPlane:
    """The controller's commands, and those that wait in front of them."""

    def __init__(
        self,
        quorum: Committing,
        *,
        activate: Callable[[ClusterImage], Decision[None]] = _nothing,
        before: Callable[[ClusterImage, Sequence[Message]], None] = lambda _image, _records: None,
        in_slices: Callable[[Generator[None, None, Any]], Awaitable[Any]] = _at_once,
        aside: Callable[[Generator[None, None, Any]], Awaitable[Any]] = _at_once,
    ) -> None:
        """``activate`` decides about the first records of an office: those of a new cluster.

        ``before`` is called before records are written; what it raises keeps them from being written.

        ``in_slices`` carries out what is decided or made in steps, so that others have their turns meanwhile; ``aside``
        does the same for a command that has no turn yet, so that no other command waits for its end.
        """
        self._quorum = quorum
        self._activate = activate
        self._begun: int | None = None
        """The epoch whose first records are written."""
        self._before = before
        self._in_slices = in_slices
        self._decide_aside = aside
        self.waited_ms, self.taken_ms = Windows(), Windows()
        """How long commands have waited for their turn, and how long their turns were."""
        self._turns = CommandTurns(1)
        self._long = CommandTurns(_ASIDE_MAX)

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        return self._quorum.image

    async def execute(
        self,
        decide: Decide[T],
        *,
        source: Hashable = None,
        size: int = 1,
        only_asks: bool = False,
        same: Same = same_everywhere,
    ) -> T:
        """Carry out one command. Raises what ``decide`` raises, or `KafkaError` if it cannot be written.

        NOT_CONTROLLER: another node decides; if that came while records were written, their fate is not known.
        KAFKA_STORAGE_ERROR: the log cannot be written here.

        ``source`` is the client, and ``size`` the number of things that the command is about: turns are given by these.
        ``only_asks``: there will be no records. ``same`` says whether the decision would be the same on a later image;
        ``decide`` may be called a second time if not.

        A caller that is cancelled (its client has gone) before its turn leaves nothing behind; later, the command is
        carried to its end first: records in the log that the image does not know would be decided upon again.
        """
        self._quorum.active_epoch  # noqa: B018 - raises where another node decides
        cost = _COMMAND_COST + min(size, _SIZE_MAX)
        if size < LONG and not only_asks:
            return await self._in_turn(decide, source, cost)
        async with self._long.turn(source, cost):
            if self._begun != self._quorum.active_epoch:
                await self.begin(source)
            image = self.image
            found = decide(image)
            decision: Decision[T] = found if isinstance(found, Decision) else await self._decide_aside(found)
            if not decision.records:
                return decision.result
            return await self._in_turn(decide, source, cost, (image, decision, same))

    async def begin(self, source: Hashable) -> None:
        """Write the first records of this office, unless a command of the office has done so. Raises as `execute` does."""
        await self._in_turn(_nothing, source, _COMMAND_COST)

    async def write(self, records: tuple[Message, ...]) -> None:
        """Write records that need no decision (those of a new cluster)."""
        async with self._turns.turn(self, _COMMAND_COST + len(records)):
            epoch = self._quorum.active_epoch
            await self._make_ready(epoch)
            await _to_its_end(self._write(Decision(records, None), epoch))

    async def _in_turn(
        self,
        decide: Decide[T],
        source: Hashable,
        cost: int,
        aside: tuple[ClusterImage, Decision[T], Same] | None = None,
    ) -> T:
        """Decide a command in its turn, unless what was decided ``aside`` still holds, and write what it comes to."""
        loop = asyncio.get_running_loop()
        asked = loop.time()
        async with self._turns.turn(source, cost):
            begun = loop.time()
            self.waited_ms.note((begun - asked) * 1000, int(begun * 1000))
            epoch = self._quorum.active_epoch
            await self._make_ready(epoch)
            # The image stays what it is from here: no other command is written before this one is carried out.
            if aside is not None and aside[2](aside[0], self.image):
                decision = aside[1]
            else:
                found = decide(self.image)
                decision = found if isinstance(found, Decision) else await self._in_slices(found)
            if decision.records:
                await _to_its_end(self._write(decision, epoch))
            ended = loop.time()
            self.taken_ms.note((ended - begun) * 1000, int(ended * 1000))
            return decision.result

    async def _make_ready(self, epoch: int) -> None:
        """Write what has to stand in front of the next command. Raises `KafkaError`: no command may be decided yet."""
        if self._quorum.in_transaction:
            await _to_its_end(self._write(Decision((AbortTransactionRecord(reason=_REASON),), None), epoch))
            log.warning("a metadata transaction that was left open in the log is aborted: none of its records holds")
        if self._begun != epoch:
            first = self._activate(self.image)
            if first.records:
                await _to_its_end(self._write(first, epoch))
            self._begun = epoch

    async def _write(self, decision: Decision[Any], epoch: int) -> None:
        """Have the records committed, in the epoch in which they were decided and in no other."""
        level, is_short = self.image.features.get(METADATA_VERSION, 0), len(decision.records) <= LONG
        together = batches(decision, level) if is_short else await self._in_slices(batch_steps(decision, level))
        self._before(self.image, decision.records)
        for records in together:
            await self._quorum.propose(records, epoch=epoch)


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
