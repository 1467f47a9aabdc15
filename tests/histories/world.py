"""A random history of a replicated, tiered, compacted partition, one step after the other."""

from __future__ import annotations

import random
from collections import Counter

from stratalog.broker.replicas.led import Led
from stratalog.broker.replication.correcting import Correcting
from stratalog.broker.replication.tier_start import ArchiveAccess
from stratalog.hot.config import LogConfig
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.work import Worker
from stratalog.wire.errors import ErrorCode
from tests.histories.bucket import Bucket
from tests.histories.clients import Client, Clients
from tests.histories.copies import Copies, Links
from tests.histories.node import Node
from tests.histories.oracle import Rec


class World(Clients, Copies, Bucket):
    """Three replicas, a controller, a bucket, some clients."""

    def __init__(self, seed: int, path: str, *, deletes: bool = False) -> None:
        """``deletes``: of many keys, whose tombstones go soon; the topic is compacted, and has no archive at first."""
        self.dice, self.deletes = random.Random(seed), deletes
        dice = self.dice
        self.strict = dice.random() < 0.6
        self.now_ms = 1_000_000
        self.store = MemoryStore()
        self.worker = Worker(self.store)
        self.policy = dice.choice([("compact",), ("compact",), ("delete",), ("compact", "delete")])
        self.tiered = dice.random() < 0.7
        self.trims = seed % 5 == 4 and not deletes
        """Records are deleted all the time, while replicas are away."""
        if self.trims:
            self.policy, self.tiered = ("delete",), False
        self.delete_retention_ms = dice.choice([0, 0, 3_000, 10**9])
        self.segment_bytes = dice.choice([250, 400, 700])
        self.local_bytes = dice.choice([0, 300, 1000, -1])
        self.retention_bytes = dice.choice([-1, -1, 1500])
        self.copies = True
        self.flush = 1 if self.strict or dice.random() < 0.5 else 10**6
        self.transaction_version = dice.choice([0, 0, 2])
        self.keys, self.deleted_share = 4, 0.15
        if deletes:
            self.strict, self.policy, self.tiered, self.delete_retention_ms = True, ("compact",), False, 0
            self.flush, self.keys, self.deleted_share = 1, 60, 0.4
        self.config = self.make_config()
        self.trace: list[str] = []
        self.count: Counter[str] = Counter()
        self.epoch, self.partition_epoch, self.leader, self.isr = -1, 0, None, {0, 1, 2}
        self.asked: list[tuple] = []
        self.over = False
        self.values = 0
        self.truth: dict[int, Rec] = {}
        self.truth_end = 0
        self.acked: dict[bytes, int] = {}
        self.archive_full: dict[int, Rec] = {}
        self.archive_gone: dict[int, str] = {}
        self.uploads: dict[bytes, tuple[dict, dict, dict]] = {}
        self.archive_fate: dict[int, str] = {}
        self.archive_end = 0
        self.clients = [Client(self, n, transactional=n > 0) for n in range(3)]
        self.nodes = [Node(self, n, f"{path}/cache{n}") for n in range(3)]
        for node in self.nodes:
            node.start()

    def make_config(self) -> LogConfig:
        return LogConfig(
            segment_bytes=self.segment_bytes, index_interval_bytes=64, retention_ms=-1, retention_bytes=self.retention_bytes,
            local_retention_bytes=self.local_bytes, local_retention_ms=-1, cleanup_policy=frozenset(self.policy),
            remote_storage_enable=self.tiered, remote_copy_disable=not self.copies,
            remote_delete_on_disable=not self.tiered, file_delete_delay_ms=0,
            min_cleanable_dirty_ratio=0.0, delete_retention_ms=self.delete_retention_ms, flush_messages=self.flush,
            min_insync_replicas=1, max_message_bytes=1 << 20,
        )  # fmt: skip

    def log(self, *words) -> None:
        self.trace.append(" ".join(map(str, words)))

    # -- who leads ----------------------------------------------------------------------------------------

    def up(self) -> list[Node]:
        return [one for one in self.nodes if one.is_up]

    @property
    def led(self) -> Node | None:
        return None if self.leader is None else self.nodes[self.leader]

    def elect(self) -> None:
        dice = self.dice
        among = [one for one in sorted(self.isr) if self.nodes[one].is_up]
        clean = bool(among)
        if not self.strict and dice.random() < 0.2:
            among, clean = [one.number for one in self.up()], False
        if not among:
            if self.strict:
                return
            among, clean = [one.number for one in self.up()], False
        if not among:
            return
        number = dice.choice(among)
        clean = clean or number in self.isr
        self.epoch += 1
        self.partition_epoch += 1
        self.leader = number
        self.recovering = not clean
        if not clean:
            self.isr = {number}
        self.log("elect", number, "epoch", self.epoch, "clean" if clean else "UNCLEAN", "isr", sorted(self.isr))
        self.asked.clear()
        for node in self.up():
            if dice.random() < 0.85 or node.number == number:
                self.take_role(node)
        self.count["elect"] += 1

    def take_role(self, node: Node) -> None:
        """The node hears of the leadership."""
        if node.role_epoch == self.epoch or self.leader is None:
            return
        node.role_epoch = self.epoch
        partition = node.partition
        if node.number == self.leader:
            was_led = partition.leader is not None
            if node.led is not None:
                led = node.led
                if self.recovering and led is not Led.LOST:
                    led = Led.UNCLEAN
            else:
                led = Led.UNCLEAN if self.recovering else Led.RENEWED if was_led else Led.TAKEN_OVER
            node.unified.copied()
            partition.lead(
                node.number, self.epoch, replicas=[node.number, *(n for n in range(3) if n != node.number)],
                in_sync=sorted(self.isr), partition_epoch=self.partition_epoch, is_recovering=self.recovering,
            )  # fmt: skip
            node.led = None
            node.attach(led)
            self.log("  leads", node.number, led.name, "leo", node.log.log_end_offset, "hw", partition.high_watermark)
        else:
            if partition.leader is not None:
                node.leave_archive()
            else:
                node.unified.copied()
            partition.follow(self.leader, self.epoch)
            node.led = None
            node.correcting = Correcting(
                Links(self, node), self.leader, local_id=node.number, timeout_ms=1,
                archive=ArchiveAccess(node.submit_now, lambda: 0),
            )  # fmt: skip

    def leaves_in_sync(self, node: Node) -> None:
        """The controller takes a replica out of the in-sync set; what its leader has asked for before is refused (KIP-903)."""
        self.isr.discard(node.number)
        self.partition_epoch += 1
        led = self.serving()
        if led is not None:
            led.partition.leader.in_sync_changed(sorted(self.isr), self.partition_epoch)

    def isr_step(self) -> None:
        """The controller answers a leader, or a leader asks for a smaller set."""
        dice = self.dice
        if self.asked and dice.random() < 0.8:
            node, leader, change = self.asked.pop(0)
            if not node.is_up or leader.ended is not None or leader.epoch != self.epoch:
                return
            if change.partition_epoch != self.partition_epoch:
                leader.in_sync_refused(change, ErrorCode.INVALID_UPDATE_VERSION)
                return
            self.isr = set(change.broker_ids)
            self.recovering = False
            self.partition_epoch += 1
            leader.in_sync_changed(sorted(self.isr), self.partition_epoch, is_recovering=False)
            self.log("isr", sorted(self.isr))
            return
        node = self.led
        if node is None or not node.is_up or node.partition.leader is None or node.role_epoch != self.epoch:
            return
        node.partition.leader.check_lag(dice.choice([0, 500, 10**9]))
        node.partition.leader._report_recovered()
