"""The manual names what exists: functions of the tour, rooms, options of Spark, decisions, make targets, defaults."""

import re
from pathlib import Path

import pytest

from stratalog.metadata.configs import definitions, topic_definitions
from stratalog.spark import options

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("wire", "hot", "tier", "metadata", "broker", "spark", "kernel")
STOP = re.compile(r"\]\(\.\./([\w/]+\.py)\)[\s,]*\(((?:`[\w.]+`(?:, )?)+)\)")
LINK = re.compile(r"\]\(([^)\s#:]+)\)")


def text(*names: str) -> str:
    """A page of the repository."""
    return ROOT.joinpath(*names).read_text()


def defines(source: str, name: str) -> bool:
    """Whether a file defines the function, class or constant ``name``."""
    return re.search(rf"(?:(?:def|class) {name}\b|^{name}\b.*=)", source, re.MULTILINE) is not None


def test_the_tour_names_functions_that_exist():
    """Every ``[file](path) (`function`)`` of the tour is defined in that file."""
    stops = [(path, name) for path, names in STOP.findall(text("docs", "tour.md")) for name in names.split("`")[1::2]]
    assert len(stops) >= 20
    assert [(path, name) for path, name in stops if not defines(text(path), name.rpartition(".")[2])] == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_says_why_it_exists(room):
    """A page of at most 40 lines whose links lead to files."""
    page = text(room, "README.md")
    assert page.startswith(f"# {room}: ")
    assert "Why it exists: " in page
    assert "Never: " in page
    assert len(page.splitlines()) <= 40
    assert [link for link in LINK.findall(page) if not (ROOT / room / link).exists()] == []


def test_every_option_of_the_spark_source_is_documented():
    """No option without its place in the Spark page."""
    page = text("docs", "spark.md")
    assert [name for name in options._KNOWN.values() if f"`{name}`" not in page] == []


def test_every_decision_is_listed():
    """Decisions are numbered without a gap and listed in order."""
    pages = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("0*.md"))
    assert [int(name[:4]) for name in pages] == list(range(1, len(pages) + 1))
    assert re.findall(r"\]\((0\d{3}[\w-]+\.md)\)", text("docs", "decisions", "README.md")) == pages


def test_every_make_target_is_in_the_readme():
    """The table of targets is that of the Makefile."""
    targets = re.search(r"^\.PHONY: (.+)$", text("Makefile"), re.MULTILINE)[1].split()
    readme = text("README.md")
    assert [target for target in targets if target != "help" and f"`make {target}" not in readme] == []


def test_the_readme_shows_before_it_talks():
    """At most 100 words stand before the first use."""
    assert len(text("README.md").partition("```")[0].split()) <= 100


def test_every_default_that_differs_from_kafka_is_named():
    """In the page about compatibility."""
    page = text("docs", "compatibility.md")
    differing = [
        row.name for row in (*definitions().values(), *topic_definitions().values()) if row.kafka_default is not None
    ]
    assert differing
    assert [name for name in differing if f"`{name}`" not in page] == []
