"""The active controller of brokers that are not there: its log is a list, and its time is virtual."""

import asyncio
import collections
import itertools
import random
from types import SimpleNamespace

from sim.trace import Trace
from sim.under.loop import VirtualLoop
from stratalog.broker.control.broker_sessions import BrokerSessions, SessionServices
from stratalog.broker.control.cluster_index import ClusterIndex
from stratalog.broker.control.control_plane import ControlPlane
from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.broker.requests.dispatch_row import PENDING, failed_response
from stratalog.broker.runtime.clock import LoopClock
from stratalog.broker.runtime.slices import to_the_end
from stratalog.metadata.controller.controller import BrokerRegistration, Heartbeat, TopicRules, activation
from stratalog.metadata.image.brokers_image import ListenerAddress
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource
from stratalog.metadata.image.features import SUPPORTED_FEATURES, bootstrap_records
from stratalog.metadata.image.image import EMPTY_IMAGE, ImageDelta, Provenance
from stratalog.metadata.image.record_values import record_values
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.wire.errors import KafkaError
from stratalog.wire.records.metadata import (
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
    decode_record,
)
from stratalog.wire.schema import Message, decode, encode_bytes
from tests.broker.api.at_once import PlainRows

CLUSTER_ID = "abc"
ELR = "eligible.leader.replicas.version"
SESSION_MS = 9000


class MemoryLog:
    """A quorum of one that keeps records. ``open`` lets proposals through, ``error`` is what they raise."""

    active_epoch = 1
    in_transaction = False

    def __init__(self, clock, on_applied):
        self.records = []
        self.open = asyncio.Event()
        self.open.set()
        self.error = None
        self.image = EMPTY_IMAGE
        self._clock = clock
        self._on_applied = on_applied

    def propose(self, records, *, epoch):
        return asyncio.ensure_future(self._propose(records, epoch))

    async def _propose(self, records, epoch):
        await self.open.wait()
        if self.error is not None:
            raise self.error
        level = self.image.features.get("metadata.version", 0)
        self.records += map(decode_record, record_values(records, level))
        delta = ImageDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.build(Provenance(len(self.records) - 1, epoch, self._clock.wall_ms()))
        await self._on_applied(self.image, delta)
        return len(self.records) - 1


class Client:
    """A connection without quotas."""

    quota = None
    closed = False


class MemoryDialer:
    """Hosts that accept connections. ``refusing`` and ``silent`` are ports at which they do not; ``dialed`` those tried."""

    def __init__(self):
        self.refusing, self.silent, self.dialed = set(), set(), []

    async def dial(self, new_protocol, host, port, number):
        self.dialed.append(port)
        if port in self.silent:
            await asyncio.sleep(3600)
        if port in self.refusing:
            raise ConnectionRefusedError(f"{host}:{port}")
        return SimpleNamespace(abort=new_protocol)


