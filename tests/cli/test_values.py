"""Texts of the command line become values, and records become text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.cli.output import json_text
from stratalog.cli.values import (
    parse_header,
    parse_json_record,
    parse_time_ms,
    record_format,
    record_json,
    setting_value,
    time_text,
)
from stratalog.wire.batch import Header, Record
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

ORDERS = TopicPartition("orders", 3)
RECORD = Record(42, 1372896000000, b"key", b"value", (Header("a", b"1"), Header("b", None)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1372896000000", 1372896000000),
        ("-1", -1),
        ("2013-07-04", 1372896000000),
        ("2013-07-04T00:00:00Z", 1372896000000),
        ("2013-07-04T02:00:00.250+02:00", 1372896000250),
        ("1969-12-31T23:59:59.999", -1),
    ],
)
def test_a_time_is_a_number_or_iso_8601(text, expected) -> None:
    """Without a zone it is UTC."""
    assert parse_time_ms(text) == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("retention.ms", "7d", "604800000"),
        ("local.retention.bytes", "2MiB", "2097152"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "soon", "soon"),
        ("cleanup.policy", "1d", "1d"),
    ],
)
def test_a_setting_of_time_or_size_may_have_a_unit(name, text, expected) -> None:
    """Any other text goes to the broker as it is, and the broker judges it."""
    assert setting_value(name, text) == expected


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_time_ms, "yesterday"),
        (parse_time_ms, "2013-13-01"),
        (parse_time_ms, "9223372036854775808"),
        (parse_header, "=x"),
    ],
)
def test_unreadable_input_is_refused_with_an_example(parse, text) -> None:
    """Never guessed."""
    with pytest.raises(Invalid):
        parse(text)


def test_a_header_is_a_name_and_a_value() -> None:
    """An equals sign in the value stays; no equals sign is null."""
    assert parse_header("a=b=c") == Header("a", b"b=c")
    assert parse_header("a=") == Header("a", b"")
    assert parse_header("a") == Header("a", None)


def test_a_json_line_gives_the_fields_it_has() -> None:
    """Objects and numbers as values become JSON text; headers are an object or pairs; other fields are not there."""
    assert parse_json_record(b'{"value": {"delay": 12}, "key": "UA", "headers": {"a": "1"}}', 1) == {
        "value": b'{"delay":12}',
        "key": b"UA",
        "headers": (Header("a", b"1"),),
    }
    assert parse_json_record(b'{"value": null, "partition": 2, "timestamp": "2013-07-04"}', 1) == {
        "value": None,
        "partition": 2,
        "timestamp": 1372896000000,
    }


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{",
        b'{"values": 1}',
        b'{"key": {"base64": "!"}}',
        b'{"headers": 5}',
        b'{"headers": {"\\ud800": "x"}}',
        b'{"timestamp": "x"}',
        b'{"timestamp": 9223372036854775808}',
        b'{"partition": 1.7}',
        b'{"partition": true}',
        b'{"partition": -1}',
        b'{"value": ' + b"[" * 100_000,
        b"\xff",
    ],
)
def test_a_line_that_is_no_record_is_named_by_number(line) -> None:
    """So that it is found in a long file."""
    with pytest.raises(Invalid, match="line 7: "):
        parse_json_record(line, 7)


optional_bytes = st.none() | st.binary(max_size=8)
names = st.text(max_size=4) | st.binary(max_size=4).map(lambda name: name.decode("utf-8", "surrogateescape"))
records = st.builds(
    Record,
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**62),
    optional_bytes,
    optional_bytes,
    st.lists(st.builds(Header, names, optional_bytes), max_size=3).map(tuple),
)


@given(records)
def test_records_consumed_as_json_are_produced_as_they_were(record) -> None:
    """Any bytes: `consume --json | produce --input json` copies a topic."""
    line = json_text(record_json(ORDERS, record)).encode()
    fields = parse_json_record(line, 1)
    assert (fields["key"], fields["value"], fields["headers"]) == (record.key, record.value, record.headers)
    assert (fields["timestamp"], fields["partition"]) == (record.timestamp_ms, 3)
    assert json.loads(line)["offset"] == record.offset


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%s", b"value"),
        (r"%t/%p/%o %k=%s\n", b"orders/3/42 key=value\n"),
        (r"%T\t%K\t%S", b"1372896000000\t3\t5"),
        ("%h", b"a=1,b=NULL"),
        (r"100%% \\ \0", b"100% \\ \0"),
        ("", b""),
    ],
)
def test_a_format_prints_what_its_letters_say(text, expected) -> None:
    """kcat's letters and escapes."""
    assert record_format(text, b"NULL")(ORDERS, RECORD) == expected


def test_a_name_that_is_no_utf_8_is_printed_as_it_is() -> None:
    """Some clients write names in Latin-1."""
    record = Record(0, 0, None, None, (Header(b"gr\xf6\xdfe".decode("utf-8", "surrogateescape"), b"1"),))
    assert record_format("%h")(ORDERS, record) == b"gr\xf6\xdfe=1"


def test_null_is_printed_as_the_option_says() -> None:
    """Key and value; their sizes are -1."""
    assert record_format("%k %s %K %S", b"~")(ORDERS, Record(0, 0, None, None)) == b"~ ~ -1 -1"


@pytest.mark.parametrize("text", ["%x", "a\\q", "%", "100%", "\\"])
def test_an_unknown_letter_is_refused(text) -> None:
    """Also a sign at the end that announces one."""
    with pytest.raises(Invalid, match="means nothing"):
        record_format(text)


@given(st.integers(min_value=-(10**12), max_value=10**13))
def test_a_time_is_read_back_as_it_was_shown(timestamp_ms):
    """To the millisecond."""
    assert parse_time_ms(time_text(timestamp_ms)) == timestamp_ms
