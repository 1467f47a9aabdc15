"""Writes two archives with today's writer: ``python tests/golden/make_golden.py``.

``v1/`` is what a reader of manifest version 1 can read; in ``v2/`` older entries are in pages. Their bytes must never
change: archives like them exist. Ids and times are fixed here. The record batches come from ``records.log``, which was
made once (``--records``), and pages are zstd frames of raw blocks: what compression libraries make of data may change.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests import pages as manifest_pages
from stratalog.tier.manifests import spill as manifest_spill
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages import commands
from stratalog.tier.messages.projection import cluster_projection, format_projection, topic_projection
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.objects.segment_object import SegmentRequest
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.work import Worker
from stratalog.wire.batch import Header, Record, build_batch, build_control_batch, iter_headers
from stratalog.wire.compression import Codec

HERE = Path(__file__).resolve().parent
PARTITION = PartitionId("orders", bytes(range(16)), 3)
CLUSTER = "golden-cluster-00000AA"
NOW_MS = 1_700_000_000_000
LEADER_EPOCH = 5
BORDERS = (0, 14, 25)
"""The offsets of ``records.log`` become two objects of ``v1/``."""
PAGED = {"INLINE_MAX": 4, "INLINE_KEPT": 2, "FANOUT": 3, "MERGED_ENTRIES_MAX": 18}
"""A manifest as small as in ``v2/``: every batch becomes an object, and they soon go to pages."""


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


def golden_files(version: int) -> dict[str, bytes]:
    """Every object of one of the archives by its key, as today's writer makes them."""
    store = MemoryStore(f"memory:golden-{version}")
    worker = Worker(store)
    data = (HERE / "records.log").read_bytes()
    borders = BORDERS if version == 1 else (*(header.base_offset for _, header in iter_headers(data)), 25)
    with ExitStack() as patches:
        patches.enter_context(patch("stratalog.__version__", "0.1.0"))
        if version == 2:
            for module in (manifest_pages, manifest_spill):
                patches.enter_context(patch.object(module, "compressed", raw_zstd))
            for name, value in PAGED.items():
                patches.enter_context(patch.object(manifest_pages, name, value))
        for command in _commands(data, borders, worker):
            report = worker.execute(command)
            assert isinstance(report, commands.Written | commands.ManifestRead), report
    return {found.key: store.get(found.key)[0] for found in store.list("")}


def raw_zstd(data: bytes) -> bytes:
    """A zstd frame that compresses nothing: its size is known and its blocks are raw (RFC 8878, 3.1.1)."""
    frame = b"\x28\xb5\x2f\xfd\xa0" + len(data).to_bytes(4, "little")
    pieces = [data[at : at + 100_000] for at in range(0, len(data), 100_000)]
    for piece in pieces:
        frame += (len(piece) << 3 | (piece is pieces[-1])).to_bytes(3, "little") + piece
    return frame


def _commands(data: bytes, borders: Sequence[int], worker: Worker) -> Iterator[commands.Command]:
    claimant = Claimant(1, LEADER_EPOCH, b"golden-claimant!", 1)
    yield format_projection()
    yield cluster_projection(CLUSTER, 1)
    yield topic_projection(
        PARTITION.topic, PARTITION.topic_id, partitions=4, cluster_id=CLUSTER,
        configs={"remote.storage.enable": "true", "retention.ms": "-1"},
    )  # fmt: skip
    yield commands.Claim(PARTITION, claimant, NOW_MS + 1000, start_offset=0, cluster_id=CLUSTER)
    for number, (base, end, source) in enumerate(_ranges(data, borders)):
        request = SegmentRequest(
            PARTITION, b"golden-object-%02d" % number, base, end, LEADER_EPOCH, [source],
            leader_epochs=(LeaderEpoch(4, 0), LeaderEpoch(5, 8)),
            aborted=(AbortedTransaction(7, 16, 22, 16),) if base < 23 and end > 16 else (),
            cluster_id=CLUSTER, writer="stratalog 0.1.0", broker_id=1, sealed_ms=NOW_MS + 2000,
            uploaded_ms=NOW_MS + 3000, chunk_bytes=500,
        )  # fmt: skip
        done = worker.execute(commands.Upload(request, claimant))
        assert isinstance(done, commands.UploadDone), done
        yield commands.Commit(
            PARTITION, claimant, (done.uploaded,), NOW_MS + 4000 + number, high_watermark=30, last_stable_offset=30
        )
    log_start = 1 if borders == BORDERS else 3
    yield commands.SetLogStart(PARTITION, claimant, log_start, NOW_MS + 5000, "retention.ms")


def _ranges(data: bytes, borders: Sequence[int]) -> Iterator[tuple[int, int, bytes]]:
    """``(base, end, batches)`` between neighbouring borders."""
    for base, end in pairwise(borders):
        yield (
            base,
            end,
            b"".join(
                data[at : at + header.size_bytes]
                for at, header in iter_headers(data)
                if base <= header.base_offset < end
            ),
        )


def main() -> None:
    """Write them; ``--records`` makes ``records.log`` anew first."""
    if "--records" in sys.argv:
        (HERE / "records.log").write_bytes(record_batches())
    for version in (1, 2):
        for key, data in golden_files(version).items():
            path = HERE / f"v{version}" / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            print(f"{len(data):6} v{version}/{key}")


if __name__ == "__main__":
    main()
