"""Records to standard output, against a running broker."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.fixture
def filled(stratalog, topic):
    """A topic with five records in partition 0, a second apart from 4 July 2013 on, and one in partition 2."""
    for index in range(5):
        stratalog(
            "produce", topic, "-p", "0", "-k", f"k{index}", "-t", str(1372896000000 + 1000 * index), stdin=f"v{index}\n"
        )
    stratalog("produce", topic, "-p", "2", "-t", "1372896000000", stdin="other\n")
    return topic


def values(result) -> list[str]:
    """The printed records, one a line."""
    return result.out.splitlines()


def test_everything_is_read_once_from_the_start(stratalog, filled) -> None:
    """Each partition in order, to the end there was at the start."""
    assert sorted(values(stratalog("consume", filled, "--exit"))) == ["other", "v0", "v1", "v2", "v3", "v4"]


def test_json_shows_all_of_a_record(stratalog, filled) -> None:
    """One object a line."""
    first = stratalog("consume", filled, "-p", "0", "-e", "--json").rows[0]
    assert first == {
        "topic": filled,
        "partition": 0,
        "offset": 0,
        "timestamp": 1372896000000,
        "key": "k0",
        "value": "v0",
        "headers": [],
    }


def test_a_format_shows_the_wanted_fields(stratalog, filled) -> None:
    """kcat's letters."""
    out = stratalog("consume", filled, "-p", "2", "-e", "-f", r"%p:%o %T [%k] %s\n", "-Z", "null").out
    assert out == "2:0 1372896000000 [null] other\n"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("earliest", ["v0", "v1", "v2", "v3", "v4"]),
        ("latest", []),
        ("3", ["v3", "v4"]),
        ("-2", ["v3", "v4"]),
        ("-99", ["v0", "v1", "v2", "v3", "v4"]),
        ("@1372896001500", ["v2", "v3", "v4"]),
        ("@2013-07-04T00:00:04", ["v4"]),
        ("@2030-01-01", []),
        ("@1969-12-31T23:59:59.999", ["v0", "v1", "v2", "v3", "v4"]),
    ],
)
def test_reading_begins_at_the_given_place(stratalog, filled, where, expected) -> None:
    """By name, offset, distance from the end, or time."""
    assert values(stratalog("consume", filled, "-p", "0", "-e", "-o", where)) == expected


def test_reading_ends_at_the_given_place(stratalog, filled) -> None:
    """Between two times; before an offset, inside a batch or not."""
    span = ("-o", "@2013-07-04T00:00:01", "--to", "@2013-07-04T00:00:03")
    assert values(stratalog("consume", filled, "-p", "0", *span)) == ["v1", "v2"]
    assert values(stratalog("consume", filled, "-p", "0", "--to", "1")) == ["v0"]


@pytest.mark.parametrize("to", ["5", "99", "@2030-01-01"])
def test_an_end_that_was_not_reached_yet_is_not_waited_for(stratalog, filled, to) -> None:
    """Most of several partitions have not: the one with the highest offset would have all others wait."""
    assert sorted(values(stratalog("consume", filled, "--to", to, "-w", "5"))) == [
        "other",
        "v0",
        "v1",
        "v2",
        "v3",
        "v4",
    ]


def test_a_count_ends_reading(stratalog, filled) -> None:
    """Without waiting for more."""
    assert len(values(stratalog("consume", filled, "-n", "4"))) == 4


def test_waiting_too_long_is_exit_code_5(stratalog, filled) -> None:
    """Records read so far are printed; the note says how many."""
    found = stratalog("consume", filled, "-p", "2", "-n", "2", "-w", "0.05", code=5)
    assert values(found) == ["other"]
    assert "1 were read" in found.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nope", "-e"), 3),
        (("{topic}", "-e", "-p", "9"), 3),
        (("{topic}", "-e", "-o", "99"), 3),
        (("{topic}", "-e", "-p", "0", "-o", "5"), 0),
        (("{topic}", "-n", "1", "-p", "0", "-o", "99"), 3),
        (("{topic}", "-e", "-o", "somewhere"), 2),
        (("{topic}", "-e", "-o", "--5"), 2),
        (("{topic}", "-e", "-f", "%x"), 2),
    ],
)
def test_unreadable_records_end_with_the_reason(stratalog, filled, arguments, code) -> None:
    """No such topic or partition, an offset behind the end, a place or format that means nothing."""
    found = stratalog("consume", *(text.format(topic=filled) for text in arguments), code=code)
    assert found.err.startswith("Error: ") == bool(code)


def test_a_topic_can_be_copied_by_a_pipe(stratalog, filled) -> None:
    """JSON out, JSON in: keys, values, times and partitions are the same."""
    lines = stratalog("consume", filled, "-e", "--json").out
    stratalog("topic", "create", f"{filled}-copy", "-p", "3")
    stratalog("produce", f"{filled}-copy", "--input", "json", stdin=lines)
    copied = stratalog("consume", f"{filled}-copy", "-e", "--json").out
    assert sorted(copied.replace(f"{filled}-copy", filled).splitlines()) == sorted(lines.splitlines())


@pytest.mark.story
def test_a_reader_that_closes_the_pipe_ends_the_command_without_a_word(stratalog, live_broker, topic) -> None:
    """As SIGPIPE ends cat: code 141, and nothing on stderr."""
    stratalog("produce", topic, stdin="x" * 99 + "\n" + ("y" * 99 + "\n") * 20_000)
    command = [sys.executable, "-m", "stratalog", "consume", topic, "--exit", "-b", live_broker.kafka]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consume:
        assert consume.stdout is not None
        assert consume.stderr is not None
        assert consume.stdout.readline() in (b"x" * 99 + b"\n", b"y" * 99 + b"\n")
        consume.stdout.close()
        assert (consume.stderr.read(), consume.wait(30)) == (b"", 141)
