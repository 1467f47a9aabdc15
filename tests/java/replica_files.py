"""Replicas of one partition on the disks of several nodes, as DumpLogSegments and their checkpoints describe them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tests.java.mixed_nodes import MixedNode

BATCH = re.compile(
    r"^baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+) .*?producerId: (?P<producer>-?\d+) "
    r"producerEpoch: (?P<producer_epoch>-?\d+) partitionLeaderEpoch: (?P<epoch>\d+) .*?"
    r"size: (?P<size>\d+) .*?crc: (?P<crc>\d+) isvalid: true$",
    re.MULTILINE,
)
EPOCHS = "leader-epoch-checkpoint"


def files(node: MixedNode, partition: str, suffix: str = ".log") -> list[Path]:
    """The files of a replica with this suffix, oldest first."""
    return sorted((node.data / partition).glob(f"*{suffix}"))


def batches(tools, node: MixedNode, partition: str) -> dict[int, dict[str, int]]:
    """Each batch by its first offset, as DumpLogSegments tells it; the program must find no fault."""
    dump = tools.dump(files(node, partition)).clean()
    found = [{name: int(value) for name, value in row.groupdict().items()} for row in BATCH.finditer(dump.text)]
    assert len(found) == dump.text.count("baseOffset: "), f"{node.folder.name} {partition}: batches that are not valid"
    return {row["base"]: row for row in found}


def epochs(node: MixedNode, partition: str) -> list[tuple[int, int]]:
    """The leader epochs of a replica and the offsets at which they begin."""
    _version, count, *rows = (node.data / partition / EPOCHS).read_text().splitlines()
    assert len(rows) == int(count)
    return [(int(epoch), int(start)) for epoch, start in map(str.split, rows)]


def assert_equal_batches(tools, nodes: Sequence[MixedNode], partition: str) -> int:
    """Offsets, sizes, epochs, producers and CRCs of all batches are equal; returns the count of batches."""
    first, *others = nodes
    expected = batches(tools, first, partition)
    assert expected, f"{partition} is empty at {first.folder.name}"
    for node in others:
        found = batches(tools, node, partition)
        differ = sorted(base for base in expected.keys() | found.keys() if expected.get(base) != found.get(base))
        assert not differ, (
            f"{partition}: {first.folder.name} and {node.folder.name} differ in {len(differ)} of {len(expected)} "
            f"batches, first {expected.get(differ[0])} and {found.get(differ[0])}"
        )
    return len(expected)


def assert_equal_replicas(tools, nodes: Sequence[MixedNode], partition: str) -> None:
    """Replicas of nodes that were stopped in order have equal batches and an equal history of leader epochs."""
    assert_equal_batches(tools, nodes, partition)
    assert len({tuple(epochs(node, partition)) for node in nodes}) == 1, [epochs(node, partition) for node in nodes]
