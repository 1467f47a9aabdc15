"""The bucket of a random history: what is in it, and the jobs that change it; and what cleanings may take."""

from __future__ import annotations

from contextlib import suppress

from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.messages import commands
from stratalog.tier.stores.store import NotFound
from tests.histories.archive_compaction import compact_now
from tests.histories.disk import inlined
from tests.histories.node import PARTITION
from tests.histories.oracle import Wrong, fates, seen, why_gone


class Bucket:
    """The part of a world that archives."""

    def execute(self, node, command):
        """A worker carries a command out."""
        if isinstance(command, commands.Upload):
            whole = inlined(node.files, command)
            if whole is None:
                return commands.FailedReport("a file is gone", retriable=True)
            report = self.worker.execute(whole)
            request = command.request
            if isinstance(report, commands.UploadDone):
                self.count["uploads"] += 1
                inside = range(request.base, request.end)
                fate = fates(node.full)
                self.uploads[request.uuid] = (
                    {o: rec for o, rec in node.full.items() if o < request.end},
                    {o: node.gone[o] for o in inside if o in node.gone},
                    {o: fate[o] for o in inside if o in fate},
                )  # fmt: skip
            elif isinstance(report, commands.CorruptReport):
                raise Wrong(f"an upload is refused: {report.message}")
            return report
        report = self.worker.execute(command)
        self.archive_moved()
        if isinstance(report, commands.CorruptReport):
            raise Wrong(f"{type(command).__name__}: {report.message}")
        return report

    def manifest(self):
        with suppress(NotFound):
            return read_manifest(self.store, PARTITION).manifest
        return None

    def archive_moved(self) -> None:
        """Follow the manifest: what was committed, what is gone."""
        manifest = self.manifest()
        if manifest is None or manifest.deleted_ms >= 0:
            self.archive_full, self.archive_gone, self.archive_end, self.archive_start = {}, {}, 0, 0
            return
        entries = list(iter_entries(self.store, manifest))
        for entry in entries:
            known = self.uploads.pop(entry.uuid, None)
            if known is not None:
                below = {
                    o: rec for o, rec in known[0].items() if o < entry.base
                }  # what the producers' snapshot tells of
                inside = {o: rec for o, rec in known[0].items() if o >= entry.base}
                self.archive_full = below | self.archive_full | inside
                for offset in inside:
                    self.archive_gone.pop(offset, None)
                self.archive_gone |= known[1]
                self.archive_fate |= known[2]
        self.archive_end = entries[-1].end if entries else 0
        self.archive_start = entries[0].base if entries else 0

    def archived(self):
        """The data records of the archive, by offset."""
        manifest = self.manifest()
        found = {}
        if manifest is None or manifest.deleted_ms >= 0:
            return found
        for entry in iter_entries(self.store, manifest):
            data = self.store.get(entry.key)[0][: entry.data_bytes]
            for one in seen(data)[0]:
                found[one.offset] = one
        return found

    def merge(self) -> None:
        manifest = self.manifest()
        if manifest is None or manifest.deleted_ms >= 0 or manifest.claimant is None:
            return
        before = self.archived()
        command = commands.MergeObjects(
            PARTITION, manifest.claimant, self.dice.randbytes(16), 2, self.dice.choice([600, 2000]), self.now_ms,
            self.now_ms + 10**6, "c",
        )  # fmt: skip
        report = self.worker.execute(command)
        if isinstance(report, commands.CorruptReport):
            raise Wrong(f"a merge is refused: {report.message}")
        if self.archived() != before:
            raise Wrong("a merge has changed the archive's records")
        self.count["merged"] += isinstance(report, commands.ObjectsMerged) and report.object_count

    def compact_archive(self) -> None:
        if "compact" not in self.policy:
            return
        manifest = self.manifest()
        if manifest is None or manifest.deleted_ms >= 0 or not self.archive_end:
            return
        before = self.archived()
        end = compact_now(self)
        self.archive_moved()
        after = self.archived()
        for offset, one in before.items():
            if offset not in after:
                why = why_gone(self.archive_full, offset, self.archive_end, self.archive_fate)
                if not why:
                    raise Wrong(f"compaction of the archive dropped {one}")
                self.archive_gone[offset] = why
            elif after[offset] != one:
                raise Wrong(f"compaction of the archive changed {one} to {after[offset]}")
        if after.keys() - before.keys():
            raise Wrong("compaction of the archive made records")
        self.log("compact archive", end, "dropped", sorted(before.keys() - after.keys()))
        self.count["archive compacted"] += 1

    def local_offsets(self, node) -> dict:
        log = node.log
        if log.written_offset <= log.first_base_offset or log.missing_ranges():
            return {}
        read = log.read_range(log.first_base_offset, log.written_offset)
        data = b"".join(part.file.pread(part.length, part.position) for part in read.parts)
        return {one.offset: one for one in seen(data)[0]}

    def judge_cleaning(self, node, before: dict, high_watermark: int | None = None) -> None:
        after = self.local_offsets(node)
        limit = node.partition.high_watermark if high_watermark is None else high_watermark
        lost = []
        for offset, one in before.items():
            if offset not in after:
                why = why_gone(node.full, offset, limit)
                if not why:
                    raise Wrong(f"the cleaner of {node.number} dropped {one}")
                node.gone[offset] = why
                lost.append((offset, why))
            elif after[offset] != one:
                raise Wrong(f"the cleaner of {node.number} changed {one} to {after[offset]}")
        if high_watermark is not None:  # a power cut may bring back what was in the place of a cleaned segment
            for offset in after.keys() - before.keys():
                node.gone.pop(offset, None)
        elif after.keys() - before.keys():
            raise Wrong("the cleaner made records")
        self.log("clean", node.number, lost)
