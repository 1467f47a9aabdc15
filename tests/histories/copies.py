"""Copies of a random history: followers fetch, are corrected, and let go what the archive has."""

from __future__ import annotations

from types import SimpleNamespace

from stratalog.broker.fetches.replica_read import divergence
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.fetch import FetchPartition, PartitionData
from tests.histories.oracle import Wrong, until


class Copies:
    """The part of a world that copies."""

    async def fetch(self) -> None:
        """A follower asks its leader once."""
        node, leader = self.dice.choice(self.nodes), self.led
        if not node.is_up or leader is None or node is leader:
            return
        self.take_role(node)
        follower = node.partition.follower
        if follower is None or self.serving() is not leader:
            return
        if not follower.is_durable and (self.flush == 1 or self.dice.random() < 0.5):
            node.write()
            node.flush()
        position, before = follower.position, node.log.log_end_offset
        wanted = FetchPartition(
            partition=0,
            current_leader_epoch=self.epoch,
            fetch_offset=position.offset,
            last_fetched_epoch=position.last_epoch,
            log_start_offset=position.log_start_offset,
            partition_max_bytes=1 << 20,
        )
        answer = PartitionData(partition_index=0, high_watermark=-1, records=None)
        try:
            self.leader_reads(leader, node, wanted, answer)
        except KafkaError as error:
            if error.code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE):
                await self.correct(node, follower, error.code)
            return
        follower.take(answer, self.heard(node))
        if answer.forgotten_below > before > node.log.log_start_offset == node.log.log_end_offset:
            self.log("begins again", node.number, "which ended at", before, "below", answer.forgotten_below)
            self.count["begun again"] += 1
            if self.strict and not node.was_put_back:
                raise Wrong(f"{node.number} begins again, although its disk was never put back")
        self.bring_to_disk(node)
        self.copied(node, leader, before)
        if answer.diverging_epoch is not None:
            self.log("cut", node.number, "to", node.log.log_end_offset)

    def bring_to_disk(self, node) -> None:
        """Write what came, and sync it: always, or now and then."""
        if self.flush == 1 or self.dice.random() < 0.6:
            node.write()
            if self.flush == 1 or self.dice.random() < 0.3 or node.disk.waits_for_bounds:
                node.flush()

    def heard(self, node):
        return SimpleNamespace(taken=lambda *_: None, refused=lambda *_: None)

    def leader_reads(self, leader, node, wanted, answer) -> None:
        """As `ReplicaReader.read`."""
        log_, unified, offset = leader.log, leader.unified, wanted.fetch_offset
        if wanted.last_fetched_epoch >= 0:
            answer.diverging_epoch = divergence(unified, wanted)
        if answer.diverging_epoch is None:
            if not log_.log_start_offset <= offset <= log_.log_end_offset:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "outside")
            if offset < log_.local_log_start_offset:
                raise KafkaError(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, "archive")
            leader.partition.leader.follower_fetched(
                node.number, offset, log_start_offset=wanted.log_start_offset, broker_epoch=-1
            )
        answer.high_watermark = leader.partition.high_watermark
        answer.last_stable_offset = leader.partition.last_stable_offset
        answer.log_start_offset = log_.log_start_offset
        if answer.diverging_epoch is None and offset < log_.written_offset:
            size = self.dice.choice([1, 300, 1 << 20])
            parts = log_.read(offset, max_bytes=size, max_offset=log_.written_offset).parts
            answer.records = bytearray(b"".join(part.file.pread(part.length, part.position) for part in parts))
            if offset < log_.forgotten.below:
                answer.forgotten_below = log_.forgotten.below

    def copied(self, node, leader, before: int) -> None:
        node.shadow()
        end = node.log.log_end_offset
        start = min(before, end)
        if start < end and start in leader.full:  # a log may begin within a batch, and gets all of it
            start = leader.full[start].batch
        for offset in range(start, end):
            if offset in leader.full:
                node.full[offset] = leader.full[offset]
                node.gone.pop(offset, None)
            if offset in leader.gone:
                node.gone[offset] = leader.gone[offset]

    async def correct(self, node, follower, code) -> None:
        was = node.log.first_base_offset, node.log.log_end_offset
        is_archived = code is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
        moving = node.correcting._move(follower, is_archived=is_archived)
        await node.correcting._correct(follower, self.heard(node), moving)
        if node.log.has_unsynced:
            node.flush()
        now = node.log.first_base_offset, node.log.log_end_offset
        self.log("correct", node.number, code.name, was, "->", now)
        if now == was:
            return
        if is_archived or (
            now[0] > was[0] and now[1] != was[1]
        ):  # else segments in front of the leader's start have left
            source = self.archive_full if is_archived else {}
            node.full = until(source, now[1])
            node.gone = {}
        node.shadow()

    async def trim(self) -> None:
        """A follower lets local segments go as its leader has."""
        node = self.dice.choice(self.nodes)
        is_copy = node.is_up and node.partition.follower is not None and node.role_epoch == self.epoch
        if is_copy and self.config.remote_storage_enable and self.serving() is not None:
            await node.correcting._trim(node.partition.follower)


class Links:
    """ListOffsets of the leader, for `Correcting`."""

    def __init__(self, world, node) -> None:
        self.world = world

    async def ask(self, leader_id, request, *, timeout_ms, version_min):
        node = self.world.nodes[leader_id]
        (topic,) = request.topics
        (wanted,) = topic.partitions
        log = node.log
        if not node.is_up or node.partition.leader is None:
            return answer(topic, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        offset = {-1: log.log_end_offset, -2: log.log_start_offset, -4: log.local_log_start_offset}[wanted.timestamp]
        return answer(topic, offset, 0)


def answer(topic, offset, code):
    told = SimpleNamespace(partition_index=topic.partitions[0].partition_index, error_code=int(code), offset=offset)
    return SimpleNamespace(topics=[SimpleNamespace(name=topic.name, partitions=[told])])
