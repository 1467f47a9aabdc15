"""Names in the target of a backfill."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stratalog.spark.ledger.layout import (
    checkpoint_key,
    day_folder,
    file_name,
    head_key,
    hour_folder,
    run_key,
    run_name,
    staging_prefix,
    topic_folder,
    value_folder,
)
from stratalog.tier.stores.store import validate_key

HOUR_US = 3_600_000_000


def test_files_are_named_by_topic_partition_and_offsets() -> None:
    """Twenty digits, so that names sort by offset; a rewrite has its run in the name."""
    assert file_name("orders", 3, 7, 99) == "orders+3+00000000000000000007+00000000000000000099.parquet"
    assert file_name("orders", 3, 7, 99, 12) == "orders+3+00000000000000000007+00000000000000000099+r12.parquet"


def test_no_topic_is_hidden() -> None:
    """Spark takes what begins with a dot or an underscore for no data; the longest name fits a file name."""
    assert topic_folder("orders") == "orders"
    assert topic_folder("_schemas") == "%5Fschemas"
    assert topic_folder(".x") == "%2Ex"
    longest = "_" + "t" * 248
    name = file_name(longest, 2**31 - 1, 2**63 - 2, 2**63 - 1, 10**9)
    validate_key("put", f"{topic_folder(longest)}/date=2013-07-04/{name}", "x")
    assert max(len(name), len(topic_folder(longest))) <= 255


def test_folders_of_time_are_in_utc() -> None:
    """Before 1970 too; a time that no calendar of four digits has goes where Spark looks for nulls."""
    assert day_folder(1_372_900_000_000_000) == "date=2013-07-04"
    assert day_folder(-1000) == "date=1969-12-31"
    assert hour_folder(HOUR_US * 31) == "date=1970-01-02/hour=07"
    assert hour_folder(-1) == "date=1969-12-31/hour=23"
    for far in (2**63 - 1, -(2**63), 253_402_300_800_000_000, -40_000_000_000_000_000):
        assert day_folder(far) == "date=__HIVE_DEFAULT_PARTITION__"
        assert hour_folder(far).endswith("hour=__HIVE_DEFAULT_PARTITION__")
    assert day_folder(253_402_300_799_999_999) == "date=9999-12-31"


def test_folders_of_values_are_escaped() -> None:
    """As Hive does it; null and empty have a name of their own."""
    assert value_folder("carrier", "AA") == "carrier=AA"
    assert value_folder("c", "a/b=c%") == "c=a%2Fb%3Dc%25"
    assert value_folder("c", "Zürich") == "c=Zürich"
    assert value_folder("c", None) == value_folder("c", "") == "c=__HIVE_DEFAULT_PARTITION__"
    assert value_folder("c", "x" * 120) == "c=" + "x" * 120


@pytest.mark.story
@given(st.text(min_size=100, max_size=300), st.text(min_size=1, max_size=3))
@example("x" * 121, "y")
@example("/" * 41, "a")
@example("ü" * 61, "a")
def test_folders_of_long_values_are_cut_and_differ(value: str, more: str) -> None:
    """Each has one of its own, in whole characters, that fits any file system."""
    folder, other = value_folder("c", value), value_folder("c", value + more)
    assert len(folder.encode()) <= len("c=") + 120
    assert folder != other
    assert value.startswith(unquote(folder.removeprefix("c=").rpartition("~")[0] or value[:0]))
    validate_key("put", f"t/{folder}/x.parquet", "x")


def test_everything_else_lies_out_of_sight() -> None:
    """Ledger, records, staged files."""
    name = run_name(12, "ab" * 16)
    keys = [head_key("_t"), run_key("_t", name), checkpoint_key("_t", name), staging_prefix("_t", name) + "x"]
    assert all(key.startswith("_stratalog/backfill/%5Ft/") for key in keys)
