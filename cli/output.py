"""Shared by every command: exit codes, tables, JSON lines, and the one place where errors become words and a code.

Results go to stdout and nothing else does; all that is said about them goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import wraps
from shutil import get_terminal_size
from typing import Any, Final, ParamSpec, TypeVar

import click

from stratalog.extras import MissingPackage, naming_extra
from stratalog.wire.errors import ErrorCode, Invalid, KafkaError, StratalogError, Unknown

__all__ = [
    "ExitCode",
    "HttpUnanswered",
    "NotFoundError",
    "bytes_text",
    "json_option",
    "json_text",
    "note",
    "raise_first",
    "reports_errors",
    "write_json",
    "write_rows",
]

P = ParamSpec("P")
R = TypeVar("R")
Row = Mapping[str, Any]


class ExitCode(IntEnum):
    """The exit codes of the process."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNHEALTHY = 4
    TIMEOUT = 5
    PIPE_CLOSED = 141
    """As of a program that SIGPIPE ends: 128 + 13."""


EXIT_CODE_TEXTS: Final = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "failed; stderr says why",
    ExitCode.USAGE: "wrong command, option, setting or configuration file",
    ExitCode.NOT_FOUND: "no such topic, partition, group, transaction, file or object",
    ExitCode.UNHEALTHY: "no broker answers, or it cannot serve now; of commands that check: something was found",
    ExitCode.TIMEOUT: "not done within the time given",
    ExitCode.PIPE_CLOSED: "the reader of stdout closed it, as `head` does: no failure",
}

_CODE_OF_ERROR: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ExitCode.NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_ID: ExitCode.NOT_FOUND,
    ErrorCode.RESOURCE_NOT_FOUND: ExitCode.NOT_FOUND,
    ErrorCode.LOG_DIR_NOT_FOUND: ExitCode.NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND: ExitCode.NOT_FOUND,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: ExitCode.NOT_FOUND,
    ErrorCode.VOTER_NOT_FOUND: ExitCode.NOT_FOUND,
    ErrorCode.REQUEST_TIMED_OUT: ExitCode.TIMEOUT,
    ErrorCode.BROKER_NOT_AVAILABLE: ExitCode.UNHEALTHY,
    ErrorCode.NOT_CONTROLLER: ExitCode.UNHEALTHY,
    ErrorCode.LEADER_NOT_AVAILABLE: ExitCode.UNHEALTHY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ExitCode.UNHEALTHY,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ExitCode.UNHEALTHY,
    ErrorCode.NOT_COORDINATOR: ExitCode.UNHEALTHY,
    ErrorCode.NOT_ENOUGH_REPLICAS: ExitCode.UNHEALTHY,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ExitCode.UNHEALTHY,
    ErrorCode.KAFKA_STORAGE_ERROR: ExitCode.UNHEALTHY,
}


class HttpUnanswered(StratalogError):
    """The broker's HTTP side did not answer, or could not do what was asked."""


class NotFoundError(StratalogError):
    """The thing that a command was asked about does not exist."""


def reports_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a command: what it raises on purpose becomes one line on stderr and the exit code that fits."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with naming_extra("this command"):
                return function(*args, **kwargs)
        except BrokenPipeError:
            # Python would write the rest of stdout once more at its end, and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(int(ExitCode.PIPE_CLOSED)) from None
        except (StratalogError, KafkaError, OSError, MissingPackage) as error:
            note(f"Error: {_words(error)}")
            raise SystemExit(int(exit_code_of(error))) from error

    return wrapped


def exit_code_of(error: Exception) -> ExitCode:
    """The exit code that stands for an error."""
    # Only a command that failed pays for these imports.
    from stratalog.client.client import BrokerTimeout, BrokerUnavailable
    from stratalog.tier.stores.store import NotFound

    if isinstance(error, KafkaError):
        return _CODE_OF_ERROR.get(ErrorCode(error.code), ExitCode.FAILED)
    kinds: tuple[tuple[type[Exception] | tuple[type[Exception], ...], ExitCode], ...] = (
        ((NotFoundError, NotFound, FileNotFoundError, Unknown), ExitCode.NOT_FOUND),
        (BrokerTimeout, ExitCode.TIMEOUT),
        ((BrokerUnavailable, HttpUnanswered), ExitCode.UNHEALTHY),
        (Invalid, ExitCode.USAGE),
    )
    return next((code for kind, code in kinds if isinstance(error, kind)), ExitCode.FAILED)


def raise_first(errors: Iterable[Exception]) -> None:
    """End a command that did for some of its names what it could not for others: with the first error, after the others."""
    found = list(errors)
    for error in found[1:]:
        note(f"Error: {_words(error)}")
    if found:
        raise found[0]


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def note(text: str) -> None:
    """Say something about the work; never part of the result."""
    click.echo(text, err=True)


def write_json(value: Any) -> None:
    """One JSON document on one line of stdout; bytes become text where they are UTF-8, else base64 under ``base64``."""
    click.echo(json_text(value))


def json_text(value: Any) -> str:
    """The text that `write_json` writes."""
    return json.dumps(value, default=_jsonable, ensure_ascii=False)


def _jsonable(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        try:
            return data.decode()
        except UnicodeDecodeError:
            import base64

            return {"base64": base64.b64encode(data).decode("ascii")}
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def write_rows(rows: Sequence[Row], columns: Mapping[str, str], *, as_json: bool) -> None:
    """Rows as JSON lines, or as a table of ``columns`` (key of the row: heading): ruled on a terminal, else aligned text."""
    if as_json:
        for row in rows:
            write_json(row)
        return
    cells = [[_cell(row.get(key)) for key in columns] for row in rows]
    numeric = [all(isinstance(row.get(key), int | None) for row in rows) for key in columns]
    if sys.stdout.isatty():
        from stratalog.cli.table import ruled_lines

        for line in ruled_lines(list(columns.values()), cells, numeric, get_terminal_size().columns):
            click.echo(line)
    else:
        _write_aligned(list(columns.values()), cells, numeric)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


def _write_aligned(headings: list[str], cells: list[list[str]], numeric: list[bool]) -> None:
    lines = [headings, *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    for line in lines:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())


def bytes_text(size_bytes: int | None) -> str:
    """A size for people: ``1.5 MiB``."""
    if size_bytes is None:
        return "-"
    size, unit = float(size_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object a line on stdout.")
