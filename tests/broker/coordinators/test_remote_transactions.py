"""Tests of broker/coordinators/remote_transactions.py: where the coordinator is, and that a broker by itself has none of it."""

import random
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from stratalog.broker.coordinators.remote_transactions import RemoteTransactions
from stratalog.wire.errors import ErrorCode, KafkaError
from tests.broker.coordinators.far_brokers import image_of


@pytest.fixture
def made():
    """Broker 1, and the image that it looks at."""
    settings = {
        "request.timeout.ms": 1000,
        "add.partitions.to.txn.retry.backoff.ms": 20,
        "add.partitions.to.txn.retry.backoff.max.ms": 100,
    }
    config = SimpleNamespace(
        node_id=1, integer=settings.__getitem__, roles=SimpleNamespace(inter_broker_listener="PLAINTEXT")
    )
    purposes = []

    def link_to(purpose):
        purposes.append(purpose)
        return lambda _: pytest.fail("nothing is asked")

    links = SimpleNamespace(clock=SimpleNamespace(monotonic=time.monotonic), dice=random.Random(1), link_to=link_to)
    held = SimpleNamespace(image=image_of({"__transaction_state": [1, 2, -1, 3]}, fenced=[3]), purposes=purposes)
    held.remote = RemoteTransactions(config, links, lambda: held.image)
    return held


def test_a_coordinator_is_asked_only_where_it_is_served(made):
    """COORDINATOR_NOT_AVAILABLE without a leader, while it is fenced, and before there is such a topic."""
    assert made.remote.coordinator_elsewhere(0) is None
    assert made.remote.coordinator_elsewhere(1) == 2
    for number in (2, 3, 4):
        with pytest.raises(KafkaError) as refused:
            made.remote.coordinator_elsewhere(number)
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    made.image = image_of({})
    with pytest.raises(KafkaError, match="has no leader now"):
        made.remote.coordinator_elsewhere(1)
    made.remote.follow()
    made.remote.close()


def test_each_purpose_has_links_of_its_own(made):
    """No marker waits behind a question."""
    assert made.purposes == ["txn-marker-sender", "add-partitions-to-txn"]


@pytest.mark.story
def test_a_broker_by_itself_does_not_load_it():
    """The coordinators know it by name only."""
    program = (
        "import sys; import stratalog.broker.node; "
        "names = 'coordinators.remote', 'coordinators.marker_batches', 'enlistment_batches', 'broker_links', 'replication.replication'; "
        "print([n for n in sys.modules if any(one in n for one in names)])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
