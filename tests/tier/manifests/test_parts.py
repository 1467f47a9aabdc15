from __future__ import annotations

from stratalog.tier.manifests.parts import NOBODY, Claimant, Totals, totals_of


def test_totals_add_up(make_entry):
    """And can be taken apart again."""
    entries = [make_entry(0, 10, size_bytes=5, record_count=2), make_entry(10, 20, size_bytes=7, record_count=3)]
    assert totals_of(entries) == Totals(2, 12, 5)
    assert totals_of(entries[:1]).plus(totals_of(entries[1:])) == totals_of(entries)
    assert totals_of(entries).minus(totals_of(entries[:1])) == totals_of(entries[1:])


def test_claims_are_ranked_by_incarnation_then_epoch():
    """For any broker; the empty claimant is below all others."""
    assert NOBODY.rank < Claimant(0, 5, bytes(16)).rank < Claimant(1, 0, bytes(16)).rank
    assert "incarnation 1, leader epoch 2, broker 3" in Claimant(1, 2, bytes(16), 3).words
