"""The office of the active controller, as one node has it: from its election to the moment when it decides, and to the end."""

from __future__ import annotations

import logging
from collections.abc import Callable

from stratalog.broker.quorum.beside import Beside
from stratalog.broker.quorum.publishing import Publisher
from stratalog.wire.errors import StratalogError

__all__ = ["Office"]

log = logging.getLogger(__name__)


class Office:
    """A leader of the metadata log decides once everything is applied that was committed before."""

    def __init__(self, node_id: int, publisher: Publisher, beside: Beside, announce: Callable[[], None]) -> None:
        """``announce`` is called when the node begins to decide."""
        self._node_id = node_id
        self._publisher = publisher
        self._beside = beside
        self._announce = announce
        self._leading_epoch: int | None = None
        self.active_epoch: int | None = None
        """The epoch in which the controller of this node decides."""

    def take(self, epoch: int, high_watermark: int) -> None:
        """The node leads; below ``high_watermark`` everything is committed, the first record of the epoch included."""
        self._leading_epoch = epoch
        self._beside(self._activate(epoch, high_watermark))

    async def _activate(self, epoch: int, high_watermark: int) -> None:
        try:
            await self._publisher.reached(high_watermark)
        except (StratalogError, OSError) as error:  # the publisher has said it, and ends the node
            log.debug("this node decides nothing in epoch %d: %s", epoch, error)
            return
        if self._leading_epoch == epoch:
            log.info("node %d is the active controller in epoch %d", self._node_id, epoch)
            self.active_epoch = epoch
            self._announce()

    def decide_no_more(self) -> None:
        """No command begins any more, though the node still leads."""
        self.active_epoch = None

    def leave(self, epoch: int) -> None:
        """The node leads no longer; ``epoch`` was its last."""
        if self._leading_epoch is not None:
            log.info("node %d is the active controller no more; its epoch was %d", self._node_id, epoch)
        self._leading_epoch = self.active_epoch = None
        self._publisher.forget_own()
