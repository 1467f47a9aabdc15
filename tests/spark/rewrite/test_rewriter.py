"""Tasks in this process, and which group a code belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stratalog.spark.rewrite import rewriter as module
from stratalog.spark.rewrite.group import Group, RewriteRequest
from stratalog.spark.rewrite.newest_keys import KEY_SCHEMA
from stratalog.spark.rewrite.rewriter import HereRewriter, Placement, Scan
from stratalog.tier.documents.keys import PartitionId
from stratalog.wire.errors import Invalid

REQUEST = RewriteRequest("memory:none", bytes(16), "compact", 1)


def group(number: int, partition: int, base: int, end: int) -> Group:
    return Group(
        number, PartitionId("t", b"t" * 16, partition), base, end, 10, end - base, True, (bytes([number] * 16),)
    )


GROUPS = [group(0, 1, 0, 10), group(1, 1, 10, 20), group(2, 4, 5, 50)]


def keys(*given: tuple[int, bytes | None, int]) -> pa.RecordBatch:
    columns = zip(*given, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, KEY_SCHEMA, strict=True)], schema=KEY_SCHEMA
    )


def test_codes_go_to_the_group_of_their_offset() -> None:
    """Partition by partition."""
    batch = pa.RecordBatch.from_pydict(
        {"partition": pa.array([1, 4, 1, 1], pa.int32()), "code": pa.array([19, 98, 20, 0], pa.int64())}
    )
    assert Placement(GROUPS).place(batch).to_pydict() == {"group": [0, 2, 1, 0], "code": [19, 98, 20, 0]}


@pytest.mark.parametrize("newest_only", [True, False])
def test_every_group_is_rewritten_by_its_own_codes(
    rewrite_rig: Any, monkeypatch: pytest.MonkeyPatch, *, newest_only: bool
) -> None:
    """In ascending order, none left out; a group without any too."""
    asked: dict[int, list[int]] = {}

    def rewritten(one: Group, codes: Any, request: RewriteRequest) -> Any:
        assert codes.dtype == np.int64
        asked[one.number] = codes.tolist()

    monkeypatch.setattr(module, "rewrite_here", rewritten)
    tasks: Any = [("x",), ("y",)]
    found = {"x": [keys((1, b"a", 30), (1, b"b", 4), (4, b"a", 60))], "y": [keys((1, b"a", 32), (1, b"c", 2))]}

    class Told(rewrite_rig.Told):
        pass

    told = Told()
    monkeypatch.setattr(module, "sum", lambda pieces: 1, raising=False)
    results = list(
        HereRewriter().rewrite(
            tasks, Scan(lambda task: iter(found[task[0]])), GROUPS, REQUEST, told, newest_only=newest_only  # type: ignore[index]
        )
    )  # fmt: skip
    assert len(results) == 3
    assert asked == {0: [2, 4], 1: [32] if newest_only else [30, 32], 2: [60]}
    assert told.moved_bytes == 2 + 30


def test_a_predicate_needs_spark() -> None:
    """It is in Spark's language."""
    HereRewriter().check(Scan(lambda _: iter([])))
    with pytest.raises(Invalid, match="--without-spark"):
        HereRewriter().check(Scan(lambda _: iter([]), "key is null"))
