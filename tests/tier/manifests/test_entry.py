from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.manifests.entry import Entry, LeaderEpoch, entry_from_fields, entry_to_fields
from stratalog.wire.errors import Corrupt

FOLDER = "topics/t-x/0000000000/"
numbers = st.integers(0, 2**63 - 1)
offsets = st.tuples(numbers, numbers).filter(lambda pair: pair[0] != pair[1]).map(sorted)


@st.composite
def entries(draw):
    """Any entry that makes sense."""
    base, end = draw(offsets)
    data_bytes, size_bytes = sorted(draw(st.tuples(numbers, numbers)))
    return Entry(
        uuid=draw(st.binary(min_size=16, max_size=16)),
        base=base,
        end=end,
        epoch=draw(numbers),
        key=draw(st.sampled_from([FOLDER + "seg/a.seg", "elsewhere/b.seg"])),
        size_bytes=size_bytes,
        data_bytes=data_bytes,
        **{
            name: draw(numbers)
            for name in (
                "crc32c", "data_crc32c", "chunks_position", "chunks_bytes", "min_timestamp_ms", "max_timestamp_ms",
                "max_timestamp_offset", "batch_count", "record_count", "control_batch_count", "aborted_count",
                "sealed_ms", "uploaded_ms", "broker_id",
            )
        },
        codecs=tuple(draw(st.lists(st.sampled_from(["none", "gzip", "zstd"]), max_size=2))),
        epochs=tuple(draw(st.lists(st.builds(LeaderEpoch, numbers, numbers), max_size=3))),
        compacted=draw(st.booleans()),
        unknown=draw(st.sampled_from([(), (("colour", '"red"'),)])),
    )  # fmt: skip


@pytest.mark.story
@given(entries())
def test_an_entry_survives_its_json(entry):
    """Also one whose object lies elsewhere in the bucket, and with fields of a newer writer."""
    fields = json.loads(json.dumps(entry_to_fields(entry, FOLDER)))
    assert entry_from_fields(fields, FOLDER) == entry


def test_keys_are_written_short_and_read_whole(make_entry, log_bytes):
    """A location is relative to the manifest's folder, or begins with a slash: it is never recomputed."""
    folder = log_bytes.partition.prefix
    entry = make_entry(0, 10)
    assert entry_to_fields(entry, folder)["loc"].startswith("seg/")
    moved = make_entry(0, 10, key="other/place.seg")
    assert entry_to_fields(moved, folder)["loc"] == "/other/place.seg"
    assert entry_from_fields(entry_to_fields(moved, folder), folder).key == "other/place.seg"


@pytest.mark.parametrize(
    "change",
    [
        {"base": 10},
        {"base": -1},
        {"data_len": 10**9},
        {"uuid": "x"},
        {"size": "1"},
        {"loc": None},
        {"epochs": [[1]]},
        {"epochs": 5},
    ],
)
def test_an_entry_that_makes_no_sense_is_corrupt(make_entry, log_bytes, change):
    """Empty ranges, negative offsets, more data than object, and wrong types are refused."""
    fields = {**entry_to_fields(make_entry(0, 10), log_bytes.partition.prefix), **change}
    with pytest.raises(Corrupt):
        entry_from_fields(fields, log_bytes.partition.prefix)
