"""One leadership's archive, driven by hand: a real log, a bucket in memory, commands carried out when the test says."""

import random
from types import SimpleNamespace

from stratalog.broker.archive.partition_archive import Archive
from stratalog.broker.cold.own_part import own_part
from stratalog.broker.cold.reader import RemotePartition
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.messages import commands
from stratalog.tier.planning.plan import PlanSettings
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.work import Worker
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition

PARTITION = PartitionId("t", bytes(16), 0)
CONFIG = LogConfig(
    segment_bytes=1000, remote_storage_enable=True, local_retention_bytes=0, retention_ms=-1, file_delete_delay_ms=0
)


class Rig:
    """Batches of five records, a segment holds two; everything written is flushed and below the high watermark."""

    def __init__(self, tmp_path, config=CONFIG) -> None:
        self.store = MemoryStore()
        self.worker = Worker(self.store)
        self.queue = []
        self.now_ms = 0
        self.failed, self.compared, self.made = [], [], None
        self.log = Log.open(
            str(tmp_path / "t-0"),
            TopicPartition("t", 0),
            bytes(16),
            config,
            files=RealFilesystem(),
            now_ms=0,
            clean=True,
        )
        self.partition = SimpleNamespace(
            high_watermark=0, last_stable_offset=0, directory=SimpleNamespace(report=self.failed.append)
        )
        metrics = SimpleNamespace(
            remote_copy_requests=0, remote_copy_bytes=0, remote_copy_errors=0, remote_log_size_bytes=0
        )
        self.unified = SimpleNamespace(
            log=self.log,
            partition=self.partition,
            topic_partition=TopicPartition("t", 0),
            topic_id=bytes(16),
            metrics=metrics,
        )
        self.archive = self.lead(1)

    def lead(self, epoch, checkpoint=None) -> Archive:
        """A leadership begins."""
        self.unified.remote = remote = RemotePartition(
            PARTITION,
            submit=self.submit,
            chunks=None,
            metrics=self.unified.metrics,
            wake=lambda: None,
            now_ms=lambda: self.now_ms,
            checkpoint=checkpoint,
            own=own_part(0, lambda: self.log),
        )
        return Archive(
            self.unified,
            remote,
            claimant=Claimant(0, epoch, bytes([epoch]) * 16),
            cluster_id="c",
            submit=self.submit,
            now_ms=lambda: self.now_ms,
            elapsed_ms=lambda: self.now_ms,
            dice=random.Random(0),
            settings=PlanSettings(),
            made=lambda: self.made,
            compare=lambda archive, why, certain: self.compared.append((why, certain)),
        )

    def write(self, batches) -> None:
        for _ in range(batches):
            batch = build_batch([Record(n, 1000 + n, None, b"v" * 60) for n in range(5)])
            self.log.append_as_leader(memoryview(batch), leader_epoch=1, now_ms=self.now_ms)
        self.log.write_queued()
        self.log.sync()
        self.partition.high_watermark = self.partition.last_stable_offset = self.log.flushed_offset

    def submit(self, command, answered) -> None:
        self.queue.append((command, answered))

    def step(self, report=None) -> commands.Command:
        """Answer the oldest command, with its own report unless one is given."""
        command, answered = self.queue.pop(0)
        answered(self.worker.execute(command) if report is None else report)
        return command

    def settle(self) -> list[str]:
        """Look and answer until there is nothing to do; what was asked."""
        asked = []
        for _ in range(200):
            self.now_ms += 100_000
            self.archive.look()
            if not self.queue:
                return asked
            asked.append(type(self.step()).__name__)
        raise AssertionError(f"it never settles: {asked[-10:]}")

    @property
    def manifest(self):
        return read_manifest(self.store, PARTITION).manifest
