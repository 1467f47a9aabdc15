"""A log that owes a comparison with its archive, and is copied from another leader meanwhile."""

from types import SimpleNamespace

import pytest
from msgspec import structs

from stratalog.broker.replicas.in_sync import NO_FOLLOWERS
from stratalog.metadata.image.topics_image import PartitionImage


@pytest.mark.parametrize(("said", "owed"), [(-1, True), (3, True), (2, False)])
def test_a_log_owes_its_comparison_until_it_has_what_its_leader_has_committed(broker, said, owed):
    """A leader that has not answered may have anything, and so may one whose records are still to come."""
    broker.create("t")
    for number in range(2):
        broker.produce("t", b"value %d" % number)
    hosted, unified, me = broker.node.hosted, broker.partition("t"), broker.node.node_id
    copying = SimpleNamespace(
        asking=NO_FOLLOWERS,
        broker_epoch=broker.node.image.brokers.brokers[me].epoch,
        follow=lambda role: setattr(role, "leader_high_watermark", said),
        release=lambda _key: None,
    )
    hosted._services = structs.replace(hosted._services, copying=copying)
    topic = broker.node.image.topics.by_name["t"]
    unified.comparison_owed = True
    for leader, epoch in ((me + 1, 8), (-1, 9)):
        state = PartitionImage((me, me + 1), (me + 1,), leader, leader_epoch=epoch)
        broker.run(lambda state=state: hosted._follow(broker.node.image, topic, 0, state))
    assert unified.comparison_owed is owed
