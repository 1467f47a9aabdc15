"""Asks the active controller for blocks of producer ids (KIP-730)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from stratalog.broker.lifecycle.controller_channel import Channel, Quorum
from stratalog.broker.peers.peer_errors import PeerError
from stratalog.wire.errors import ErrorCode, KafkaError, Retriable
from stratalog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

__all__ = ["RETRY_MS", "ProducerIdBlocks"]

RETRY_MS: Final = 50
"""The wait after a failure, as in Kafka's ``RPCProducerIdManager``."""


class ProducerIdBlocks:
    """Blocks for one broker of a cluster."""

    def __init__(
        self,
        channel: Channel,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        quorum: Quorum,
        monotonic: Callable[[], float],
        timeout_ms: int,
    ) -> None:
        """``timeout_ms`` bounds the wait for one block."""
        self._channel = channel
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._quorum = quorum
        self._monotonic = monotonic
        self._timeout_ms = timeout_ms

    async def allocate(self) -> tuple[int, int]:
        """The first id of a new block, and how many there are.

        A request whose answer is lost costs a block: it is never given out. Raises `KafkaError`
        COORDINATOR_LOAD_IN_PROGRESS, upon which clients ask again, if the controller gives none in time.
        """
        deadline = self._monotonic() + self._timeout_ms / 1000
        while True:
            left_ms = int((deadline - self._monotonic()) * 1000)
            why = await self._attempt(max(left_ms, 1))
            if not isinstance(why, str):
                return why
            if left_ms <= RETRY_MS:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"there are no producer ids: {why}")
            await asyncio.sleep(RETRY_MS / 1000)

    async def _attempt(self, timeout_ms: int) -> tuple[int, int] | str:
        """A block, or why there is none yet."""
        request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
        try:
            answer = await self._channel.ask(request, timeout_ms=timeout_ms)
        except PeerError as error:
            if not isinstance(error, Retriable):
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
            return str(error)
        if not answer.error_code:
            return answer.producer_id_start, answer.producer_id_len
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            self._channel.not_controller(self._quorum.leader.epoch)
        return f"AllocateProducerIds: the active controller answers with error {answer.error_code}"
