"""From committed batches of the metadata log to images, one after the other, and to those who follow them.

Only what is committed is ever applied. A publication has ended when every follower has taken the image in; a proposal of
this node is answered after that, so its caller finds the cluster as the records have made it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Final

from stratalog.broker.quorum.metadata_log import chunks_of, read_newest_snapshot
from stratalog.broker.quorum.replica import MetadataReplica
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.hot.storage.shortages import NO_DESCRIPTOR
from stratalog.metadata.image.decision import at_once
from stratalog.metadata.image.difference import ImageChange, differing
from stratalog.metadata.image.image import ClusterImage, Provenance
from stratalog.metadata.image.replay import MetadataReplay
from stratalog.metadata.quorum.checkpoint import QuorumRecords
from stratalog.wire.errors import Corrupt, StratalogError
from stratalog.wire.schema import Message

__all__ = ["Follow", "Publisher", "at_start"]

Follow = Callable[[ClusterImage, ImageChange], Awaitable[None]]
"""Called with the new image and what has changed since the one before; the next one waits for its end."""

InSlices = Callable[[Generator[None, None, Any]], Awaitable[Any]]

_AGAIN_SECONDS: Final = 1.0
_TOLD_EACH: Final = 30
"""Every so many attempts it is said again."""

log = logging.getLogger(__name__)


async def at_start(steps: Generator[None, None, Any]) -> Any:
    """Carry steps out at once, where no client waits for a turn yet."""
    return at_once(lambda: steps)()


class Publisher:
    """The image of this node, and the way of committed records into it. Lives on the event loop."""

    def __init__(
        self,
        replica: MetadataReplica,
        files: Filesystem,
        *,
        in_slices: InSlices = at_start,
        on_failed: Callable[[Exception], None],
    ) -> None:
        """Begin with the newest snapshot. ``in_slices`` carries out steps so that others have their turns between.

        ``on_failed`` is called when committed records cannot be applied: the node must end, for its image would be
        another one than that of all others. Raises `Corrupt`, `OSError`.
        """
        self._replica = replica
        self._in_slices = in_slices
        self._on_failed = on_failed
        self.image, quorum = read_newest_snapshot(replica.log, files)
        self.first_quorum: Final = quorum
        """The voters that the newest snapshot names."""
        self._replay = MetadataReplay(self.image, quorum)
        self.quorum: QuorumRecords = quorum
        """The voters up to the end of `image`."""
        self._committed = self.published_offset = self._replay.next_offset
        self._own: dict[int, tuple[tuple[Message, ...], Provenance]] = {}
        self._follows: list[Follow] = []
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._halted = self._ended = False
        self._failure: Exception | None = None
        self.load_errors = self.apply_errors = 0
        """Records that could not be applied; images that could not be followed. The node ends after one of them."""
        self.on_published: Callable[[], None] = lambda: None
        """Called after each publication."""

    @property
    def in_transaction(self) -> bool:
        """Whether the last applied record stands inside a metadata transaction (KIP-868)."""
        return self._replay.in_transaction

    def follow(self, take: Follow) -> None:
        """Have ``take`` called for each image from the next one on."""
        self._follows.append(take)

    def read_ahead(self, end_offset: int) -> None:
        """Take in the log up to ``end_offset`` at a start, before it is known to be committed.

        Only for the only voter: it will commit all that it has. A log that cannot be read is found before anything is
        written to it. Raises `Corrupt`, `OSError`.
        """
        directory = self._replica.log.directory
        while self._replay.next_offset < end_offset:
            offset = self._replay.next_offset
            try:
                for chunk in chunks_of(self._replica.log, offset, end_offset):
                    self._replay.replay(chunk)
            except Corrupt as error:
                raise Corrupt(
                    f"the metadata log in {directory} is damaged near offset {self._replay.next_offset} ({error}): "
                    "restore the directory from a copy; the files are unchanged"
                ) from error
            if self._replay.next_offset <= offset:
                raise Corrupt(f"the metadata log in {directory} cannot be read at offset {offset}")
        self.image, self.quorum = self._replay.image(), self._replay.quorum
        self._committed = self.published_offset = self._replay.next_offset

    # -- what the quorum says ------------------------------------------------------------------------------------------

    def expect(self, records: Sequence[Message], provenance: Provenance) -> None:
        """Keep what this node has written itself, until it is committed: it need not be read again."""
        self._own[provenance.offset + 1 - len(records)] = tuple(records), provenance

    def forget_own(self) -> None:
        """Forget what this node has written: others may write other records at the same offsets."""
        self._own.clear()

    def committed(self, high_watermark: int) -> None:
        """Apply what lies below."""
        self._committed = max(self._committed, high_watermark)
        if self._task is None and not (self._halted or self._ended) and self.published_offset < self._committed:
            self._task = asyncio.get_running_loop().create_task(self._publish_all())

    async def halt(self) -> None:
        """Begin no publication before the next `replace`, and wait for the end of the one that is under way.

        The log is about to go: a publication that read on would find nothing.
        """
        self._halted = True
        if self._task is not None:
            await asyncio.wait({self._task})

    async def replace(self, image: ClusterImage, quorum: QuorumRecords) -> None:
        """Go on, after `halt`, from an image that the leader's snapshot has, in place of a log that reached less far."""
        assert self._halted, "replace comes after halt"
        before, self.image, self.quorum = self.image, image, quorum
        self._own.clear()
        self._replay = MetadataReplay(image, quorum)
        await self._published(await self._in_slices(differing(before, image)))
        self.go_on()

    def go_on(self) -> None:
        """Publish again, after `halt`."""
        self._halted = False
        self.committed(self._committed)

    async def reached(self, offset: int) -> None:
        """Wait until everything below ``offset`` is applied and followed.

        Raises the error with which applying has ended; the wait is cancelled by `close`.
        """
        if self.published_offset < offset:
            if self._failure is not None:
                raise self._failure
            if self._ended:
                raise asyncio.CancelledError
            done = asyncio.get_running_loop().create_future()
            self._waiting.append((offset, done))
            await done

    def close(self) -> None:
        """Publish nothing more."""
        self._ended = True
        if self._task is not None:
            self._task.cancel()
        for _, done in self._waiting:
            done.cancel()

    # -- applying ------------------------------------------------------------------------------------------------------

    async def _publish_all(self) -> None:
        try:
            while self.published_offset < self._committed and not self._halted:
                await self._publish_some()
        except Exception as error:
            log.critical(
                "the committed records of the metadata log from offset %d on cannot be applied: %s. The node ends: its "
                "image would differ from that of the others",
                self._replay.next_offset,
                error,
                exc_info=not isinstance(error, StratalogError | OSError),
            )
            self._ended, self._failure = True, error
            waiting, self._waiting = self._waiting, []
            for _, done in waiting:
                if not done.done():
                    done.set_exception(error)
            self._on_failed(error)
        finally:
            self._task = None
        self.committed(self._committed)  # more may have come while the last image was followed

    async def _publish_some(self) -> None:
        try:
            change = await self._replayed()
        except Exception:
            self.load_errors += 1
            raise
        await self._published(change)

    async def _replayed(self) -> ImageChange:
        """Take the next records into the image."""
        replay = self._replay
        own = self._own.pop(replay.next_offset, None)
        if own is not None:
            await self._in_slices(replay.replay_own(*own))
        else:
            await self._in_slices(replay.replay_steps(await self._read(replay.next_offset)))
            for base_offset in [one for one in self._own if one < replay.next_offset]:
                del self._own[base_offset]  # it was read with the others
        change: ImageChange
        self.image, change = await self._in_slices(replay.taking())
        self.quorum = replay.quorum
        return change

    async def _read(self, offset: int) -> bytes:
        """Committed records from ``offset`` on. Where no descriptor is left for their file they wait: clients close theirs."""
        attempts = 0
        while True:
            try:
                return next(chunks_of(self._replica.log, offset, self._committed))
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
                    raise
                if attempts % _TOLD_EACH == 0:
                    log.error("the metadata log cannot be read at offset %d yet: %s", offset, error)
            attempts += 1
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _published(self, change: ImageChange) -> None:
        image, end = self.image, self._replay.next_offset
        try:
            for take in tuple(self._follows):
                await take(image, change)
        except Exception:
            self.apply_errors += 1
            raise
        self.published_offset = end
        waiting, self._waiting = self._waiting, []
        for offset, done in waiting:
            if offset > end:
                self._waiting.append((offset, done))
            elif not done.done():
                done.set_result(None)
        self.on_published()
