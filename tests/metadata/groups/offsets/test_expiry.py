"""When committed offsets expire, by the state of their group."""

from types import SimpleNamespace

import pytest

from stratalog.metadata.coordination import Now
from stratalog.metadata.groups.group import GroupType
from stratalog.metadata.groups.offsets.expiry import OffsetExpiry
from stratalog.metadata.groups.offsets.pending_offsets import PendingOffsets
from stratalog.metadata.groups.offsets.records import NEVER, CommittedOffset, pack_offset
from stratalog.wire.topic import ZERO_UUID

RETENTION_MS = 1_000
COMMITTED_MS = 50_000
PLACE = ("g", "t", 0)


def group_like(**changes):
    """A group that is offsets alone, or what ``changes`` make of it."""
    topics = changes.pop("topics", ())
    values = {
        "group_id": "g",
        "type": GroupType.CLASSIC,
        "protocol_type": "",
        "state": "Empty",
        "empty_since_ms": -1,
        "subscribes": lambda topic: topic in topics,
    }
    return SimpleNamespace(**{**values, **changes})


def value(committed_ms=COMMITTED_MS, expires_ms=NEVER):
    return pack_offset(CommittedOffset(7, -1, "", committed_ms, expires_ms, ZERO_UUID))


@pytest.fixture
def look():
    """Looks at one group that holds an offset of t-0."""
    pending = PendingOffsets()

    def at(wall_ms, group, stored=None, expiry=None):
        machine = expiry or OffsetExpiry(RETENTION_MS)
        kept = {"g": {"t": {0: stored or value()}}}
        if expiry is None:
            machine.stored("g", kept["g"]["t"][0])
        expired, seen = machine.look({"g": group}, kept, pending, Now(0, wall_ms))
        assert seen == ["g"]
        return expired

    at.pending = pending
    return at


@pytest.mark.parametrize(
    "group",
    [
        group_like(),
        group_like(type=GroupType.CONSUMER, protocol_type="consumer", empty_since_ms=None),
        group_like(type=GroupType.CONSUMER, protocol_type="consumer", empty_since_ms=COMMITTED_MS + 5_000),
        group_like(protocol_type="consumer", empty_since_ms=None, state="Stable"),
        group_like(protocol_type="consumer", empty_since_ms=-1),
    ],
    ids=["offsets alone", "KIP-848", "KIP-848 empty", "with members", "empty since an unknown time"],
)
def test_offsets_age_since_their_commit_without_a_time_of_the_group(look, group):
    """Offsets age since their commit where the group does not tell since when it is empty."""
    assert look(COMMITTED_MS + RETENTION_MS - 1, group) == []
    assert look(COMMITTED_MS + RETENTION_MS, group) == [PLACE]


def test_offsets_of_a_classic_group_age_since_it_is_empty(look):
    """Offsets of a classic group age together since it is empty."""
    group = group_like(protocol_type="consumer", empty_since_ms=COMMITTED_MS + 5_000)
    assert look(COMMITTED_MS + 5_000 + RETENTION_MS - 1, group) == []
    assert look(COMMITTED_MS + 5_000 + RETENTION_MS, group) == [PLACE]


@pytest.mark.parametrize(
    ("protocol_type", "state"),
    [("consumer", "PreparingRebalance"), ("consumer", "CompletingRebalance"), ("connect", "Stable")],
)
def test_not_with_members(look, protocol_type, state):
    """No offset expires while the members' topics are unknown: in a rebalance, and of other kinds of clients."""
    assert look(1 << 50, group_like(protocol_type=protocol_type, state=state, empty_since_ms=None)) == []


def test_an_offset_with_a_reader_does_not_expire(look):
    """An offset with a reader does not expire; it may as soon as it has none."""
    expiry = OffsetExpiry(RETENTION_MS)
    group = group_like(type=GroupType.CONSUMER, topics=("t",))
    assert look(1 << 50, group, expiry=expiry) == []
    assert look(1 << 50, group_like(type=GroupType.CONSUMER), expiry=expiry) == [PLACE]


def test_an_unstable_offset_does_not_expire(look):
    """An offset that an open transaction may change does not expire."""
    look.pending.add(1, PLACE, value())
    assert look(1 << 50, group_like()) == []
    look.pending.end(1)
    assert look(1 << 50, group_like()) == [PLACE]


@pytest.mark.parametrize("since", [-1, COMMITTED_MS])
def test_a_retention_of_the_client_replaces_that_of_the_broker(look, since):
    """A time that the client has chosen counts instead of the broker's retention, before it and after."""
    group = group_like(protocol_type="consumer", empty_since_ms=since)
    early = value(expires_ms=COMMITTED_MS + 10)
    assert look(COMMITTED_MS + 9, group, early) == []
    assert look(COMMITTED_MS + 10, group, early) == [PLACE]
    late = value(expires_ms=COMMITTED_MS + 9_000)
    assert look(COMMITTED_MS + 8_999, group, late) == []
    assert look(COMMITTED_MS + 9_000, group, late) == [PLACE]


def test_a_clock_set_back_deletes_no_offset_early(look):
    """A clock that jumps back deletes nothing early, whether or not the group was looked at before."""
    expiry = OffsetExpiry(RETENTION_MS)
    group = group_like()
    assert look(COMMITTED_MS - 40_000, group, expiry=expiry) == []
    early = value(committed_ms=COMMITTED_MS - 40_000)
    expiry.stored("g", early)
    assert look(COMMITTED_MS - 40_000 + RETENTION_MS - 1, group, early, expiry) == []
    assert look(COMMITTED_MS - 40_000 + RETENTION_MS, group, early, expiry) == [PLACE]


def test_looked_at_before():
    """A group is not read again before something of it can expire."""
    expiry = OffsetExpiry(RETENTION_MS)
    read = []

    class Topics(dict):
        def items(self):
            read.append(1)
            return super().items()

    kept = {"g": Topics({"t": {0: value()}})}
    groups = {"g": group_like()}
    for wall_ms in (COMMITTED_MS, COMMITTED_MS + 1, COMMITTED_MS + RETENTION_MS - 1):
        assert expiry.look(groups, kept, PendingOffsets(), Now(0, wall_ms))[0] == []
    assert len(read) == 1
    assert expiry.look(groups, kept, PendingOffsets(), Now(0, COMMITTED_MS + RETENTION_MS))[0] == [PLACE]


def test_some_at_a_time():
    """Many groups take several calls; a group that went between two is passed over."""
    expiry = OffsetExpiry(RETENTION_MS)
    kept = {f"g{n}": {"t": dict.fromkeys(range(1_000), value())} for n in range(12)}
    groups = {name: group_like(group_id=name) for name in kept}
    seen = []
    found = expiry.look(groups, kept, PendingOffsets(), Now(0, COMMITTED_MS))
    assert expiry.under_way
    seen += found[1]
    gone = next(name for name in groups if name not in seen)
    del groups[gone]
    while expiry.under_way:
        seen += expiry.look(groups, kept, PendingOffsets(), Now(0, COMMITTED_MS))[1]
    assert sorted(seen) == sorted(groups)


def test_a_group_without_offsets_takes_no_memory():
    """A group without offsets leaves nothing behind."""
    expiry = OffsetExpiry(RETENTION_MS)
    expiry.stored("g", value(expires_ms=5))
    expiry.look({"g": group_like()}, {"g": {"t": {0: value(expires_ms=5)}}}, PendingOffsets(), Now(0, 0))
    expiry.forgotten("g")
    assert expiry._own_time == set()
    assert expiry._quiet_until == {}
