"""A broker's part in transactions that reach over several brokers. A broker that is a cluster by itself has none of this.

.. code-block:: text

    MarkerWriter --> RemoteMarkers ----> WriteTxnMarkers -----> the leader of the partition
    Enlistment ----> RemoteEnlistment -> AddPartitionsToTxn --> the transaction's coordinator
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from stratalog.broker.coordinators.enlistment_batches import EnlistmentLimits
from stratalog.broker.coordinators.internal_topics import TRANSACTION_TOPIC
from stratalog.broker.coordinators.remote_enlistment import Question, RemoteEnlistment
from stratalog.broker.coordinators.remote_markers import RemoteMarkers
from stratalog.broker.link_making import LinkMaking
from stratalog.broker.peers.broker_links import BrokerLinks
from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["RemoteTransactions"]

_NO_LEADER: Final = -1


class RemoteTransactions:
    """The ways to other brokers, one for each purpose: none waits behind the requests of another."""

    def __init__(self, config: BrokerConfig, links: LinkMaking, image: Callable[[], ClusterImage]) -> None:
        """``image`` is the cluster as it is now."""
        self._node_id = config.node_id
        self._image = image
        monotonic = links.clock.monotonic
        make = partial(BrokerLinks, image, listener=config.roles.inter_broker_listener)
        self.markers = RemoteMarkers(
            make(new_link=links.link_to("txn-marker-sender")),
            node_id=config.node_id,
            image=image,
            monotonic=monotonic,
            draw=links.dice.random,
            timeout_ms=partial(config.integer, "request.timeout.ms"),
        )
        self._enlistment = RemoteEnlistment(
            make(new_link=links.link_to("add-partitions-to-txn")),
            EnlistmentLimits(
                timeout_ms=config.integer("request.timeout.ms"),
                retry_ms=config.integer("add.partitions.to.txn.retry.backoff.ms"),
                retry_max_ms=config.integer("add.partitions.to.txn.retry.backoff.max.ms"),
            ),
            monotonic=monotonic,
        )

    def coordinator_elsewhere(self, partition_number: int) -> int | None:
        """The other broker that leads a partition of the transactions' topic; None where it is this one.

        Raises COORDINATOR_NOT_AVAILABLE where none does, or where it is not served now.
        """
        image = self._image()
        topic = image.topics.by_name.get(TRANSACTION_TOPIC)
        state = None if topic is None else topic.partitions.get(partition_number)
        leader = _NO_LEADER if state is None else state.leader
        if leader == self._node_id:
            return None
        broker = image.brokers.brokers.get(leader)
        if broker is None or broker.is_fenced:
            why = f"{TRANSACTION_TOPIC}-{partition_number} has no leader now"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, why)
        return leader

    def ask(self, broker_id: int, question: Question) -> None:
        """Ask a coordinator on another broker; the question's token hears the answer, or an error."""
        self._enlistment.ask(broker_id, question)

    def follow(self) -> None:
        """The image has changed: other leaders, other addresses."""
        self.markers.follow()
        self._enlistment.follow()

    def close(self) -> None:
        """Send nothing any more."""
        self.markers.close()
        self._enlistment.close()
