"""Keys land where Kafka's Java client puts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as reference_murmur2

from stratalog.broker.partitioner import murmur2, partition_of_key


@pytest.mark.parametrize(("carrier", "partition"), [(b"AA", 3), (b"UA", 4), (b"DL", 5), (b"B6", 0)])
def test_carriers_land_where_java_puts_them(carrier: bytes, partition: int) -> None:
    """Four keys of the flights, over six partitions."""
    assert partition_of_key(carrier, 6) == partition


@pytest.mark.parametrize(
    ("text", "signed"),
    [("21", -973932308), ("foobar", -790332482), ("a-little-bit-long-string", -985981536), ("abc", 479470107)],
)
def test_hashes_are_those_of_kafkas_own_test(text: str, signed: int) -> None:
    """Values that Kafka's UtilsTest asserts, as signed integers."""
    assert murmur2(text.encode()) == signed & 0xFFFFFFFF


@given(st.binary(max_size=40))
def test_any_key_hashes_as_kafka_python_hashes_it(key: bytes) -> None:
    """An independent implementation agrees, for every length modulo four."""
    assert murmur2(key) == reference_murmur2(key)
