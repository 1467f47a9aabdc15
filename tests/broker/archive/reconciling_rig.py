"""A comparison of one log with its archive, step by step."""

from types import SimpleNamespace

from stratalog.broker.archive.reconciling import Reconciling
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.state.producer_state import AppendOrigin
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.work import Worker
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition

PARTITION = PartitionId("t", bytes(16), 0)
CONFIG = LogConfig(remote_storage_enable=True)


class Rig:
    """A local log of as many batches as the test says, and what the archive knows."""

    def __init__(self, tmp_path) -> None:
        self.tmp_path = tmp_path
        self.store = MemoryStore()
        self.worker = Worker(self.store)
        self.queue, self.timers, self.views, self.reported = [], [], [], []
        self.finished = 0
        self.restarted = 0
        self.log = self.open(CONFIG)

    def open(self, config, *, clean=True) -> Log:
        path = str(self.tmp_path / "t-0")
        name = TopicPartition("t", 0)
        return Log.open(path, name, bytes(16), config, files=RealFilesystem(), now_ms=0, clean=clean)

    def write(self, batches, epoch=1) -> None:
        self.log.assign_leader_epoch(epoch)
        for _ in range(batches):
            batch = build_batch([Record(n, 1000, None, b"v") for n in range(5)])
            self.log.append_as_leader(memoryview(batch), leader_epoch=epoch, now_ms=0)
        self.log.write_queued()
        self.log.sync()

    def begin_transaction(self, producer_id) -> None:
        """Five records of a transaction that stays open."""
        records = [Record(n, 1000, None, b"v") for n in range(5)]
        batch = build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
        self.log.append_as_leader(memoryview(batch), leader_epoch=1, now_ms=0)

    def end_transaction(self, marker, _version, _acknowledge) -> None:
        """As the partition, once it takes requests."""
        assert self.partition.held_back is None
        self.log.append_as_leader(memoryview(marker), leader_epoch=1, now_ms=0, origin=AppendOrigin.COORDINATOR)

    def archive(self, batches, epoch=1, aborted=()) -> None:
        data = b"".join(
            bytes(build_batch([Record(5 * b + n, 1000, None, b"v") for n in range(5)], leader_epoch=epoch))
            for b in range(batches)
        )
        archive_log(self.store, PARTITION, [data], now_ms=0, aborted=aborted)

    def restart(self) -> None:
        self.restarted += 1

    def begin(self, checkpoint=None, *, lost=False, hold=True, timeline=None, incarnation=0) -> Reconciling:
        self.partition = SimpleNamespace(
            held_back=None,
            leader_epoch=2,
            restarted=self.restart,
            directory=SimpleNamespace(report=self.reported.append),
            leader=SimpleNamespace(append_marker=self.end_transaction),
        )
        self.unified = SimpleNamespace(
            log=self.log, partition=self.partition, topic_partition=TopicPartition("t", 0), topic_id=bytes(16)
        )
        self.remote = SimpleNamespace(apply=self.views.append, entries=None)
        self.reconciling = Reconciling(
            self.unified,
            SimpleNamespace(apply=self.apply, entries=None),
            claimant=Claimant(incarnation, 2, b"c" * 16),
            cluster_id="c",
            submit=lambda command, answered: self.queue.append((command, answered)),
            now_ms=lambda: 0,
            checkpoint=checkpoint,
            lost=lost,
            later=lambda seconds, call: self.timers.append(call),
            timeline=timeline,
        )
        self.hold = hold
        return self.reconciling

    def begin_behind_its_archive(self) -> None:
        """A log of one batch and an archive of three, which has told where it ends."""
        self.write(1)
        self.archive(3)
        self.begin()
        self.start()
        self.run()

    def apply(self, view) -> bool:
        self.views.append(view)
        return True

    def start(self) -> None:
        self.reconciling.start(self.done, hold=self.hold)

    def done(self) -> None:
        self.finished += 1

    def run(self, report=None) -> None:
        command, answered = self.queue.pop(0)
        answered(self.worker.execute(command) if report is None else report)
