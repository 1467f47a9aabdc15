from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.entry_chain import Chain, choose_chain, without_abandoned


def ranges(chain):
    """The offsets of a chain's entries."""
    return [(entry.base, entry.end) for entry in chain.entries]


def test_neighbours_make_a_chain(make_entry):
    """In whatever order they come; nothing makes an empty one."""
    entries = [make_entry(0, 10), make_entry(10, 20), make_entry(20, 25)]
    assert choose_chain(entries[::-1]) == Chain(tuple(entries))
    assert choose_chain([]) == Chain()


def test_the_named_attempt_is_taken_before_that_of_the_later_leader(make_entry):
    """A zombie's upload at the same offset is the one of the lower epoch."""
    old, new, other = make_entry(0, 10, epoch=1), make_entry(0, 10, epoch=2), make_entry(0, 15, epoch=2)
    assert choose_chain([old, new]).entries == (new,)
    assert choose_chain([old, new], {old.uuid}).entries == (old,)
    assert choose_chain([old, new]).left_out == (old,)
    assert choose_chain([new, other]).entries == (other,)


def test_a_chain_never_goes_back_to_an_earlier_epoch(make_entry):
    """Entries that a fenced leader wrote behind the later one's data do not continue it."""
    first = make_entry(0, 10, epoch=5)
    stale = make_entry(10, 20, epoch=9, epochs=(LeaderEpoch(4, 10),))
    assert choose_chain([first, stale], {first.uuid}).entries == (first,)


def test_with_a_hole_the_run_that_reaches_the_known_end_is_taken(make_entry):
    """Even a short one: the log goes on there. Without a known end, the one with more of what was named."""
    before, after = [make_entry(0, 10), make_entry(10, 90)], [make_entry(95, 100)]
    assert ranges(choose_chain(before + after, end=100)) == [(95, 100)]
    assert choose_chain(before + after, end=100).gaps == ((90, 95),)
    assert ranges(choose_chain(before + after)) == [(0, 10), (10, 90)]
    assert ranges(choose_chain(before + after, {after[0].uuid})) == [(95, 100)]


def test_a_history_that_was_left_is_known_by_its_epochs(make_entry):
    """A later leader went on below its end. An object that only brings older data together stays."""
    kept = [make_entry(0, 10, epoch=1), make_entry(10, 20, epoch=7), make_entry(20, 30, epoch=8)]
    left = [make_entry(10, 20, epoch=1), make_entry(20, 50, epoch=3), make_entry(5, 12, epoch=2)]
    assert without_abandoned([*left, *kept]) == kept
    merged = make_entry(0, 20, epoch=9, epochs=(LeaderEpoch(1, 0), LeaderEpoch(7, 10)))
    assert without_abandoned([merged, *kept]) == [merged, *kept]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12), st.integers(0, 3)), max_size=12))
def test_every_chain_is_one_run_of_given_entries(rows):
    """Neighbours without hole or overlap, epochs that do not fall, each candidate taken or left out."""
    from stratalog.tier.manifests.entry import Entry

    entries = [
        Entry(
            number.to_bytes(16, "big"), base, base + length, epoch, f"key{number}", 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, length,
            epochs=(LeaderEpoch(epoch, base),),
        )
        for number, (base, length, epoch) in enumerate(rows)
    ]  # fmt: skip
    chain = choose_chain(entries)
    assert all(a.end == b.base and a.epoch <= b.epoch for a, b in zip(chain.entries, chain.entries[1:], strict=False))
    assert sorted(e.uuid for e in (*chain.entries, *chain.left_out)) == sorted(e.uuid for e in entries)
    assert bool(chain.entries) == bool(entries)
