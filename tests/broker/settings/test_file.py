"""Configuration files: the grammar of Java properties, and TOML with the same names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.settings.file import ConfigFileError, parse_config_file, parse_properties


def pairs(content: str) -> list[tuple[str, str]]:
    """Names and texts of a properties file."""
    return [(setting.name, setting.text) for setting in parse_properties(content, "server.properties")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("log.dirs=/data", ("log.dirs", "/data")),
        ("log.dirs = /data", ("log.dirs", "/data")),
        ("log.dirs:/data", ("log.dirs", "/data")),
        ("log.dirs /data", ("log.dirs", "/data")),
        ("  \tlog.dirs\t=\f/data", ("log.dirs", "/data")),
        ("listeners=PLAINTEXT://:9092", ("listeners", "PLAINTEXT://:9092")),
        ("name == value", ("name", "= value")),
        ("name", ("name", "")),
        ("name=", ("name", "")),
        (r"a\=b\:c\ d=value", ("a=b:c d", "value")),
        (r"path=C\:\\data\tx", ("path", "C:\\data\tx")),
        (r"name=\u0041\u00e9", ("name", "Aé")),
        (r"name=\ud83d\ude00", ("name", "😀")),
        (r"name=a\qb", ("name", "aqb")),
        ("name=value  ", ("name", "value  ")),
        ("name=a#b", ("name", "a#b")),
    ],
)
def test_one_line_reads_as_java_reads_it(line: str, expected: tuple[str, str]) -> None:
    """Separators, blanks and escapes follow java.util.Properties."""
    assert pairs(line) == [expected]


def test_comments_and_blank_lines_are_no_settings() -> None:
    """Lines that begin with # or ! after blanks, and lines of blanks, are skipped; a comment does not continue."""
    assert pairs("# a=1\n  ! b=2\n \t\n\n# ends in \\\nc=3\n") == [("c", "3")]


def test_a_backslash_at_the_end_continues_the_line() -> None:
    """Continuations lose their leading blanks; two backslashes are one character and do not continue."""
    assert pairs("a=one,\\\n   two\\\r\n  ,#three\nb=x\\\\\nc=3\\") == [
        ("a", "one,two,#three"),
        ("b", "x\\"),
        ("c", "3"),
    ]


def test_every_line_ending_counts() -> None:
    """LF, CR LF and CR all end a line, and line numbers follow."""
    found = parse_properties("a=1\r\nb=2\rc=3\nd=4", "f")
    assert [(setting.name, setting.origin) for setting in found] == [
        ("a", "f:1"),
        ("b", "f:2"),
        ("c", "f:3"),
        ("d", "f:4"),
    ]


def test_a_duplicate_is_kept_after_the_first() -> None:
    """The caller sees both and can say so; the later one is the one Java would keep."""
    assert pairs("a=1\na=2") == [("a", "1"), ("a", "2")]


@pytest.mark.parametrize("line", [r"name=\u12", r"name=\u12g4", "name=\\u"])
def test_a_broken_unicode_escape_names_its_line(line: str) -> None:
    """The message points at file and line."""
    with pytest.raises(ConfigFileError, match=r"server.properties:2: malformed unicode escape"):
        pairs("# first\n" + line)


def test_a_file_that_is_not_utf8_is_latin1() -> None:
    """Java's encoding is the fallback, so that old files with umlauts in comments still start a broker."""
    content = "# größe\nbroker.rack=zürich".encode("latin-1")
    assert [setting.text for setting in parse_config_file(content, "server.properties")] == ["zürich"]
    assert [setting.text for setting in parse_config_file("broker.rack=zürich".encode(), "a")] == ["zürich"]


def escaped(text: str) -> str:
    """`text` as Java's `Properties.store` would write it."""
    special = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
    return "".join(
        special.get(letter)
        or (f"\\{letter}" if letter in "\\=:#! " else letter if " " < letter < "\x7f" else unicode_escaped(letter))
        for letter in text
    )


def unicode_escaped(letter: str) -> str:
    """The one or two escapes of a character."""
    units = letter.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02X}{units[i + 1]:02x}" for i in range(0, len(units), 2))


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.lists(st.tuples(text.filter(bool), text), max_size=5))
def test_properties_written_by_java_are_read_back(expected: list[tuple[str, str]]) -> None:
    """Escaped names and values of any characters come back as they were."""
    assert pairs("".join(f"{escaped(name)}={escaped(value)}\n" for name, value in expected)) == expected


@given(st.text(st.sampled_from("ab=:\\ \t\n\r#!u0"), max_size=30))
def test_any_text_reads_or_is_refused(content: str) -> None:
    """No input escapes as another error, and a file with settings has a name and an origin for each."""
    try:
        found = parse_properties(content, "f")
    except ConfigFileError:
        return
    assert all(setting.origin.startswith("f:") for setting in found)


TOML = b"""
"log.dirs" = ["/data/a", "/data/b"]
num.partitions = 6
auto.create.topics.enable = false
"log.cleaner.io.buffer.load.factor" = 0.9
[log]
segment.bytes = 1048576
retention = { ms = -1 }
"""


def test_toml_spells_names_by_tables_dots_or_quotes() -> None:
    """Tables, dotted keys and quoted keys are the same name; lists join with commas; booleans are Kafka's words."""
    found = {setting.name: setting.text for setting in parse_config_file(TOML, "broker.toml")}
    assert found == {
        "log.dirs": "/data/a,/data/b",
        "num.partitions": "6",
        "auto.create.topics.enable": "false",
        "log.cleaner.io.buffer.load.factor": "0.9",
        "log.segment.bytes": "1048576",
        "log.retention.ms": "-1",
    }


@pytest.mark.parametrize("content", [b"log.dirs = ", b"\xff = 1", b"day = 2013-07-04"])
def test_bad_toml_is_refused_with_the_file(content: bytes) -> None:
    """Broken TOML and values Kafka has no text for name the file."""
    with pytest.raises(ConfigFileError, match=r"^broker\.toml: "):
        parse_config_file(content, "broker.toml")
