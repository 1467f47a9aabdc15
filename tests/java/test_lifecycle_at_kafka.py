"""A controller of Apache Kafka judges our broker's registration, heartbeats, requests and controlled shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stratalog.broker.control.producer_ids import ProducerIds
from stratalog.broker.lifecycle.controller_channel import ControllerChannel
from stratalog.broker.lifecycle.directory_reports import DirectoryReports
from stratalog.broker.lifecycle.enrolment import ControllerSelf, Enrolment
from stratalog.broker.lifecycle.lifecycle_driver import BrokerSelf, Lifecycle
from stratalog.broker.lifecycle.lifecycle_events import End, LifecycleTimes, Phase
from stratalog.broker.lifecycle.producer_id_blocks import ProducerIdBlocks
from stratalog.broker.peers.dialer import TcpDialer
from stratalog.broker.peers.peer_errors import Peer
from stratalog.broker.peers.peer_link import PeerLink
from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.metadata.image.brokers_image import ListenerAddress, SupportedLevels
from stratalog.metadata.image.features import SUPPORTED_FEATURES
from stratalog.metadata.image.image import EMPTY_IMAGE, ImageDelta, Provenance
from stratalog.metadata.raft.voter_set import Endpoint
from stratalog.wire.batch import iter_headers, iter_records
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from stratalog.wire.messages.unregister_broker import UnregisterBrokerRequest
from stratalog.wire.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    decode_record,
)
from tests.java.kafka_server import KafkaServer, free_port

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
LOG_TOPIC_ID = (1).to_bytes(16, "big")
KAFKA_ID, OUR_ID, CONTROLLER_ID = 1, 4, 9
# The features of a fresh cluster of Kafka 4.3: a broker that does not name all of them is refused.
FEATURES = {
    **SUPPORTED_FEATURES,
    **dict.fromkeys(("share.version", "streams.version", "kraft.version"), SupportedLevels(0, 1)),
}
PROPERTIES = """\
process.roles=controller
node.id=1
listeners=CONTROLLER://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{port}
log.dirs={data}
broker.session.timeout.ms=6000
"""
TIMES = LifecycleTimes(heartbeat_interval_ms=500, session_timeout_ms=6000)
SECONDS_MAX = 60
BORDERS = BeginTransactionRecord | EndTransactionRecord | AbortTransactionRecord


@pytest.fixture(scope="module")
def server(kafka, tmp_path_factory):
    """A controller of Kafka, and where its log lies."""
    directory = tmp_path_factory.mktemp("controller")
    port, config = free_port(), directory / "controller.properties"
    config.write_text(PROPERTIES.format(port=port, data=directory / "data"))
    kafka.run("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(config)).ok()
    command = kafka.command("kafka.Kafka", str(config))
    command.insert(1, "-Djudge.log.level=info")
    started = KafkaServer(command, directory, f"127.0.0.1:{port}")
    started.port, started.metadata_log = port, directory / "data" / "__cluster_metadata-0"
    try:
        yield started.wait()
    finally:
        started.stop()


class Observer:
    """The metadata log as our broker sees it: fetched from Kafka, applied record by record."""

    def __init__(self, link: PeerLink, port: int) -> None:
        self._link = link
        self._port = port
        self.leader = LeaderAndEpoch()
        self.high_watermark = -1
        self.image = EMPTY_IMAGE
        self._next_offset = 0
        self._last_epoch = 0
        self._listeners = []

    def on_leader_change(self, listener) -> None:
        """Remember whom to tell of the leader."""
        self._listeners.append(listener)

    async def follow(self) -> None:
        """Fetch for ever."""
        while True:
            partition = FetchPartition(
                partition=0,
                current_leader_epoch=self.leader.epoch,
                fetch_offset=self._next_offset,
                last_fetched_epoch=self._last_epoch,
                partition_max_bytes=0,
                replica_directory_id=b"o" * 16,
            )
            request = FetchRequest(
                cluster_id=CLUSTER,
                replica_state=ReplicaState(replica_id=OUR_ID, replica_epoch=-1),
                max_wait_ms=200,
                min_bytes=0,
                max_bytes=1 << 20,
                session_epoch=-1,
                topics=[FetchTopic(topic_id=LOG_TOPIC_ID, partitions=[partition])],
            )
            answer = (await self._link.ask(request, timeout_ms=5000, version=17)).responses[0].partitions[0]
            if answer.error_code == ErrorCode.FENCED_LEADER_EPOCH:
                at = Endpoint("CONTROLLER", "127.0.0.1", self._port)
                current = answer.current_leader
                self.leader = LeaderAndEpoch(current.leader_id, current.leader_epoch, (at,))
                for each in self._listeners:
                    each(self.leader, False)
                continue
            assert answer.error_code == 0, answer
            self._apply(answer)

    def _apply(self, answer) -> None:
        records = b"" if answer.records is None else bytes(answer.records)
        for position, header in iter_headers(records):
            delta = ImageDelta(self.image)
            if not header.is_control:
                for each in iter_records(records, position):
                    record = decode_record(each.value)
                    if not isinstance(record, BORDERS):
                        delta.replay(record)
            self._next_offset, self._last_epoch = header.next_offset, header.partition_leader_epoch
            self.image = delta.build(Provenance(header.last_offset, self._last_epoch, header.max_timestamp))
        self.high_watermark = min(answer.high_watermark, self._next_offset)


class Node:
    """Our broker's part: an observer, and channels to the controller."""

    def __init__(self, port: int, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._dice = random.Random(1)
        self.observer = Observer(self.link(Peer(KAFKA_ID, "127.0.0.1", port)), port)
        self.channel = ControllerChannel(
            self.observer, listener="CONTROLLER", new_link=self.link, monotonic=time.monotonic
        )
        self.failed: list[str] = []
        self.directories = (os.urandom(16), os.urandom(16))
        self.parts = {
            "quorum": self.observer, "channel": self.channel, "monotonic": time.monotonic, "draw": self._dice.random
        }  # fmt: skip
        self.lifecycle = Lifecycle(
            BrokerSelf(
                broker_id=OUR_ID,
                cluster_id=CLUSTER,
                listeners={"PLAINTEXT": ListenerAddress("127.0.0.1", 19_092)},
                features=FEATURES,
                directories=lambda: self.directories,
                rack="r1",
            ),
            TIMES,
            image=lambda: self.observer.image,
            new_incarnation=lambda: os.urandom(16),
            on_failed=self.failed.append,
            **self.parts,
        )

    def link(self, peer: Peer) -> PeerLink:
        """A link to a node."""
        return PeerLink(
            peer,
            dialer=TcpDialer(self._pool),
            executor=self._pool,
            monotonic=time.monotonic,
            draw=self._dice.random,
            client_id=str(OUR_ID),
        )

    @property
    def broker(self):
        """Our broker as Kafka's records have it."""
        return self.observer.image.brokers.brokers.get(OUR_ID)

    async def until(self, ask) -> None:
        """Wait until the image shows something."""
        end = time.monotonic() + SECONDS_MAX
        while not ask():
            assert time.monotonic() < end, (self.observer.image.brokers, self.lifecycle.phase, self.failed)
            await asyncio.sleep(0.01)

    async def run(self) -> None:
        """Register, catch up, open logs, be unfenced."""
        self.lifecycle.start()
        await self.lifecycle.caught_up()
        assert self.broker.is_fenced
        self.lifecycle.logs_opened()
        await self.lifecycle.unfenced()
        await self.until(lambda: not self.broker.is_fenced)


@contextlib.asynccontextmanager
async def our_node(server):
    """Our node beside the controller; an observer that fails fails the test."""
    with ThreadPoolExecutor(2) as pool:
        node = Node(server.port, pool)
        following = asyncio.ensure_future(node.observer.follow())
        try:
            yield node
            assert not following.done() or following.result()
        finally:
            following.cancel()
            node.lifecycle.close()
            node.channel.close()
            node.observer._link.close()


async def create_topic(node: Node, name: str) -> bytes:
    """A topic with two partitions on our broker; its id."""
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
    answer = await node.channel.ask(CreateTopicsRequest(topics=[topic]), timeout_ms=10_000)
    assert answer.topics[0].error_code == 0, answer
    await node.until(lambda: name in node.observer.image.topics.by_name)
    return node.observer.image.topics.by_name[name].topic_id


async def test_our_broker_lives_in_a_cluster_of_kafka(server) -> None:
    """It is unfenced, leads, gets producer ids, reports directories, and leaves when it leads nothing any more."""
    async with our_node(server) as node:
        await node.run()
        found = node.broker
        assert (found.epoch, found.incarnation_id) == (node.lifecycle.broker_epoch, node.lifecycle.incarnation_id)
        assert (found.rack, set(found.directories)) == ("r1", set(node.directories))
        assert node.lifecycle.in_contact

        blocks = ProducerIdBlocks(
            node.channel,
            broker_id=OUR_ID,
            broker_epoch=lambda: node.lifecycle.broker_epoch,
            quorum=node.observer,
            monotonic=time.monotonic,
            timeout_ms=10_000,
        )
        ids = ProducerIds(blocks.allocate, asks_ahead=True)
        assert [await ids.next() for _ in range(1001)] == list(range(1001))

        topic_id = await create_topic(node, "t")
        partitions = node.observer.image.topics.by_name["t"].partitions
        assert [partition.leader for partition in partitions.values()] == [OUR_ID, OUR_ID]
        reports = DirectoryReports(
            broker_id=OUR_ID, broker_epoch=lambda: node.lifecycle.broker_epoch, timeout_ms=10_000, **node.parts
        )
        for number in range(2):
            reports.placed(topic_id, number, node.directories[number])
        await node.until(lambda: not reports.waiting)
        await node.until(
            lambda: (
                [one.directories for one in node.observer.image.topics.by_name["t"].partitions.values()]
                == [(directory,) for directory in node.directories]
            )
        )
        reports.close()

        await asyncio.sleep(TIMES.session_timeout_ms / 1000 + 2)
        assert not node.broker.is_fenced, "heartbeats keep the session"
        assert await node.lifecycle.shut_down(30_000) is End.MAY_STOP
        await node.until(lambda: node.broker.is_fenced)
        assert {one.leader for one in node.observer.image.topics.by_name["t"].partitions.values()} == {-1}
        assert node.failed == []


async def test_our_broker_registers_anew_when_kafka_has_forgotten_it(server) -> None:
    """A heartbeat with the old epoch is refused; the new incarnation is unfenced.

    The process registers while the session of the one before goes on, and is refused until that is over.
    """
    async with our_node(server) as node:
        await node.run()
        before = node.lifecycle.broker_epoch
        answer = await node.channel.ask(UnregisterBrokerRequest(broker_id=OUR_ID), timeout_ms=10_000)
        assert answer.error_code == 0, answer
        await node.until(lambda: node.broker is not None and node.broker.epoch > before and not node.broker.is_fenced)
        await node.until(lambda: node.lifecycle.phase is Phase.RUNNING)
        assert node.lifecycle.broker_epoch > before
        assert await node.lifecycle.shut_down(30_000) is End.MAY_STOP


async def test_our_controller_enrols_itself_at_kafka(server) -> None:
    """Its record comes back in the log, and nothing more is sent."""
    async with our_node(server) as node:
        await node.until(lambda: node.observer.image.features)
        me = ControllerSelf(
            controller_id=CONTROLLER_ID,
            incarnation_id=os.urandom(16),
            listeners={"CONTROLLER": ListenerAddress("127.0.0.1", 19_093)},
            features=FEATURES,
        )
        enrolment = Enrolment(me, timeout_ms=10_000, **node.parts)
        enrolment.image_applied(node.observer.image)
        await node.until(lambda: CONTROLLER_ID in node.observer.image.brokers.controllers)
        enrolment.image_applied(node.observer.image)
        found = node.observer.image.brokers.controllers[CONTROLLER_ID]
        assert (found.incarnation_id, found.features) == (me.incarnation_id, me.features)
        await node.until(lambda: not node.channel.requests)  # the log may show it before the answer comes
        enrolment.close()


def test_kafkas_own_log_tells_the_same_story(server, kafka) -> None:
    """The records as Kafka's tool decodes them, and the words of its controller."""
    server.stop()
    files = sorted(Path(server.metadata_log).glob("*.log"))
    text = kafka.dump(files, "--cluster-metadata-decoder").clean().text
    ours = [line for line in text.splitlines() if f'"brokerId":{OUR_ID}' in line]
    kinds = re.findall(r'"type":"(\w+)"', "\n".join(ours))
    assert kinds.count("REGISTER_BROKER_RECORD") == 3
    assert kinds.count("UNREGISTER_BROKER_RECORD") == 1
    changes = [line for line in ours if "BROKER_REGISTRATION_CHANGE_RECORD" in line]
    assert sum('"fenced":-1' in line for line in changes) == 3
    assert sum('"inControlledShutdown":1' in line for line in changes) >= 1
    assert kinds.count("PRODUCER_IDS_RECORD") == 2
    assert f'"controllerId":{CONTROLLER_ID}' in text
    said = server.said()
    assert len(re.findall(rf"request from broker {OUR_ID} to unfence has been granted", said)) == 3
    served, left, after = said.partition(
        f"Unfenced broker {OUR_ID} has requested and been granted a controlled shutdown"
    )
    assert left
    assert f"Fencing broker {OUR_ID} " not in served
    assert "DuplicateBrokerRegistrationException" in after, "the session before goes on for a while after a stop"
