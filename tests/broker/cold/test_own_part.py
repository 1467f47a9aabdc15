"""An archive that another cluster owns ends for this one where its own disk begins."""

import pytest

from stratalog.broker.cold.own_part import WHOLE, OwnPart
from stratalog.broker.cold.reader import RemotePartition
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.parts import NOBODY, Claimant
from stratalog.wire.errors import KafkaError
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


def test_it_ends_where_an_owner_that_has_gone_back_to_a_cut_goes_on():
    """The leader epochs of a restored cluster are above all that the log has."""
    part = OwnPart(0, lambda: 40, lambda offset: 3 if offset == 40 else 2)
    owner = Claimant(1, 9, bytes(16))
    assert part.end_under(owner, [LeaderEpoch(1, 0), LeaderEpoch(3, 30), LeaderEpoch(9, 60)]) == 40
    assert part.end_under(owner, [LeaderEpoch(1, 0), LeaderEpoch(9, 20), LeaderEpoch(12, 30)]) == 20
    assert part.end_under(Claimant(0, 9, bytes(16)), [LeaderEpoch(9, 20)]) > 40
    assert OwnPart(0, lambda: 40).end_under(owner, [LeaderEpoch(9, 20)]) == 40
    drill = OwnPart(-1, lambda: 40, lambda offset: 9 if offset == 40 else 2)
    assert drill.end_under(owner, [LeaderEpoch(1, 0), LeaderEpoch(9, 20)]) == 20
    assert drill.end_under(owner, [LeaderEpoch(1, 0), LeaderEpoch(2, 30), LeaderEpoch(9, 40)]) == 40


def reading(tmp_path, own) -> Rig:
    rig = Rig(tmp_path)
    rig.remote = RemotePartition(
        PARTITION,
        submit=rig.submit,
        chunks=rig.chunks,
        metrics=rig.metrics,
        wake=rig.wake,
        now_ms=lambda: rig.now_ms,
        own=own,
    )
    return rig


async def test_a_record_that_the_owner_has_in_its_place_is_not_served(tmp_path):
    """The local log begins behind it: its own record is lost, for the owner has gone back to a cut."""
    rig = reading(tmp_path, OwnPart(-1, lambda: 40, lambda _: 0))
    rig.at_once = True
    assert rig.remote.known is False
    with pytest.raises(KafkaError, match="neither on the local disk nor in the archive"):
        rig.read(25, 1)
    assert (rig.remote.start_offset, rig.remote.end_offset) == (0, 0)
    assert await rig.remote.find_timestamp(25, 0, 40) is None
    assert await rig.remote.find_max_timestamp(40) is None


@pytest.mark.parametrize("local_start", [5, 20, 35])
async def test_the_owners_times_hide_none_of_the_log(tmp_path, local_start):
    """Its later records have larger ones, as a rule."""
    rig = reading(tmp_path, OwnPart(-1, lambda: local_start))
    rig.at_once = True
    found = await rig.remote.find_max_timestamp(local_start)
    assert (found.offset, found.timestamp_ms) == (local_start - 1, local_start - 1)
    assert (await rig.remote.find_timestamp(3, 0, local_start)).offset == 3
    assert await rig.remote.find_timestamp(local_start, 0, local_start) is None


@pytest.mark.parametrize("local_start", [5, 20, 35])
def test_no_read_goes_beyond_it(tmp_path, local_start):
    """It may lie inside an object of the owner, who merges small ones, and all of that may be cached."""
    rig = reading(tmp_path, OwnPart(-1, lambda: local_start))
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