class MemoryController:
    """A controller with its sessions, and all that handlers see of it as ``context.broker``."""

    node_id, cluster_id = 100, CLUSTER_ID

    def __init__(self, *, elr=False, static=None, seed=0, is_new=False, bootstrap=()):
        self.loop = VirtualLoop(random.Random(seed), Trace())
        self.dice = random.Random(seed)
        self.clock = LoopClock(self.loop, 1_700_000_000_000)
        self.log = MemoryLog(self.clock, self._applied)
        self.static = static or {}
        self.cluster = ClusterIndex(self._resolver)
        self.bootstrap = bootstrap
        self.control = ControlPlane(self.log, activate=self._activation)
        self.dialer = MemoryDialer()
        self.sources = collections.defaultdict(Client)
        """The connections of brokers."""
        self.sessions = BrokerSessions(
            SessionServices(
                control=self.control,
                cluster=self.cluster,
                clock=self.clock,
                dialer=self.dialer,
                cluster_id=CLUSTER_ID,
                next_offset=lambda: len(self.log.records),
                session_timeout_ms=SESSION_MS,
                heartbeat_timeout_ms=1000,
            )
        )
        self.config = SimpleNamespace(roles=SimpleNamespace(has_peers=True))
        self.views = SimpleNamespace(access_name=lambda name: name)
        self.connection = Client()
        self.others = []
        self.starts = itertools.count(1)
        self.ids = itertools.count(1)
        if not is_new:
            self.write(*bootstrap_records(), FeatureLevelRecord(name=ELR, feature_level=int(elr)))

    def _resolver(self, image):
        mine = image.configs.of(ConfigResource.broker(self.node_id))
        return ConfigResolver.for_topics(self.static, mine, image.configs.of(CLUSTER_DEFAULT))

    def _activation(self, image):
        return activation(image, () if image.features else self.bootstrap, min_in_sync_replicas=1)

    async def _applied(self, image, delta):
        self.cluster.follow(image, delta)
        for each in (self.sessions, *self.others):
            each.follow(image, delta)

    # -- what handlers see --------------------------------------------------------------------------------------------

    @property
    def image(self):
        return self.control.image

    def cluster_view(self, image):
        return self.cluster.view(image)

    def topic_rules(self):
        return TopicRules(resolver=self._resolver(self.image))

    def new_topic_id(self):
        return next(self.ids).to_bytes(16, "big")

    def random_int(self, bound):
        return self.dice.randrange(bound)

    def close(self):
        """End the timers and the loop."""
        for each in (self.sessions, *self.others):
            each.close()
        self.pass_ms(1)
        self.loop.close()

    # -- time and turns -----------------------------------------------------------------------------------------------

    def run(self, work):
        """The result of a coroutine."""
        return self.loop.run_until_complete(work)

    def pass_ms(self, milliseconds):
        """Let time go by."""
        self.run(asyncio.sleep(milliseconds / 1000))

    def write(self, *records):
        """Commit records."""
        self.run(self.control.write(records))

    def become_active(self, epoch=1):
        """Win the office, or win it again."""
        self.run(self._lead(epoch, is_active=True))

    def resign(self, epoch=1):
        """Lose the office."""
        self.run(self._lead(epoch, is_active=False))

    async def _lead(self, epoch, *, is_active):
        self.log.active_epoch = epoch
        for each in (*self.others, self.sessions):
            each.leader_changed(LeaderAndEpoch(self.node_id, epoch), is_active)

    # -- brokers ------------------------------------------------------------------------------------------------------

    def registration(self, broker_id, **fields):
        """The description of a process that has just started."""
        values = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": next(self.starts).to_bytes(16, "big"),
            "listeners": {"PLAINTEXT": ListenerAddress("localhost", 9092)},
            "features": SUPPORTED_FEATURES,
            "directories": (bytes([broker_id]) * 16,),
            **fields,
        }
        return BrokerRegistration(**values)

    def epoch(self, broker_id):
        """The epoch of a registered broker."""
        return self.image.brokers.brokers[broker_id].epoch

    def beating(self, broker_id, **fields):
        """A heartbeat of the present incarnation, whose image holds everything, as it arrives; a coroutine."""
        values = {"broker_epoch": self.epoch(broker_id), "metadata_offset": len(self.log.records) - 1, **fields}
        beat = Heartbeat(broker_id=broker_id, **values)
        self.sessions.contacted(broker_id, beat.broker_epoch, self.sources[broker_id])
        return self.sessions.heartbeat(beat, source=broker_id)

    def beat(self, broker_id, **fields):
        """The answer to a heartbeat."""
        return self.run(self.beating(broker_id, **fields))

    def start(self, *broker_ids):
        """Register brokers and unfence them."""
        for broker_id in broker_ids:
            self.run(self.sessions.register(self.registration(broker_id), source=broker_id))
            self.beat(broker_id)

    def active(self):
        """The brokers that are active."""
        return [one.broker_id for one in self.image.brokers.brokers.values() if one.is_active]

    # -- topics -------------------------------------------------------------------------------------------------------

    def topic(self, name, *replicas, in_sync=None):
        """Create a topic whose partitions have these replicas, all of them in sync or just some; its id."""
        topic_id = name.encode().ljust(16, b".")
        records = [
            PartitionRecord(
                topic_id=topic_id,
                partition_id=number,
                replicas=list(each),
                isr=list(in_sync or each),
                leader=each[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[self.image.brokers.brokers[one].default_directory for one in each],
            )
            for number, each in enumerate(replicas)
        ]
        self.write(TopicRecord(name=name, topic_id=topic_id), *records)
        return topic_id

    def grown(self, name, number, in_sync):
        """The record after which these replicas of a partition are in sync."""
        topic_id = self.image.topics.by_name[name].topic_id
        return PartitionChangeRecord(topic_id=topic_id, partition_id=number, isr=list(in_sync))

    def state(self, name="t", number=0):
        """A partition."""
        return self.image.topics.by_name[name].partitions[number]

    # -- requests -----------------------------------------------------------------------------------------------------

    def ask(self, api, request, version=None):
        """The answer of a handler, as bytes of this version and back."""
        version = api.versions[1] if version is None else version
        request = decode(api.request, version, encode_bytes(request, version))
        context = SimpleNamespace(
            broker=self,
            api_version=version,
            connection=self.connection,
            run=self._run,
            rows=lambda _name: PlainRows(),
            allows=lambda *_, **__: True,
        )
        try:
            answer = api.handle(context, request)
            if answer is PENDING:
                answer = self.run(self.pending)
            if not isinstance(answer, Message):
                answer = to_the_end(answer)
        except KafkaError as error:
            answer = (
                failed_response(api.response, version, error)
                if api.failure is None
                else api.failure(request, version, error)
            )
        return decode(api.response, version, encode_bytes(answer, version))

    def _run(self, work):
        self.pending = work
        return PENDING
