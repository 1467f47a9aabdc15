"""Texts of settings as typed values, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.settings.catalogue.types import ConfigError, ConfigType, Password, format_value, parse_value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.INT, " -2147483648", -(1 << 31)),
        (ConfigType.SHORT, "+32767", 32767),
        (ConfigType.LONG, "9223372036854775807", (1 << 63) - 1),
        (ConfigType.DOUBLE, ".5d", 0.5),
        (ConfigType.STRING, " a b ", "a b"),
        (ConfigType.CLASS, "org.example.Thing", "org.example.Thing"),
        (ConfigType.LIST, " a ,b,c ", ("a", "b", "c")),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, "a,,b", ("a", "", "b")),
        (ConfigType.PASSWORD, " s3cret ", Password(" s3cret ")),
    ],
)
def test_texts_are_read_as_kafka_reads_them(kind, text, value):
    """Surrounding blanks go, except in a password; an empty text is an empty list."""
    assert parse_value("some.name", kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.INT, "1_000", "Not a number of type INT"),
        (ConfigType.INT, "\u0661", "Not a number of type INT"),
        (ConfigType.SHORT, "32768", "Not a number of type SHORT"),
        (ConfigType.LONG, "1.5", "Not a number of type LONG"),
        (ConfigType.LONG, "9" * 10_000, "Not a number of type LONG"),
        (ConfigType.DOUBLE, "half", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "1_0", "Not a number of type DOUBLE"),
    ],
)
def test_a_text_of_the_wrong_type_is_refused_with_kafkas_sentence(kind, text, why):
    """The sentence names value, setting and reason as Kafka's ConfigException does."""
    with pytest.raises(ConfigError) as caught:
        parse_value("some.name", kind, text)
    assert str(caught.value) == f"Invalid value {text} for configuration some.name: {why}"


def test_a_null_value_is_written_out_in_the_sentence():
    """Kafka prints null, not the name another language gives it."""
    assert str(ConfigError.of("a", None)) == "Invalid value null for configuration a"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (7, "7"),
        (("a", "b"), "a,b"),
        ((), ""),
        (0.0, "0.0"),
        (0.5, "0.5"),
        (1e-5, "1.0E-5"),
        (12345678.0, "1.2345678E7"),
        (-2.5e20, "-2.5E20"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_values_are_printed_as_java_prints_them(value, text):
    """Doubles take an exponent below a thousandth and from ten million on."""
    assert format_value(value) == text


def test_a_password_is_never_printed():
    """Neither str nor repr nor a formatted value shows the secret."""
    password = Password("s3cret")
    assert "s3cret" not in f"{password} {password!r} {format_value(password)}"


@given(st.floats(allow_nan=False))
def test_every_double_survives_its_text(value):
    """The printed text parses to the same number."""
    text = format_value(value)
    assert text is not None
    assert parse_value("d", ConfigType.DOUBLE, text) == value


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_every_long_survives_its_text(value):
    """The printed text parses to the same number."""
    assert parse_value("n", ConfigType.LONG, str(value)) == value
