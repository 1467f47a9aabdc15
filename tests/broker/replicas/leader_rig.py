"""A partition on a disk that writes and syncs when the test says so, and what became of each append."""

from types import SimpleNamespace

from stratalog.broker.replicas.leader import Leader
from stratalog.broker.replicas.partition import Partition
from stratalog.broker.replicas.waiting_append import CallingBack
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import AppendInfo, Log
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import TopicPartition

EPOCH = 4


class Disk:
    """A directory that writes and syncs when the test says so."""

    def __init__(self) -> None:
        self.offline: OSError | None = None
        self.asked_to_sync: list[Partition] = []
        self.waits_for_bounds = False

    def add(self, owner) -> None:
        self.owner = owner

    def remove(self, owner) -> None:
        self.owner = None

    def enqueue(self, owner) -> None:
        assert owner is self.owner

    def sync(self, owner) -> None:
        self.asked_to_sync.append(owner)

    def await_bounds(self, owner) -> None:
        self.waits_for_bounds = True

    def keep_bounds(self) -> None:
        """As a checkpoint of the log directory does."""
        assert self.waits_for_bounds
        self.waits_for_bounds = False
        log = self.owner.log
        log.start.kept_offset = log.start.offset
        log.gaps.kept(log.bounds.gaps_below, log.bounds.border_gaps_below)
        self.owner.on_flushed()

    def write(self) -> None:
        self.owner.log.write_queued()
        self.owner.on_written()

    def flush(self) -> None:
        self.owner.log.sync()
        self.owner.on_flushed()


class Asking:
    """A controller that is asked for in-sync sets; the test says who may join."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []
        self.allowed: set[tuple[int, int]] = set()

    def ask(self, _leader, change) -> None:
        self.asked.append(change.broker_ids)

    def may_join(self, _key, broker_id, broker_epoch) -> bool:
        return (broker_id, broker_epoch) in self.allowed

    def changed(self, before, after) -> None:
        pass


class Bench:
    """A partition, its disk and clock, and what was acknowledged under which name."""

    def __init__(self, path: str, in_sync=(1,), replicas=(), **config) -> None:
        self.now = 100.0
        self.disk = Disk()
        self.reworks: list[tuple] = []
        self.asking = Asking()
        self.ended: dict[str, AppendInfo | KafkaError] = {}
        self.released: list[str] = []
        config.setdefault("flush_messages", 1)
        log = Log.open(
            path, TopicPartition("t", 0), b"i" * 16, LogConfig(**config), files=RealFilesystem(), now_ms=0, clean=True
        )
        self.partition = Partition(
            log,
            directory=self.disk,
            high_watermark=0,
            clock=SimpleNamespace(wall_ms=lambda: 1_700_000_000_000, monotonic=lambda: self.now),
            rework=lambda *command: self.reworks.append(command),
            asking=self.asking,
        )
        self._members = {"replicas": replicas or in_sync, "in_sync": in_sync}
        self.lead(EPOCH)

    @property
    def leader(self) -> Leader:
        """The role of now."""
        return self.partition.led()

    def lead(self, epoch: int) -> None:
        """A new leader epoch begins."""
        self.partition.lead(1, epoch, **self._members)

    def append(self, name: str, batch, *, acks: int = -1, deadline: float = 200.0) -> None:
        assert name not in self.ended
        self.leader.append(
            memoryview(batch),
            acks,
            lambda: self.released.append(name),
            CallingBack(lambda outcome: self._end(name, outcome), deadline),
        )

    def _end(self, name: str, outcome) -> None:
        assert name not in self.ended, "acknowledged twice"
        self.ended[name] = outcome

    def codes(self) -> dict[str, object]:
        """Base offsets of what succeeded, codes of what failed."""
        return {name: one.base_offset if isinstance(one, AppendInfo) else one.code for name, one in self.ended.items()}
