"""Errors become words and exit codes; rows become tables or JSON lines."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.settings.config import ConfigRefused
from stratalog.cli.output import (
    EXIT_CODE_TEXTS,
    ExitCode,
    HttpUnanswered,
    NotFoundError,
    bytes_text,
    exit_code_of,
    json_text,
    reports_errors,
    write_rows,
)
from stratalog.client.client import BrokerTimeout, BrokerUnavailable
from stratalog.tier.stores.store import NotFound
from stratalog.wire.errors import Corrupt, ErrorCode, Invalid, KafkaError, Unknown

COLUMNS = {"name": "NAME", "count": "COUNT"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Corrupt("x"), ExitCode.FAILED),
        (OSError(28, "No space left on device"), ExitCode.FAILED),
        (KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS), ExitCode.FAILED),
        (ConfigRefused(["x"]), ExitCode.USAGE),
        (NotFoundError("x"), ExitCode.NOT_FOUND),
        (NotFound("get", "key", "url", "gone"), ExitCode.NOT_FOUND),
        (FileNotFoundError(2, "No such file", "x"), ExitCode.NOT_FOUND),
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ExitCode.NOT_FOUND),
        (Unknown("x"), ExitCode.NOT_FOUND),
        (Invalid("x"), ExitCode.USAGE),
        (BrokerUnavailable("x"), ExitCode.UNHEALTHY),
        (HttpUnanswered("x"), ExitCode.UNHEALTHY),
        (KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS), ExitCode.UNHEALTHY),
        (BrokerTimeout("x"), ExitCode.TIMEOUT),
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT), ExitCode.TIMEOUT),
    ],
)
def test_each_error_has_its_exit_code(error, code, capsys) -> None:
    """And one line on stderr, none on stdout."""
    assert exit_code_of(error) == code

    @reports_errors
    def command() -> None:
        raise error

    with pytest.raises(SystemExit) as caught:
        command()
    assert caught.value.code == code
    shown = capsys.readouterr()
    assert shown.err.startswith("Error: ")
    assert len(shown.err.splitlines()) == 1
    assert shown.out == ""


def test_errors_of_ours_are_not_swallowed() -> None:
    """A bug shows its trace."""

    @reports_errors
    def command(error: Exception) -> None:
        raise error

    with pytest.raises(ValueError, match="bug"):
        command(ValueError("bug"))


def test_every_exit_code_is_documented() -> None:
    """The manual's table is made from these."""
    assert set(EXIT_CODE_TEXTS) == set(ExitCode)


def test_rows_are_aligned_text_in_a_pipe(capsys) -> None:
    """Numbers to the right, no rules, no colours, no trailing blanks."""
    write_rows([{"name": "a", "count": 5}, {"name": "bcdef", "count": None}], COLUMNS, as_json=False)
    assert capsys.readouterr().out == "NAME   COUNT\na          5\nbcdef      -\n"


def test_rows_are_a_ruled_table_on_a_terminal(capsys, monkeypatch) -> None:
    """Names that look like markup stay as they are; NO_COLOR is honoured."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    write_rows([{"name": "[red]x", "count": True}], COLUMNS, as_json=False)
    out = capsys.readouterr().out
    assert "[red]x" in out
    assert "yes" in out
    assert "\x1b[3" not in out


def test_rows_are_one_json_object_a_line(capsys) -> None:
    """Whole, also what the table leaves out."""
    write_rows([{"name": "a", "count": [1], "more": None}, {"name": "b"}], COLUMNS, as_json=True)
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [{"name": "a", "count": [1], "more": None}, {"name": "b"}]


@given(st.binary(max_size=10))
def test_any_bytes_are_json(data) -> None:
    """Text where they are UTF-8, base64 otherwise."""
    import base64

    shown = json.loads(json_text({"x": data}))["x"]
    assert (base64.b64decode(shown["base64"]) if isinstance(shown, dict) else shown.encode()) == data


@pytest.mark.parametrize(
    ("size", "text"),
    [(None, "-"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 30, "1.0 GiB"), (1 << 50, "1024.0 TiB")],
)
def test_sizes_are_readable(size, text) -> None:
    """One digit behind the point."""
    assert bytes_text(size) == text
