"""Contents of an archive, as lists."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from stratalog.spark.frames.segment_list import SEGMENT_SCHEMA, list_folder, segments_table
from stratalog.spark.source.archive import load_partitions
from stratalog.spark.source.options import Subscription
from stratalog.wire.errors import Invalid

Batches = Callable[..., bytes]


@pytest.fixture
def archives(memory_archive: Any, batches: Batches) -> Any:
    """Topic ``orders`` with two partitions, three objects; topic ``clicks`` with one."""
    memory_archive.add("orders", 0, batches(0, 20), batches(20, 30))
    memory_archive.add("orders", 1, batches(0, 15))
    memory_archive.add("clicks", 0, batches(0, 10), topic_id=b"c" * 16)
    return load_partitions(memory_archive.store, Subscription(pattern=re.compile(".*")))


def test_every_object_is_a_row(archives: Any) -> None:
    """With what the manifest says of it, by topic, partition and offset."""
    table = segments_table(archives)
    assert table.schema == SEGMENT_SCHEMA
    rows = table.to_pylist()
    assert [(row["topic"], row["partition"], row["start_offset"], row["end_offset"]) for row in rows] == [
        ("clicks", 0, 0, 10), ("orders", 0, 0, 20), ("orders", 0, 20, 50), ("orders", 1, 0, 15),
    ]  # fmt: skip
    entry = archives[1].entries[0]
    assert rows[1]["bytes"] == entry.size_bytes
    assert rows[1]["records"] == 20
    assert rows[1]["key"] == entry.key
    assert rows[1]["min_timestamp"] == datetime.fromtimestamp(1000, UTC)
    assert rows[1]["uploaded"] is None


def test_an_empty_archive_is_a_table_without_rows() -> None:
    """With the same columns."""
    assert segments_table([]).schema == SEGMENT_SCHEMA
    assert segments_table([]).num_rows == 0


def test_folders_are_listed_one_level_at_a_time(archives: Any) -> None:
    """Topics, partitions, objects; a folder's size is that of all below it."""
    names = [[each["name"] for each in list_folder(archives, path)] for path in ("", "orders/", "/orders/0")]
    assert names[0] == ["clicks", "orders"]
    assert names[1] == ["orders/0", "orders/1"]
    assert names[2] == [
        "orders/0/00000000000000000000-00000000000000000020.seg",
        "orders/0/00000000000000000020-00000000000000000050.seg",
    ]
    total = sum(entry.size_bytes for archive in archives[1:] for entry in archive.entries)
    assert list_folder(archives, "")[1] == {"name": "orders", "type": "directory", "size": total}
    one = list_folder(archives, names[2][1])
    assert one == list_folder(archives, "orders/0")[1:]
    assert (one[0]["type"], one[0]["size"], one[0]["key"]) == (
        "file",
        archives[1].entries[1].size_bytes,
        archives[1].entries[1].key,
    )


@pytest.mark.parametrize("path", ["nope", "orders/7", "orders/0/x.seg", "orders/0/x/y"])
def test_a_path_that_is_not_there_is_reported(archives: Any, path: str) -> None:
    """As what it was asked for."""
    with pytest.raises(Invalid, match=f"'{path}' is not in the archive"):
        list_folder(archives, path)
