"""An archive that is right in every byte, ways to damage it, one for each kind of anomaly, and what verifying finds."""

from __future__ import annotations

from crc32c import crc32c
from msgspec.structs import replace

from stratalog.tier.care.verify import verify_bucket
from stratalog.tier.care.verify_partition import VerifyOptions
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.anomaly import AnomalyKind
from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.manifests.json import from_bytes, predecessor_hash, to_bytes
from stratalog.tier.manifests.pages import compressed, page_ref, page_to_bytes
from stratalog.tier.manifests.parts import HistoryRef, totals_of
from stratalog.tier.objects.footer import encode_footer, encode_trailer
from stratalog.tier.objects.segment_object import SegmentRequest, build_segment
from stratalog.tier.objects.segment_reader import read_object_footer
from stratalog.tier.work.archive_writer import archive_log

DAY_MS = 86_400_000
OPTIONS = VerifyOptions(now_ms=2**62, grace_ms=DAY_MS)


class Damaged:
    """An archive of two partitions in memory, one with a page and a history, and ways to break it."""

    def __init__(self, store, log_bytes, dice=None):
        self.store = store
        self.dice = dice
        self.log_bytes = log_bytes
        self.partition = log_bytes.partition
        self.other = PartitionId("payments", bytes(range(1, 17)), 0)
        archive_log(store, self.other, [log_bytes.segment(0, 2)], now_ms=1)
        for epoch in (1, 2, 3):
            base = (epoch - 1) * 100
            data = [log_bytes.segment(base + i * 50, 5, leader_epoch=epoch) for i in range(2)]
            archive_log(store, self.partition, data, now_ms=epoch, chunk_bytes=1000)
        self._spill()

    @property
    def manifest(self):
        """The manifest as stored."""
        return from_bytes(self.store.get(self.partition.manifest_key)[0], "")

    def put(self, manifest):
        """Store a manifest, whatever it says."""
        self.store.put(self.partition.manifest_key, to_bytes(manifest))

    def _spill(self):
        """The two oldest entries go to a page, and a copy of the manifest to the history, twice."""
        before = self.manifest
        page = page_to_bytes(self.partition, before.entries[:2])
        ref = page_ref(self.partition, before.entries[:2], page, before.seq + 1)
        self.store.put(ref.key, page)
        spilled = replace(before, seq=before.seq + 1, entries=before.entries[2:], pages=(ref,))
        for seq in (before.seq, before.seq + 1):
            raw = to_bytes(replace(spilled, seq=seq))
            key = self.partition.history_key(seq, "b1")
            self.store.put(key, compressed(raw))
            spilled = replace(spilled, seq=seq + 1, history=HistoryRef(seq, key, predecessor_hash(raw)))
        self.put(spilled)

    def anomalies(self, *, deep=False, **options):
        """All that verifying finds."""
        asked = OPTIONS._replace(deep=deep, **options)
        return [one for report in verify_bucket(self.store, asked, threads=2) for one in report.anomalies]

    def kinds(self, **options):
        """The kinds of it."""
        return {one.kind for one in self.anomalies(**options)}

    def damage(self, kind):
        """Damage it in one way; gives the kind."""
        globals()[kind.replace("-", "_")](self)
        return AnomalyKind(kind)

    def number(self, bound, default):
        """A number below ``bound``: ``default`` as long as there are no dice."""
        return default if self.dice is None else self.dice.randrange(bound)

    def entry(self, default):
        """An inline entry."""
        return self.manifest.entries[self.number(4, default)]

    def flip(self, key, position):
        """Flip a bit of an object."""
        data = bytearray(self.store.get(key)[0])
        data[position] ^= 1
        self.store.put(key, bytes(data))

    def replace_object(self, index, data, *, partition=None, uuid=None, **footer_fields):
        """Put an object of other batches, sound in itself, under an inline entry's key; its footer's entry may lie."""
        entry = self.manifest.entries[index]
        built = build_segment(
            SegmentRequest(
                partition or self.partition,
                uuid or entry.uuid,
                entry.base,
                entry.end,
                entry.epoch,
                (data,),
                compacted=True,
            )
        )
        self.store.put(entry.key, b"".join(bytes(piece) for piece in built.source))
        footer = read_object_footer(self.store, entry.key)
        told = replace(footer.entry, **footer_fields)
        position = footer.blobs["chunks"].position + footer.blobs["chunks"].length
        plain = encode_footer(replace(footer, entry=told))
        raw = self.store.get(entry.key)[0][:position] + plain + encode_trailer(position, plain, told.data_bytes)
        self.store.put(entry.key, raw)
        self.change(
            index,
            **{
                **{name: getattr(told, name) for name in Entry.__slots__ if name not in ("key", "unknown")},
                "size_bytes": len(raw),
                "crc32c": crc32c(raw),
            },
        )

    def change(self, index, **fields):
        """Change fields of an inline entry; the sums follow."""
        manifest = self.manifest
        entries = list(manifest.entries)
        entries[index] = replace(entries[index], **fields)
        sums = manifest.pages[0].totals.plus(totals_of(entries))
        self.put(replace(manifest, entries=tuple(entries), totals=sums))

    def raw_entry(self, index):
        """The bytes of an inline entry's object."""
        return self.store.get(self.manifest.entries[index].key)[0]


