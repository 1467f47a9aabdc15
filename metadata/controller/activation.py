"""The first records of a controller that becomes active: a new cluster begins.

An empty log gets the records of ``bootstrap.checkpoint`` and, where eligible leader replicas are kept, one minimum of
in-sync replicas for the cluster; all of them hold together. A log that was restored from a bucket has the levels of a new
cluster and no minimum yet, as that is a setting of the node: it gets it here. Each controller of a cluster of several
nodes begins an era of producer ids, as the disks of a whole quorum may have gone back in time. A transaction that the
controller before has left open was aborted before, by `ControlPlane`. Sources: Kafka's ``ActivationRecordsGenerator``; KIP-868, KIP-966.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stratalog.metadata.controller.brokers import begin_producer_era
from stratalog.metadata.controller.min_in_sync import one_minimum_records
from stratalog.metadata.image.decision import Decision
from stratalog.metadata.image.features import METADATA_VERSION, TRANSACTIONS_SINCE, has_eligible_leader_replicas
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.records.metadata import BeginTransactionRecord, EndTransactionRecord
from stratalog.wire.schema import Message

__all__ = ["activation"]

_NAME: Final = "Bootstrap records"
_NO_BROKER: Final = -1


def activation(
    image: ClusterImage, bootstrap: Sequence[Message], *, min_in_sync_replicas: int, era_draw: int | None = None
) -> Decision[None]:
    """The records with which a controller begins to decide.

    ``min_in_sync_replicas`` is the setting of the controller's file. ``bootstrap`` begins with the level of
    ``metadata.version``. ``era_draw`` is a random number of 64 bits, with which a cluster that has begun gets another era
    of producer ids; None: it keeps that of its start.
    """
    if image.features:
        records: list[Message] = []
        if has_eligible_leader_replicas(image.features):
            records = one_minimum_records(image, min_in_sync_replicas)
        if era_draw is not None:
            records += begin_producer_era(image, _NO_BROKER, era_draw).records
        return Decision(tuple(records), None)
    begun = image.apply(bootstrap)
    first = [*bootstrap]
    if has_eligible_leader_replicas(begun.features):
        first += one_minimum_records(begun, min_in_sync_replicas)
    if begun.features.get(METADATA_VERSION, 0) >= TRANSACTIONS_SINCE:
        first = [BeginTransactionRecord(name=_NAME), *first, EndTransactionRecord()]
    return Decision(tuple(first), None)
