"""Has the controller skip what the missing time gave out, for a broker whose data directory went back in time.

Leader epochs and producer ids come from the metadata log, which went back with the rest of the disk. Without the skip the
broker would give both out a second time, while the archive and clients that still run know the first ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import Uuid

__all__ = ["ControllerPorts", "Timelines", "TransactionPorts"]

_RETRY_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.02

log = logging.getLogger(__name__)


class ControllerPorts(Struct, frozen=True):
    """Commands of the controller, each raises `KafkaError`; and whether it cannot have ended the broker's session.

    ``raise_epoch`` takes a topic id, a partition, and the leader epoch that the new one has to exceed.
    ``begin_producer_era`` takes producer ids from a place that no other time has used.
    """

    raise_epoch: Callable[[Uuid, int, int], Awaitable[object]]
    begin_producer_era: Callable[[], Awaitable[object]]
    in_contact: Callable[[], bool] = lambda: True


class TransactionPorts(Struct, frozen=True):
    """Actions of the transaction coordinator, whose log went back, too.

    ``retire_producers`` takes each transactional id from its producer. ``judge`` ends the transactions of a log that their
    coordinator will not end, and then calls back.
    """

    retire_producers: Callable[[], object]
    judge: Callable[[UnifiedLog, Callable[[], object]], object]


class Timelines:
    """Repeats commands until the controller carries them out: on a full disk, for example, that takes a while."""

    def __init__(self, ports: ControllerPorts) -> None:
        self._ports = ports
        self._noticed = False
        self._tasks: set[asyncio.Task[None]] = set()

    def raise_epoch(
        self, unified: UnifiedLog, above: int, done: Callable[[], None], *, refused: Callable[[str], object]
    ) -> None:
        """Raise the leader epoch of a partition beyond ``above``, then call ``done``; ``refused`` takes each refusal meanwhile.

        ``done`` is called once the partition is led under that epoch here. It is not called if the topic is deleted meanwhile, or
        the partition is led no longer: then the controller is asked no more.
        """
        name, remote = unified.topic_partition, unified.remote

        def wanted() -> bool:
            return unified.remote is not None and unified.remote is remote

        async def raise_it() -> None:
            if wanted():
                await self._ports.raise_epoch(unified.topic_id, name.partition, above)
            seconds = _LOOK_SECONDS
            while wanted() and unified.partition.leader_epoch <= above:  # the image of this node comes later
                await asyncio.sleep(seconds)
                seconds = min(seconds * 2, _RETRY_SECONDS)

        def raised() -> None:
            if wanted():
                done()

        about = f"{name} is held back until its leader epoch is above {above}"
        self._begin(about, raise_it, raised, refused)

    def skip_producers(self) -> None:
        """Begin another era of producer ids while clients are served; once in a run is enough.

        A machine that was put back together with its memory did not start, so it has the era of the copy.
        """
        if not self._noticed:
            self._noticed = True
            self._begin("producer ids", self._ports.begin_producer_era, lambda: None, lambda _: None)

    async def begin_producer_era(self) -> None:
        """Begin an era of producer ids before the first client is served. Raises `KafkaError`.

        The archive's snapshots hold the last sequence number of each id. The batches of a new producer with an old id
        would be taken for repetitions, and dropped. No start knows that its directory did not go back: the bucket may
        be silent, and a copy of a running broker knows the run that the bucket knows.
        """
        await self._ports.begin_producer_era()

    def close(self) -> None:
        """Stop trying."""
        for task in self._tasks:
            task.cancel()

    def _begin(
        self,
        about: str,
        work: Callable[[], Awaitable[object]],
        done: Callable[[], None],
        refused: Callable[[str], object],
    ) -> None:
        task = asyncio.get_running_loop().create_task(_until_done(about, work, done, refused))
        self._tasks.add(task)  # the loop itself holds tasks weakly
        task.add_done_callback(self._tasks.discard)


async def _until_done(
    about: str, work: Callable[[], Awaitable[object]], done: Callable[[], None], refused: Callable[[str], object]
) -> None:
    """Repeat ``work`` until the controller accepts it, then call ``done``; ends without it if the topic is deleted."""
    logged = ""
    while True:
        try:
            await work()
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_ID:
                return
            if str(error) != logged:  # a thousand partitions may wait for one full disk, for hours
                logged = str(error)
                log.warning("%s: the controller refuses, it is asked again every second: %s", about, error)
            refused(str(error))
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            done()
            return
