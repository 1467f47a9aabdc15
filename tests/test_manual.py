"""The manual names what exists: functions of the tour, rooms, options of Spark, decisions, make targets, defaults."""

import ast
import re
from pathlib import Path

import pytest

from stratalog.metadata.settings.configs import definitions, topic_definitions
from stratalog.spark.source import options

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("wire", "client", "hot", "tier", "metadata", "broker", "spark", "cli", "kernel")
FOLDERS = (*ROOMS, "bench", "demo", "sim", "mutants", "localstack")
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
    """A page of at most 45 lines whose links lead to files."""
    page = text(room, "README.md")
    assert page.startswith(f"# {room}: ")
    assert "Why it exists: " in page
    assert "Never: " in page
    assert len(page.splitlines()) <= 45
    assert [link for link in LINK.findall(page) if not (ROOT / room / link).exists()] == []


def test_every_option_of_the_spark_source_is_documented():
    """No option without its place in the Spark page."""
    page = text("docs", "spark.md")
    assert [name for name in options._KNOWN.values() if f"`{name}`" not in page] == []


def decisions() -> list[Path]:
    """The pages of decisions by number."""
    return sorted((ROOT / "docs" / "decisions").glob("0*.md"))


def test_decisions_are_numbered_without_a_gap():
    """From 1."""
    assert [int(path.name[:4]) for path in decisions()] == list(range(1, len(decisions()) + 1))


def test_every_decision_is_listed_once_under_its_area_with_its_date():
    """The index says what each page says below its title; within an area the numbers rise."""
    listed = []
    for area in text("docs", "decisions", "README.md").split("\n## ")[1:]:
        rows = re.findall(r"^\| \[(\d{4})\]\(([\w-]+\.md)\) \| .+ \| ([\d-]+) \|$", area, re.MULTILINE)
        assert [row[0] for row in rows] == sorted(row[0] for row in rows)
        listed += [(name, date, area.splitlines()[0].lower()) for _, name, date in rows]
    told = []
    for path in decisions():
        found = re.match(r"# \d{4}.+\n\nDate: (\d{4}-\d\d-\d\d)\. Area: (.+)\.\n", path.read_text())
        assert found, f"{path.name} does not say its date and area below its title"
        told.append((path.name, found[1], found[2].lower()))
    assert sorted(listed) == told


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


TERMS = {
    "fetch session": "metadata/fetch_sessions/fetch_session.py",
    "delete horizon": "hot/cleaner/records.py",
    "chunk cache": "tier/reading/cache.py",
    "retention": "hot/retention.py",
    "quota": "metadata/quotas/resolution.py",
    "high watermark": "hot/replica_state.py",
    "in-sync replicas (ISR)": "hot/replica_state.py",
    "sticky assignor": "metadata/groups/assignors/uniform.py",
    "manifest claim, claimant": "tier/manifests/parts.py",
    "segment slice": "tier/planning/slices.py",
    "leader epoch": "hot/state/leader_epochs.py",
    "producer state": "hot/state/producer_state.py",
    "purgatory": "broker/runtime/purgatory.py",
    "transaction marker": "broker/coordinators/marker_writer.py",
    "config resolution": "metadata/settings/resolution.py",
    "log dump": "cli/dump/log.py",
    "archive": "tier/__init__.py",
    "bucket": "tier/stores/store.py",
    "cold": "broker/cold/__init__.py",
}
"""Terms that newcomers search for, with the file that the glossary links."""


def glossary() -> dict[str, str]:
    """The row of each term."""
    lines = text("docs", "glossary.md").splitlines()
    return {line.strip("|").split("|")[0].strip(): line for line in lines if line.startswith("| ")}


@pytest.mark.parametrize("term", TERMS)
def test_glossary_links_the_term_to_its_file(term):
    """One row, and in it a link to the file that defines the term."""
    assert f"](../{TERMS[term]})" in glossary()[term]


def test_glossary_has_a_row_for_every_package():
    """A room is named by its path and linked to its charter."""
    packages = [path for room in FOLDERS for path in (ROOT / room).rglob("__init__.py") if "build" not in path.parts]
    found = {path.parent.relative_to(ROOT).as_posix(): f"](../{path.relative_to(ROOT)})" for path in packages}
    rows = glossary()
    assert [name for name, link in found.items() if link not in rows.get(name, "")] == []


def test_glossary_repeats_the_charter_of_every_package():
    """Word for word, as the first sentence of its `__init__.py`, which may add rules."""
    rows, wrong = glossary(), []
    for room in FOLDERS:
        for path in (one for one in (ROOT / room).rglob("__init__.py") if "build" not in one.parts):
            name = path.parent.relative_to(ROOT).as_posix()
            charter = " ".join(ast.get_docstring(ast.parse(path.read_text())).partition("\n\n")[0].split())
            if not charter.replace("``", "`").startswith(f"{rows[name].split('|')[2].strip()}."):
                wrong.append(f"{name}: {charter}")
    assert wrong == []


def test_glossary_links_files_that_define_the_name():
    """A link whose label is a class or a function leads to the file where it is defined, and to no re-export."""
    links = re.findall(r"\[`(\w+)`\]\(\.\./([\w/]+\.py)\)", text("docs", "glossary.md"))
    assert len(links) > 40
    assert [(name, path) for name, path in links if not defines(text(path), name)] == []


def test_glossary_has_one_row_for_a_term():
    """No term is explained twice, and every row has three cells."""
    lines = [line for line in text("docs", "glossary.md").splitlines() if line.startswith("| ")]
    terms = [line.strip("|").split("|")[0].strip() for line in lines]
    assert [term for term in set(terms) if terms.count(term) > 1 and term not in ("term", "room")] == []
    assert [line for line in lines if line.count("|") != 4] == []
