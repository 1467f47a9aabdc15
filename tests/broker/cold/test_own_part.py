"""An archive that another cluster owns ends for this one where its own disk begins."""

import pytest

from stratalog.broker.cold.own_part import WHOLE, OwnPart
from stratalog.broker.cold.reader import RemotePartition
from stratalog.tier.manifests.parts import NOBODY, Claimant
from tests.broker.cold.test_reader import PARTITION, Rig, offsets


@pytest.mark.parametrize(
    ("owner", "whole"),
    [
        (NOBODY, True),
        (Claimant(0, 9, bytes(16)), True),
        (Claimant(1, 0, bytes(16)), True),
        (Claimant(2, 0, bytes(16)), False),
    ],
)
def test_only_a_later_incarnation_is_another_owner(owner, whole):
    """An earlier one is this cluster's before it took the bucket over."""
    assert (OwnPart(1, lambda: 40).end_under(owner) > 40) is whole
    assert OwnPart(1, lambda: 40).end_under(owner) >= 40
    assert WHOLE.end_under(owner) > 1 << 60


@pytest.mark.parametrize("local_start", [5, 20, 35])
def test_no_read_goes_beyond_it(tmp_path, local_start):
    """It may lie inside an object of the owner, who merges small ones, and all of that may be cached."""
    rig = Rig(tmp_path)
    rig.remote = RemotePartition(
        PARTITION,
        submit=rig.submit,
        chunks=rig.chunks,
        metrics=rig.metrics,
        wake=rig.wake,
        now_ms=lambda: rig.now_ms,
        own=OwnPart(-1, lambda: local_start),
    )
    for offset in (0, 25, 45):
        rig.read(offset, 1) if offset < local_start else None
    for max_bytes in (1, 1 << 20):
        at, found = 0, []
        while at < local_start:
            read = rig.read(at, max_bytes)
            found += offsets(read)
            at = read.next_offset
        assert (at, found) == (local_start, list(range(0, local_start, 5)))
    assert rig.remote.end_offset == local_start
