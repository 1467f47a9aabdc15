from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.manifests.parts import HistoryRef, Job, PageRef, Pin, Totals, TrashEntry
from stratalog.tier.manifests.parts_json import (
    history_from_fields,
    history_to_fields,
    job_from_fields,
    job_to_fields,
    page_from_fields,
    page_to_fields,
    pin_from_fields,
    pin_to_fields,
    trash_from_fields,
    trash_to_fields,
)
from stratalog.wire.errors import Corrupt

FOLDER = "topics/t-x/0000000001/"
NUMBERS = st.integers(0, 1 << 53)
KEYS = st.sampled_from([FOLDER + "seg/a.seg", "elsewhere/b.seg"])
UUIDS = st.binary(min_size=16, max_size=16)


@st.composite
def pages(draw):
    """References with and without dead entries."""
    first, length, count = draw(NUMBERS), draw(st.integers(2, 1000)), draw(st.integers(2, 100))
    dead = draw(st.integers(0, count - 1))
    live_first = first + draw(st.integers(1, length - 1)) if dead else first
    totals = Totals(count - dead, draw(NUMBERS), draw(NUMBERS))
    rest = [draw(NUMBERS) for _ in range(6)]
    return PageRef(
        draw(KEYS), first, first + length, rest[0], count, rest[1], rest[2], totals, rest[3], rest[4], rest[5], 7,
        live_first, 9, dead,
    )  # fmt: skip


@given(pages())
def test_a_page_reference_survives_its_fields(page):
    """Through JSON, with dead entries and without."""
    assert page_from_fields(json.loads(json.dumps(page_to_fields(page, FOLDER))), FOLDER) == page


@given(
    st.builds(TrashEntry, KEYS, NUMBERS, NUMBERS, NUMBERS, st.text(), NUMBERS, st.sampled_from(["", "page"]), NUMBERS)
)
def test_a_trash_entry_survives_its_fields(item):
    """Those of objects and those of pages."""
    assert trash_from_fields(json.loads(json.dumps(trash_to_fields(item, FOLDER))), FOLDER) == item


@given(st.builds(Job, UUIDS, st.text(), NUMBERS, NUMBERS, st.lists(UUIDS, max_size=3).map(tuple)))
def test_a_job_survives_its_fields(job):
    """With any number of inputs."""
    assert job_from_fields(json.loads(json.dumps(job_to_fields(job)))) == job


@given(st.builds(Pin, st.text(), NUMBERS, NUMBERS, NUMBERS, NUMBERS), st.builds(HistoryRef, NUMBERS, KEYS, st.text()))
def test_pins_and_history_survive_their_fields(pin, history):
    """And what a newer writer put into them."""
    fields = pin_to_fields(pin) | {"later": [1]}
    assert pin_to_fields(pin_from_fields(fields)) == fields
    fields = history_to_fields(history, FOLDER) | {"later": {}}
    assert history_to_fields(history_from_fields(fields, FOLDER), FOLDER) == fields


@pytest.mark.parametrize(
    "change",
    [
        {"end": 5},
        {"start": 4},
        {"start": 10},
        {"dead": 3},
        {"dead": -1},
        {"entries": "3"},
        {"loc": None},
        {"first": -1},
    ],
)
def test_impossible_pages_are_corrupt(change):
    """An empty range, a live start outside, nothing left, other types."""
    page = PageRef(
        FOLDER + "p", 5, 10, 1, 3, 1, 1, Totals(), 0, 0, 0, 0, live_first=6, front_timestamp_ms=0, dead_count=1
    )
    with pytest.raises(Corrupt):
        page_from_fields(page_to_fields(page, FOLDER) | change, FOLDER)
