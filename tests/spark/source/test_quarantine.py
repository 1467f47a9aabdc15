"""Documents about what was left out."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.spark.source.quarantine import BAD_RECORDS_DDL, BadRange, Quarantine
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.wire.errors import Corrupt

FOUND = BadRange("orders", 3, 500, 510, "file:///srv/archive", "topics/x/00000000.seg", 4096, 812, "CRC")


@given(
    found=st.builds(
        BadRange,
        st.text(max_size=9),
        st.integers(0, 9),
        st.integers(0, 1 << 62),
        st.integers(0, 1 << 62),
        st.text(max_size=9),
        st.text(max_size=9),
        st.none() | st.integers(0, 1 << 40),
        st.none() | st.integers(0, 1 << 40),
        st.text(max_size=30),
    )
)
def test_a_document_says_all_of_a_range(found: BadRange) -> None:
    """In one line, with the names of the columns that it is read by."""
    raw = found.to_bytes()
    assert raw.count(b"\n") == 1
    assert BadRange.from_bytes(raw, "x") == found
    assert len(BAD_RECORDS_DDL.split(", ")) == len(found)


def test_the_same_damage_is_one_document(caplog: pytest.LogCaptureFixture) -> None:
    """A range of damage found twice is stored once; each finding is a warning."""
    quarantine = Quarantine(MemoryStore("memory:bad"))
    with caplog.at_level(logging.WARNING):
        quarantine.add(FOUND)
        quarantine.add(FOUND)
        quarantine.add(FOUND._replace(partition=4))
    assert sorted(quarantine.ranges()) == [FOUND, FOUND._replace(partition=4)]
    assert caplog.text.count("orders-3: offsets 500 to 509 are left out") == 2


def test_a_foreign_document_is_refused() -> None:
    """It names the document."""
    store = MemoryStore("memory:bad")
    store.put("bad-x.json", b"{}")
    with pytest.raises(Corrupt, match=r"bad-x\.json does not tell of bad records"):
        list(Quarantine(store).ranges())
