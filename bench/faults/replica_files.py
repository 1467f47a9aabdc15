"""The files of all replicas, read after their nodes were stopped: equal logs, and no file that a dump finds fault with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from stratalog.cli.dump.dump import dump
from stratalog.cli.dump.row import PROBLEM
from stratalog.wire.batch import LOG_OVERHEAD_BYTES, check_batch, iter_records, read_header
from stratalog.wire.errors import Corrupt

__all__ = ["Replica", "compacted_faults", "dump_faults", "equal_faults", "read_replica"]

_DUMPED: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


class Replica(NamedTuple):
    """The log of one replica: its batches by first offset, from ``begin`` to ``end``."""

    begin: int
    end: int
    batches: Mapping[int, bytes]
    damage: list[str]


def read_replica(directory: Path) -> Replica:
    """The log in the directory of a partition; damage is said, and ends the reading of its segment."""
    batches: dict[int, bytes] = {}
    damage: list[str] = []
    end = begin = -1
    for path in sorted(directory.glob("*.log")):
        data, position = path.read_bytes(), 0
        begin = int(path.stem) if begin < 0 else begin
        end = max(end, int(path.stem))
        while position + LOG_OVERHEAD_BYTES < len(data):
            try:
                header = check_batch(data, position)
            except Corrupt as error:
                damage.append(f"{directory.name}/{path.name} at {position}: {error}")
                break
            batches[header.base_offset] = data[position : position + header.size_bytes]
            end = header.last_offset + 1
            position += header.size_bytes
    return Replica(begin, end, batches, damage)


def equal_faults(name: str, replicas: Mapping[int, Replica], high_watermark: int) -> Iterator[str]:
    """Replicas that differ between the newest first offset of them and the high watermark."""
    begin = max(one.begin for one in replicas.values())
    cut = {
        node_id: {offset: batch for offset, batch in one.batches.items() if begin <= offset < high_watermark}
        for node_id, one in replicas.items()
    }
    first, *others = cut
    for other in others:
        differ = [
            offset
            for offset in cut[first].keys() | cut[other].keys()
            if cut[first].get(offset) != cut[other].get(offset)
        ]
        if differ:
            yield (
                f"{name}: nodes {first} and {other} differ in {len(differ)} of {len(cut[first])} batches from {begin} to the high "
                f"watermark {high_watermark}, first at offset {min(differ)}"
            )
    for node_id, one in replicas.items():
        if one.end < high_watermark:
            yield f"{name}: node {node_id} has the log up to {one.end}, and the high watermark is {high_watermark}"


def compacted_faults(name: str, replicas: Mapping[int, Replica], high_watermark: int) -> Iterator[str]:
    """Replicas of a compacted log, which each cleans by itself: equal records where both have them, and equal last ones."""
    records: dict[int, dict[int, tuple[object, object]]] = defaultdict(dict)
    last: dict[int, dict[object, int]] = defaultdict(dict)
    for node_id, one in replicas.items():
        for batch in one.batches.values():
            if read_header(batch, 0).is_control:
                continue
            for record in iter_records(batch, 0):
                if record.offset < high_watermark:
                    key = None if record.key is None else bytes(record.key)
                    value = None if record.value is None else bytes(record.value)
                    records[node_id][record.offset] = key, value
                    if value is None:
                        last[node_id].pop(key, None)
                    else:
                        last[node_id][key] = record.offset
    first, *others = replicas
    for other in others:
        both = records[first].keys() & records[other].keys()
        differ = [offset for offset in both if records[first][offset] != records[other][offset]]
        if differ:
            yield f"{name}: nodes {first} and {other} have other records at {len(differ)} offsets, first at {min(differ)}"
        if last[first] != last[other]:
            keys = [
                key for key in last[first].keys() | last[other].keys() if last[first].get(key) != last[other].get(key)
            ]
            shown = [(key, last[first].get(key), last[other].get(key)) for key in keys[:3]]
            yield f"{name}: nodes {first} and {other} have other last records of {len(keys)} keys: {shown}"


def dump_faults(directory: Path) -> Iterator[str]:
    """Everything that `stratalog dump` finds wrong in the files of a partition."""
    for path in sorted(directory.iterdir()):
        if path.suffix in _DUMPED:
            found = [row for row in dump(str(path)) if row["what"] == PROBLEM]
            if found:
                yield f"{directory.parent.name}/{directory.name}/{path.name}: {len(found)} problems, first {found[0]}"
