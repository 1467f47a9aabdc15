"""Money by the table in the file."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from stratalog.tier.planning.prices import NOTHING_USED, Usage, price_table, read_price_tables
from stratalog.wire.errors import Invalid

GIB = 1 << 30


def test_requests_and_bytes_have_their_prices() -> None:
    """Lists are charged as writes, deletes by their own price; bytes by the store's own GB."""
    tables = read_price_tables(
        "[mine]\nwrite_per_1000 = 5.0\nread_per_1000 = 2\ndelete_per_1000 = 1\nread_per_gb = 3\n"
        "written_per_gb = 7\nstored_per_gb_month = 0.5\ngb_bytes = 1000\n"
    )
    mine = tables["mine"]
    assert mine.cost(Usage(reads=1000)) == 2
    assert mine.cost(Usage(writes=1000, lists=1000, deletes=1000)) == 11
    assert mine.cost(Usage(received_bytes=2000, sent_bytes=1000)) == 13
    assert mine.cost_of_month(2000) == 1
    assert mine.cost(NOTHING_USED) == 0


def test_usage_adds_up() -> None:
    """Field by field."""
    assert Usage(1, 2, 3, 4, 5, 6) + Usage(10, 20, 30, 40, 50, 60) == Usage(11, 22, 33, 44, 55, 66)
    assert not NOTHING_USED
    assert Usage(lists=1)


def test_a_table_is_found_by_url_and_class() -> None:
    """The first that fits; none for stores without prices or not in the table."""
    tables = read_price_tables()
    found = price_table(tables, "s3://bucket/prefix")
    assert found is not None
    assert found.name == "aws-s3-standard"
    assert found.cost(Usage(reads=1_000_000)) == pytest.approx(0.4)
    assert price_table(tables, "s3://bucket", "STANDARD") == found
    assert price_table(tables, "s3://bucket", "STANDARD_IA") is None
    assert price_table(tables, "file:///srv") is None
    assert price_table(tables, "abfs://container") is None
    assert price_table(tables, "file:///srv", name="gcs-standard") == tables["gcs-standard"]


def test_a_users_table_comes_first() -> None:
    """Under a new name for the same scheme, or under a known name."""
    mine = '[contract]\nschemes = ["s3"]\nread_per_1000 = 1\n[gcs-standard]\nread_per_1000 = 9\n'
    tables = read_price_tables(mine)
    found = price_table(tables, "s3://bucket")
    assert found is not None
    assert found.name == "contract"
    assert tables["gcs-standard"].read_per_1000 == 9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", "my.toml is not TOML"),
        ("x = 1", "my.toml: x is no table"),
        ("[x]\nreads = 1", "has no field 'reads'; known are title, currency"),
        ("[x]\nread_per_1000 = '1'", "read_per_1000 of \\[x\\] is a number"),
        ("[x]\nread_per_1000 = -1", "not negative"),
        ("[x]\ngb_bytes = 0", "gb_bytes"),
        ("[x]\nschemes = 's3'", "must be a list of words"),
        ("[x]\ntitle = 1", "must be a word"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(text: str, message: str) -> None:
    """File, table and field."""
    with pytest.raises(Invalid, match=message):
        read_price_tables(text, "my.toml")


def test_an_unknown_name_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(Invalid, match="there are aws-s3-standard"):
        price_table(read_price_tables(), "s3://b", name="nope")


def test_every_price_that_we_ship_names_its_source_and_date() -> None:
    """Each table has an address in a comment, and a date there or above."""
    text = (files("stratalog.tier.planning") / "prices.toml").read_text("utf-8")
    for table in re.split(r"^\[", text, flags=re.MULTILINE)[1:]:
        comments = " ".join(line for line in table.splitlines() if line.startswith("#"))
        assert "https://" in comments or "the same page" in comments, table
    assert "2026" in text
