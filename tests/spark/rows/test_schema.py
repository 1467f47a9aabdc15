"""The columns, on Spark's side and on Arrow's."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stratalog.spark.rows.schema import COLUMNS, arrow_schema, check_columns, spark_ddl
from stratalog.wire.errors import Invalid


def test_both_sides_are_equal_under_pysparks_own_conversion(in_arrow: Any) -> None:
    """Spark accepts an Arrow batch only if its schema is exactly what it would make itself."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    types = [
        BinaryType(),
        BinaryType(),
        StringType(),
        IntegerType(),
        LongType(),
        TimestampType(),
        IntegerType(),
        ArrayType(header),
    ]
    schema = StructType([StructField(name, kind) for name, kind in zip(COLUMNS, types, strict=True)])
    assert in_arrow(schema).equals(arrow_schema(COLUMNS))
    assert check_columns([(each.name, each.dataType.simpleString()) for each in schema.fields]) == COLUMNS
    required = StructType([StructField("offset", LongType(), nullable=False)])
    assert in_arrow(required).equals(arrow_schema(["offset"], {"offset"}))


def test_ddl_names_the_columns_in_order() -> None:
    """The schema of a narrowed read is a DDL string."""
    assert spark_ddl(["offset", "value"]) == "`offset` bigint, `value` binary"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([("vaule", "binary")], "no column 'vaule'"),
        ([("value", "string")], "'value' has type binary, the given schema says string"),
        ([("offset", "bigint"), ("offset", "bigint")], "names a column twice"),
        ([], "no column"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(fields: list[tuple[str, str]], message: str) -> None:
    """A user's schema may leave columns out, not change them."""
    with pytest.raises(Invalid, match=message):
        check_columns(fields)


def test_decoded_columns_have_types_of_their_own() -> None:
    """In DDL, in Arrow, and where a user's schema is checked, in which nothing is quoted."""
    decoded = {"value": pa.struct([("a b", pa.int32())]), "valueError": pa.string()}
    assert spark_ddl(["offset", "value"], decoded) == "`offset` bigint, `value` struct<`a b`:int>"
    assert arrow_schema(["value", "key"], ["key"], decoded).types == [decoded["value"], pa.binary()]
    assert check_columns([("valueError", "string"), ("value", "struct<a b:int>")], decoded) == ("valueError", "value")
    with pytest.raises(Invalid, match="column 'value' has type struct<a b:int>, the given schema says binary"):
        check_columns([("value", "binary")], decoded)
    with pytest.raises(Invalid, match="there is no column 'valueError'"):
        check_columns([("valueError", "string")])
