"""Checks of statements in the documents: links, APIs, settings, duties, safety rules."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from stratalog.broker.api import BROKER_APIS
from stratalog.broker.api.controller_apis import CONTROLLER_APIS
from stratalog.metadata.settings.configs import definitions, topic_definitions
from stratalog.wire.errors import ErrorCode

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")])
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+(?:\([^()]*\)[^()\s]*)?)\)")
HEADING = re.compile(r"^#{1,6}\s+(.*)$", re.MULTILINE)


def prose(path: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"```.*?```", " ", path.read_text(), flags=re.DOTALL)


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    found = set()
    for heading in HEADING.findall(prose(path)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        found.add(re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-"))
    return found


def leads_somewhere(page: Path, target: str) -> bool:
    """Whether a link finds its file, and in it its heading or line; addresses elsewhere are not asked."""
    if re.match(r"[a-z]+:", target):
        return True
    name, _, anchor = target.partition("#")
    path = (page.parent / unquote(name)).resolve() if name else page
    if not path.exists() or not path.is_relative_to(ROOT):
        return False
    if not anchor:
        return True
    if path.suffix == ".md":
        return unquote(anchor) in anchors(path)
    line = re.fullmatch(r"L(\d+)(?:-L\d+)?", anchor)
    return line is not None and int(line[1]) <= len(path.read_text().splitlines())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page):
    """Files that exist, headings that exist, lines that exist."""
    assert [target for target in LINK.findall(prose(page)) if not leads_somewhere(page, target)] == []


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    text = (ROOT / "docs" / page).read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_api_that_is_served_is_listed_with_its_versions():
    """No more and no fewer, under the names of the protocol."""
    listed = {int(row[0]): (row[1], row[2]) for row in rows("compatibility.md", "APIs that are served")}
    assert listed == {api.key: (api.name, f"{api.versions[0]}-{api.versions[1]}") for api in BROKER_APIS}


def test_no_api_is_both_served_and_missing():
    """The second table has the rest of Kafka's keys."""
    missing = {int(row[0]) for row in rows("compatibility.md", "APIs that are not served yet")}
    assert missing.isdisjoint(api.key for api in (*BROKER_APIS, *CONTROLLER_APIS))
    assert {38, 71, 76} <= missing


def test_the_apis_between_nodes_are_those_of_the_controllers_table():
    """All that brokers do not serve to clients, and the Fetch of the metadata log."""
    listed = {int(row[0]): (row[1], row[2]) for row in rows("compatibility.md", "APIs between nodes")}
    of_brokers = {api.key for api in BROKER_APIS} - {1}
    expected = [api for api in CONTROLLER_APIS if api.key not in of_brokers]
    assert listed == {api.key: (api.name, f"{api.versions[0]}-{api.versions[1]}") for api in expected}


def test_every_setting_is_documented():
    """Under its own name, with its default."""
    text = (ROOT / "docs" / "configuration.md").read_text()
    public = [row.name for row in (*definitions().values(), *topic_definitions().values()) if not row.internal]
    assert [name for name in public if f"`{name}`" not in text] == []


def test_every_duty_of_zookeeper_has_its_counterpart():
    """Election of the controller, registries and watches among them."""
    duties = " ".join(row[0] for row in rows("compatibility.md", "ZooKeeper's duties"))
    for duty in ("controller", "brokers/ids", "brokers/topics", "config", "watches", "cluster/id"):
        assert duty in duties


def test_error_codes_that_are_named_exist():
    """In every page."""
    word = re.compile(r"\b[A-Z]{3,}(?:_[A-Z]+)+\b")
    other = re.compile(
        r"STANDARD_IA|STRATALOG_|AWS_|S3_|JAVA_|PYTHON|RWF_|MSG_|READ_ME|CRC_|TCP_|TLS_|BUCKET_|PYSPARK_|SASL_"
    )
    names = {code.name for code in ErrorCode}
    unknown = {
        f"{page.name}: {name}"
        for page in PAGES
        for name in word.findall(CODE.sub(" ", page.read_text()))
        if name not in names and not other.match(name)
    }
    assert unknown == set()


COMMAND = re.compile(r"(?:^\$ |`)(stratalog [a-z][^`\n|#]*)", re.MULTILINE)


def manual_sections() -> dict[str, str]:
    """Return the section of docs/cli.md about each command; the commands themselves write that page."""
    parts = re.split(r"^#+ (stratalog.*)$", (ROOT / "docs" / "cli.md").read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_that_a_page_shows_exists_with_its_options():
    """In blocks that begin with a dollar sign, and between backticks."""
    sections = manual_sections()
    assert len(sections) > 50
    wrong = []
    for page in PAGES:
        for line in COMMAND.findall(page.read_text()):
            words = line.split()
            known = [name for size in (2, 3, 4) if (name := " ".join(words[:size])) in sections]
            options = re.findall(r"(?<!\S)(--?[a-z][\w-]*)", line)
            missing = (
                [one for one in options if one != "--help" and one not in sections[known[-1]]] if known else words[1:2]
            )
            wrong += [f"{page.name}: {line}: {one}" for one in missing]
    assert wrong == []


def safety_cells(column: int) -> Iterator[tuple[int, str]]:
    """The line number and the text of one column of all tables of rules in docs/safety.md, headings left out."""
    for number, line in enumerate((ROOT / "docs" / "safety.md").read_text().splitlines(), 1):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
        if len(cells) == 6 and cells[1] != "rule" and not cells[1].startswith("---"):
            yield number, cells[column]


@cache
def names_in(*folders: str) -> dict[str, set[str]]:
    """Each Python file below the folders, and the names of what it defines: classes, functions, fields, constants."""
    defined = re.compile(r"^ *(?:(?:async )?def |class )?(\w+)(?: = |: |\(|\[|:$)", re.MULTILINE)
    return {
        path.relative_to(ROOT).as_posix(): set(defined.findall(path.read_text()))
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
    }


def files_named(name: str, files: Iterable[str]) -> list[str]:
    """The files whose path ends with a name like ``log/read``, which has no suffix."""
    return [path for path in files if f"/{path}".endswith(f"/{name}.py")]


TEST_FILE = re.compile(r"`((?:\w+/)*test_\w+)`((?:,? \"[^\"]+\")*)")


def test_every_test_that_a_safety_rule_names_exists():
    """Its file has one place, and the words in quotes are in the name of a test there; an ellipsis stands for the rest."""
    files = names_in("tests")
    wrong = []
    for number, cell in safety_cells(3):
        for name, quotes in TEST_FILE.findall(cell):
            places = files_named(name, files)
            tests = " ".join(files[places[0]]).lower() if len(places) == 1 else ""
            words = [re.sub(r"[^a-z0-9]+", "_", one.lower()).strip("_") for one in re.findall(r'"([^"]+)"', quotes)]
            wrong += [f"{number}: {name} {places}: {one}" for one in ["test", *words] if one not in tests]
    assert wrong == []


def test_all_code_that_a_safety_rule_names_exists():
    """``module.name`` is in a file of that name, ``Class.name`` in a file that has the class."""
    files = names_in("wire", "client", "hot", "tier", "metadata", "broker", "spark", "cli", "sim", "bench")
    wrong = []
    for number, cell in safety_cells(2):
        for owner, name in re.findall(r"`([\w/]+)\.(?!py`|toml`)(\w+)`", cell):
            places = files_named(owner, files) or [path for path, names in files.items() if owner in names]
            wrong += [] if any(name in files[path] for path in places) else [f"{number}: {owner}.{name}"]
    assert wrong == []
