"""The first records of an active controller."""

import pytest

from stratalog.metadata.controller.activation import activation
from stratalog.metadata.image.features import bootstrap_records
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.records.metadata import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
)

BEGIN = BeginTransactionRecord(name="Bootstrap records")
END = EndTransactionRecord()
ELR = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
MINIMUM = ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="2")


def level(number):
    return FeatureLevelRecord(name="metadata.version", feature_level=number)


def records(image, bootstrap=()):
    return list(activation(image, bootstrap, min_in_sync_replicas=2).records)


def test_an_empty_log_gets_the_records_of_a_new_cluster_in_one_transaction():
    """As Kafka's controller writes them."""
    bootstrap = bootstrap_records()
    assert records(EMPTY_IMAGE, bootstrap) == [BEGIN, *bootstrap, MINIMUM, END]


def test_a_cluster_that_keeps_eligible_replicas_begins_with_one_minimum():
    """A cluster-wide setting, unless the bootstrap has one."""
    assert records(EMPTY_IMAGE, [level(30), ELR]) == [BEGIN, level(30), ELR, MINIMUM, END]
    own = ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="3")
    assert records(EMPTY_IMAGE, [level(30), ELR, own]) == [BEGIN, level(30), ELR, own, END]


@pytest.mark.parametrize(("number", "framed"), [(12, False), (13, True)])
def test_below_level_13_there_is_no_transaction(number, framed):
    """One batch holds them all."""
    assert records(EMPTY_IMAGE, [level(number)]) == ([BEGIN, level(number), END] if framed else [level(number)])


def test_a_restored_log_gets_the_minimum_of_the_node():
    """It has the levels of a new cluster, and settings of nodes are in no bucket. One that has a minimum keeps it."""
    restored = EMPTY_IMAGE.apply([level(30), ELR])
    assert records(restored) == [MINIMUM]
    assert records(restored.apply([MINIMUM])) == []


def test_a_log_that_is_whole_gets_nothing():
    """The bootstrap is of a cluster that begins."""
    assert records(EMPTY_IMAGE.apply([level(30)]), [level(30)]) == []


def test_each_controller_of_several_nodes_begins_an_era_of_producer_ids():
    """The log of its whole quorum may have gone back, twice to the same copy: the draw keeps the eras apart."""
    image = EMPTY_IMAGE.apply([level(30), ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=7000)])
    firsts = [activation(image, (), min_in_sync_replicas=2, era_draw=draw).records for draw in (0, 1 << 40)]
    (low,), (high,) = firsts
    assert 7000 < low.next_producer_id < high.next_producer_id
    assert low.next_producer_id % (1 << 20) == high.next_producer_id % (1 << 20) == 0
    assert image.apply(firsts[1]).next_producer_id == high.next_producer_id
    assert records(EMPTY_IMAGE, [level(12)]) == list(
        activation(EMPTY_IMAGE, [level(12)], min_in_sync_replicas=2, era_draw=3).records
    )
