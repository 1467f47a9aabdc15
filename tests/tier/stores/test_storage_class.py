"""Storage classes on their way into a store."""

from __future__ import annotations

import logging
import uuid
from typing import Any

import pytest

from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.storage_class import class_metadata, split_storage_class
from stratalog.tier.stores.store import STORAGE_CLASS


def test_the_class_is_taken_out_of_the_metadata() -> None:
    """And becomes S3's parameter."""
    assert split_storage_class({"a": "b", STORAGE_CLASS: "STANDARD_IA"}) == (
        {"a": "b"},
        {"StorageClass": "STANDARD_IA"},
    )
    assert split_storage_class({"a": "b"}) == ({"a": "b"}, {})


def test_other_stores_ignore_it_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Three objects put in a store without storage classes give one warning in the log."""
    store = MemoryStore(f"memory:{uuid.uuid4()}")
    with caplog.at_level(logging.WARNING):
        assert [class_metadata(store, "STANDARD_IA") for _ in range(3)] == [None] * 3
    assert [record.message for record in caplog.records if "has no storage classes" in record.message] == [
        (
            f"{store.url} has no storage classes: stratalog.storage.class=STANDARD_IA is ignored there; set it to the empty "
            "text to say so"
        )
    ]
    assert class_metadata(store, "") is None


@pytest.mark.parametrize("size_bytes", [10, 6 << 20])
def test_s3_puts_objects_into_the_class(s3_service: Any, size_bytes: int) -> None:
    """By one PUT and by parts; the name is not kept as metadata."""
    if not s3_service.is_moto:
        pytest.skip("not every service has this class")
    store = s3_service.open(f"class-{size_bytes}", single_put_bytes_max=5 << 20)
    metadata = class_metadata(store, "STANDARD_IA")
    store.put_large("large", b"x" * size_bytes, part_bytes=5 << 20, metadata=metadata)
    store.put_if_absent("small", b"x", metadata=metadata)
    store.put("plain", b"x", metadata=class_metadata(store, ""))
    client = s3_service.open().inner.client
    heads = {
        name: client.head_object(Bucket="stratalog", Key=f"class-{size_bytes}/{name}")
        for name in ("large", "small", "plain")
    }
    assert {name: head.get("StorageClass") for name, head in heads.items()} == {
        "large": "STANDARD_IA",
        "small": "STANDARD_IA",
        "plain": None,
    }
    assert all(STORAGE_CLASS not in head["Metadata"] for head in heads.values())
