"""Clusters of several brokers, as their active controller sees them."""

from collections.abc import Callable

import pytest

from stratalog.metadata.controller.broker_heartbeats import BrokerHeartbeats
from stratalog.metadata.controller.broker_registration import BrokerRegistration, register
from stratalog.metadata.controller.cluster_view import ClusterView, ReplicationSettings
from stratalog.metadata.controller.heartbeat_commands import Heartbeat, answer_heartbeat, fence_silent_brokers
from stratalog.metadata.image.brokers_image import ListenerAddress
from stratalog.metadata.image.features import SUPPORTED_FEATURES, bootstrap_records
from stratalog.metadata.image.image import EMPTY_IMAGE, ImageDelta, Provenance
from stratalog.metadata.image.partition_index import PartitionIndex
from stratalog.wire.records.metadata import FeatureLevelRecord, PartitionRecord, TopicRecord

CLUSTER_ID = "abc"
ELR = "eligible.leader.replicas.version"
SESSION_MS = 9000


class World:
    """An active controller: image, index, sessions, a clock that a test moves, and the end of the log."""

    def __init__(self, *, elr: bool = False, minimum: int = 1, unclean: bool = False) -> None:
        self.image, self.index = EMPTY_IMAGE, PartitionIndex()
        self.minimum, self.unclean = minimum, unclean
        self.now_ms = 0
        self.next_offset = 100
        self.heartbeats = BrokerHeartbeats(SESSION_MS)
        self.starts = 0
        self.write((*bootstrap_records(), FeatureLevelRecord(name=ELR, feature_level=int(elr))))

    @property
    def view(self) -> ClusterView:
        """The view of the next decision."""
        settings = ReplicationSettings(self.minimum, self.unclean)
        return ClusterView(image=self.image, settings=lambda _topic: settings, index=self.index)

    def write(self, records) -> None:
        """Commit records."""
        delta = ImageDelta(self.image)
        for record in records:
            delta.replay(record)
        self.next_offset += len(records)
        image = delta.build(Provenance(self.next_offset - 1, 1, 0))
        self.index = self.index.after(self.image, delta, image)
        self.image = image

    def do(self, decision):
        """Commit a decision; its result."""
        self.write(decision.records)
        return decision.result

    def registration(self, broker_id: int, **fields) -> BrokerRegistration:
        """The description of a process that has just started."""
        self.starts += 1
        values = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": self.starts.to_bytes(16, "big"),
            "listeners": {"PLAINTEXT": ListenerAddress("localhost", 9092)},
            "features": SUPPORTED_FEATURES,
            "directories": (bytes([broker_id]) * 16,),
            **fields,
        }
        return BrokerRegistration(**values)

    def register(self, asked: BrokerRegistration) -> int:
        """Register a broker; its epoch."""
        return self.do(
            register(
                self.heartbeats,
                self.view,
                asked,
                cluster_id=CLUSTER_ID,
                next_offset=self.next_offset,
                now_ms=self.now_ms,
            )
        )

    def beat(self, broker_id: int, **fields):
        """A heartbeat of the present incarnation, whose image holds everything; its answer."""
        epoch = self.image.brokers.brokers[broker_id].epoch
        values = {"broker_epoch": epoch, "metadata_offset": self.next_offset - 1, **fields}
        beat = Heartbeat(broker_id=broker_id, **values)
        self.heartbeats.contacted(broker_id, beat.broker_epoch, self.now_ms)
        return self.do(
            answer_heartbeat(self.heartbeats, self.view, beat, now_ms=self.now_ms, next_offset=self.next_offset)
        )

    def start(self, *broker_ids: int) -> None:
        """Register brokers and unfence them."""
        for broker_id in broker_ids:
            self.register(self.registration(broker_id))
            self.beat(broker_id)

    def restart(self, broker_id: int, *, is_clean: bool) -> None:
        """Register the next incarnation of a fenced broker, and unfence it."""
        before = self.image.brokers.brokers[broker_id].epoch
        self.register(self.registration(broker_id, previous_broker_epoch=before if is_clean else -1))
        self.beat(broker_id)

    def tick(self, elapsed_ms: int, *alive: int) -> tuple[int, ...]:
        """Time passes, in which brokers are heard of; the brokers that are fenced."""
        self.now_ms += elapsed_ms
        for broker_id in alive:
            self.beat(broker_id)
        return self.do(fence_silent_brokers(self.heartbeats, self.view, self.now_ms))

    def topic(self, name: str, *replicas: tuple[int, ...]) -> bytes:
        """Create a topic whose partitions have these replicas, all of them in sync; its id."""
        topic_id = name.encode().ljust(16, b".")
        records = [
            PartitionRecord(
                topic_id=topic_id,
                partition_id=number,
                replicas=list(each),
                isr=list(each),
                leader=each[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[self.image.brokers.brokers[one].default_directory for one in each],
            )
            for number, each in enumerate(replicas)
        ]
        self.write((TopicRecord(name=name, topic_id=topic_id), *records))
        return topic_id

    def state(self, name: str = "t", number: int = 0):
        """A partition."""
        return self.image.topics.by_name[name].partitions[number]

    def sets(self, name: str = "t", number: int = 0):
        """A partition's leader, in-sync and eligible replicas."""
        state = self.state(name, number)
        return state.leader, state.in_sync_replicas, state.eligible_leader_replicas


@pytest.fixture
def world() -> Callable[..., World]:
    """Make a cluster with settings of the test's own."""
    return World
