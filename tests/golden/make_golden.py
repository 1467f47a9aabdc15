"""Writes ``v1/``, an archive of bucket format version 1, with today's writer: ``python tests/golden/make_golden.py``.

The bytes under ``v1/`` must never change: archives like it exist. Ids and times are fixed here. The record batches come
from ``records.log``, which was made once (``--records``): what a compression library makes of them may change.
"""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

from stratalog.tier import commands
from stratalog.tier.entry import LeaderEpoch
from stratalog.tier.keys import PartitionId
from stratalog.tier.manifest import Claimant
from stratalog.tier.memory_store import MemoryStore
from stratalog.tier.projection import cluster_projection, format_projection, topic_projection
from stratalog.tier.segment_blobs import AbortedTransaction
from stratalog.tier.segment_object import SegmentRequest
from stratalog.tier.work import Worker
from stratalog.wire.batch import Header, Record, build_batch, build_control_batch
from stratalog.wire.compression import Codec

HERE = Path(__file__).resolve().parent
PARTITION = PartitionId("orders", bytes(range(16)), 3)
CLUSTER = "golden-cluster-00000AA"
NOW_MS = 1_700_000_000_000
LEADER_EPOCH = 5
BORDERS = (0, 14, 25)
"""The offsets of ``records.log`` become two objects."""


def record_batches() -> bytes:
    """Offsets 0 to 24: every codec, nulls, headers, bytes that are no text, one aborted and one committed transaction."""
    text = b"the quick brown fox jumps over the lazy dog " * 3

    def records(base: int, count: int) -> list[Record]:
        return [Record(base + n, NOW_MS + base + n, b"k%d" % (base + n), b"%d " % n + text) for n in range(count)]

    parts = [
        build_batch(records(0, 2), leader_epoch=4),
        build_batch(records(2, 3), codec=Codec.GZIP, leader_epoch=4),
        build_batch(records(5, 3), codec=Codec.SNAPPY, leader_epoch=4),
        build_batch(records(8, 3), codec=Codec.LZ4, leader_epoch=5),
        build_batch(records(11, 3), codec=Codec.ZSTD, leader_epoch=5),
        build_batch([Record(14, NOW_MS, None, b"\xff\x00", (Header("h", None), Header("i", b"x")))], leader_epoch=5),
        build_batch([Record(15, NOW_MS + 99, b"gone", None)], leader_epoch=5, log_append_time_ms=NOW_MS + 500),
        *(
            build_batch(
                records(base, 3), leader_epoch=5, producer_id=pid, producer_epoch=0, base_sequence=0, transactional=True
            )
            for base, pid in ((16, 7), (19, 8))
        ),
        *(
            build_control_batch(
                kind, bytes(6), offset=at, timestamp_ms=NOW_MS, leader_epoch=5, producer_id=pid, transactional=True
            )
            for kind, at, pid in ((0, 22, 7), (1, 23, 8))
        ),
        build_batch(records(24, 1), leader_epoch=5),
    ]
    return b"".join(map(bytes, parts))


def golden_files() -> dict[str, bytes]:
    """Every object of the archive by its key, as today's writer makes them."""
    store = MemoryStore("memory:golden")
    worker = Worker(store)
    with patch("stratalog.__version__", "0.1.0"):
        for command in _commands((HERE / "records.log").read_bytes(), worker):
            report = worker.execute(command)
            assert not isinstance(report, commands.FailedReport | commands.FencedReport | commands.CorruptReport), (
                report
            )
    return {found.key: store.get(found.key)[0] for found in store.list("")}


def _commands(data: bytes, worker: Worker):
    claimant = Claimant(1, LEADER_EPOCH, b"golden-claimant!", 1)
    yield format_projection()
    yield cluster_projection(CLUSTER, 1)
    yield topic_projection(
        PARTITION.topic, PARTITION.topic_id, partitions=4, cluster_id=CLUSTER,
        configs={"remote.storage.enable": "true", "retention.ms": "-1"},
    )  # fmt: skip
    yield commands.Claim(PARTITION, claimant, NOW_MS + 1000, start_offset=0, cluster_id=CLUSTER)
    cut = data.index(BORDERS[1].to_bytes(8, "big"))
    ranges = zip(BORDERS, BORDERS[1:], (data[:cut], data[cut:]), strict=False)
    for number, (base, end, source) in enumerate(ranges):
        request = SegmentRequest(
            PARTITION, b"golden-object-%02d" % number, base, end, LEADER_EPOCH, [source],
            leader_epochs=(LeaderEpoch(4, 0), LeaderEpoch(5, 8)),
            aborted=(AbortedTransaction(7, 16, 22, 16),) if number else (),
            cluster_id=CLUSTER, writer="stratalog 0.1.0", broker_id=1, sealed_ms=NOW_MS + 2000,
            uploaded_ms=NOW_MS + 3000, chunk_bytes=500,
        )  # fmt: skip
        done = worker.execute(commands.Upload(request, claimant))
        assert isinstance(done, commands.UploadDone), done
        yield commands.Commit(
            PARTITION, claimant, (done.uploaded,), NOW_MS + 4000 + number, high_watermark=30, last_stable_offset=30
        )
    yield commands.SetLogStart(PARTITION, claimant, 1, NOW_MS + 5000, "retention.ms")


def main() -> None:
    """Write them; ``--records`` makes ``records.log`` anew first."""
    if "--records" in sys.argv:
        (HERE / "records.log").write_bytes(record_batches())
    for key, data in golden_files().items():
        path = HERE / "v1" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        print(f"{len(data):6} {key}")


if __name__ == "__main__":
    main()