# -- one of each kind: the name of the function is the kind -----------------------------------------------------------


def missing_manifest(archive):
    """The commit point is gone."""
    archive.store.delete_many([archive.partition.manifest_key])


def missing_page(archive):
    """A page is gone."""
    archive.store.delete_many([archive.manifest.pages[0].key])


def missing_object(archive):
    """An object is gone."""
    archive.store.delete_many([archive.entry(1).key])


def broken_history(archive):
    """A copy of an earlier manifest is gone, or is another one."""
    key = archive.manifest.history.key
    if archive.number(2, 0):
        archive.flip(key, archive.number(len(archive.store.get(key)[0]), 20))
    else:
        archive.store.delete_many([key])


def wrong_bounds(archive):
    """The sums are not those of the entries."""
    totals = archive.manifest.totals
    name = totals._fields[archive.number(len(totals), 2)]
    archive.put(replace(archive.manifest, totals=totals._replace(**{name: archive.number(100, 7)})))


def offset_gap(archive):
    """An entry and its object are gone from the middle."""
    manifest = archive.manifest
    number = archive.number(3, 1)
    gone = manifest.entries[number]
    archive.store.delete_many([gone.key])
    sums = manifest.totals.minus(totals_of([gone]))
    entries = manifest.entries[:number] + manifest.entries[number + 1 :]
    archive.put(replace(manifest, entries=entries, totals=sums))


def offset_overlap(archive):
    """An entry is there twice."""
    manifest = archive.manifest
    number = archive.number(4, 1)
    twice = manifest.entries[number]
    sums = manifest.totals.plus(totals_of([twice]))
    archive.put(replace(manifest, entries=(*manifest.entries[:number], twice, *manifest.entries[number:]), totals=sums))


def epoch_order(archive):
    """An entry is of an earlier epoch than the one before."""
    number = archive.number(4, 2)
    archive.change(number, epochs=(LeaderEpoch(0 if number < 2 else 1, archive.manifest.entries[number].base),))


def orphan_object(archive):
    """An object that nothing names."""
    entry = archive.entry(0)
    uuid = archive.number(1 << 100, 0).to_bytes(16, "big")
    key = archive.partition.segment_key(entry.base, entry.end, archive.number(9, 1), uuid)
    archive.store.put(key, archive.store.get(entry.key)[0])


def foreign_key(archive):
    """A key that is none of the format."""
    folder = ("seg/", "", "pages/", "history/")[archive.number(4, 0)]
    archive.store.put(f"{archive.partition.prefix}{folder}holiday-{archive.number(99, 1)}.jpg", b"x")


def wrong_length(archive):
    """An object lacks its end, or has something behind it."""
    number = archive.number(4, 0)
    raw = archive.raw_entry(number)
    cut = archive.number(len(raw), 1)
    archive.store.put(archive.manifest.entries[number].key, raw[:-cut] if cut else raw + b"x")


def wrong_crc(archive):
    """A bit of the data has changed."""
    entry = archive.entry(0)
    archive.flip(entry.key, archive.number(entry.data_bytes, 200))


def entry_differs(archive):
    """An entry says something else than its object's footer."""
    field = ("max_timestamp_ms", "min_timestamp_ms", "data_crc32c", "batch_count", "max_timestamp_offset")
    archive.change(archive.number(4, 0), **{field[archive.number(len(field), 0)]: 10**9 + archive.number(99, 5)})


def broken_batches(archive):
    """Footer, chunks and entry are right, of batches that leave offsets out although the topic is not compacted."""
    number = archive.number(4, 0)
    entry = archive.manifest.entries[number]
    batches = [archive.log_bytes.segment(entry.base + at * 10, 1, leader_epoch=entry.epoch) for at in range(5)]
    del batches[archive.number(4, 2)]
    archive.replace_object(number, b"".join(batches), compacted=False)


def unreadable_index(archive):
    """A bit behind the data has changed: of an index, another small part, the chunk table, the footer or the trailer."""
    entry = archive.entry(0)
    index = read_object_footer(archive.store, entry.key).blobs["offset_index"].position
    archive.flip(
        entry.key, archive.number(entry.size_bytes - entry.data_bytes, index - entry.data_bytes) + entry.data_bytes
    )
