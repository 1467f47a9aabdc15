"""SIGKILL on a cluster: of an executor's Python worker, of an executor, of the driver; and a service that says 503."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stratalog.spark.ledger.target import open_target

STEPS = Path(__file__).with_name("steps.py")
JOB = Path(__file__).resolve().parents[3] / "spark" / "jobs" / "backfill.py"
SEGMENT = r"\.seg"
SLOW_SECONDS = 1.0


@pytest.fixture
def archive(s3: Any, orders: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A prefix of the bucket, this test's own."""
    name = re.sub(r"\W+", "-", request.node.name)[:60]
    yield orders(s3.store(f"s3://stratalog/{name}/archive"))
    s3.proxy.script.replace([])


@pytest.fixture
def target(archive: Any) -> str:
    """Beside the archive."""
    return str(archive.store.url).removesuffix("/archive") + "/lake"


@pytest.fixture
def slow_reads(s3: Any, archive: Any) -> dict[str, str]:
    """Options of the source by which each GET of an object takes a while: there is time for a kill."""
    rule = s3.proxy.rule(action="delay", method="GET", path=SEGMENT, count=1000, seconds=SLOW_SECONDS)
    s3.proxy.script.replace([rule])
    return dict(s3.options(s3.proxy.url))


def requests(s3: Any, method: str, path: str) -> int:
    """How many such requests the proxy has seen."""
    return sum(each.method == method and re.search(path, each.path) is not None for each in list(s3.proxy.script.seen))


def parent_of(pid: int) -> int:
    """Its parent; -1 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1


def workers(cluster: Any) -> list[int]:
    """Python workers of executors: children of a daemon."""
    daemons = {each.pid for each in cluster.processes() if each.is_python_worker}
    return [pid for pid in daemons if parent_of(pid) in daemons]


def executors(cluster: Any) -> list[int]:
    """JVMs of executors."""
    return [each.pid for each in cluster.processes() if each.is_executor]


@pytest.mark.parametrize("victims", [workers, executors], ids=["python worker", "executor"])
def test_a_read_survives_its_executors(
    victims: Callable[[Any], list[int]],
    s3: Any,
    cluster: Any,
    archive: Any,
    slow_reads: dict[str, str],
    submit: Callable[..., Any],
    wheel_python: str,
    waiting: Callable[..., Any],
    rig: Any,
    digest: Any,
) -> None:
    """All of them are killed while they fetch: their tasks are done again, every row comes once."""
    step = ("batch", {"archive": archive.store.url, "minPartitions": "6", **slow_reads})
    driver = submit(str(STEPS), json.dumps([step]), python=wheel_python)
    waiting(lambda: len(workers(cluster)) >= 2 and requests(s3, "GET", SEGMENT) >= 3, "two tasks", driver)
    killed = set(victims(cluster))
    for victim in killed:
        os.kill(victim, signal.SIGKILL)
    waiting(lambda: not killed & set(victims(cluster)), "their end", driver)
    s3.proxy.script.rules.clear()
    wanted = digest(rig.archive_rows(archive))
    assert driver.answers() == [wanted]
    assert requests(s3, "GET", SEGMENT) > sum(len(each.entries) for each in archive.manifests.values())


@pytest.mark.parametrize("victims", [workers, executors], ids=["python worker", "executor"])
def test_a_backfill_survives_its_executors(
    victims: Callable[[Any], list[int]],
    s3: Any,
    cluster: Any,
    archive: Any,
    target: str,
    slow_reads: dict[str, str],
    submit: Callable[..., Any],
    wheel_python: str,
    waiting: Callable[..., Any],
    rig: Any,
) -> None:
    """One is killed when the first file is staged and others are being made."""
    options = [part for name, value in slow_reads.items() for part in ("--option", f"{name}={value}")]
    where = ["--bucket", archive.store.url, "--topic", "orders", "--to", target, "--endpoint-url", s3.proxy.url]
    driver = submit(str(JOB), *where, "--task-bytes", "30KiB", *options, python=wheel_python)
    waiting(lambda: requests(s3, "PUT", r"staging/.*\.parquet"), "a staged file", driver)
    victim = waiting(lambda: victims(cluster), "a victim", driver)[0]
    os.kill(victim, signal.SIGKILL)
    waiting(lambda: victim not in victims(cluster), "its end", driver)
    s3.proxy.script.rules.clear()
    assert driver.ended(0).startswith("orders: 4,000 rows in ")
    store = open_target(target, s3.options()).store
    assert rig.target_rows(store) == rig.archive_rows(archive)
    assert list(store.list("_stratalog/backfill/orders/staging/")) == []


STAGED, COMMITTED, PUBLISHED = r"staging/.*\.parquet", r"ledger\.json", r"lake/orders/.*\.parquet"
MOMENTS = {
    "while tasks run": (STAGED, {"action": "delay", "method": "GET", "path": SEGMENT, "seconds": SLOW_SECONDS}),
    "before the commit": (COMMITTED, {"action": "reset", "method": "PUT", "path": COMMITTED}),
    "after the commit": (PUBLISHED, {"action": "delay", "method": "PUT", "path": PUBLISHED, "seconds": 3.0}),
}
"""When the driver dies: at the first PUT like the first, while the proxy does the second."""


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_driver_that_is_killed_loses_no_row_and_doubles_none(
    moment: str,
    s3: Any,
    archive: Any,
    target: str,
    submit: Callable[..., Any],
    wheel_python: str,
    waiting: Callable[..., Any],
    rig: Any,
) -> None:
    """Before the commit nothing can be seen, after it no row twice; the next driver makes it whole."""
    path, rule = MOMENTS[moment]
    s3.proxy.script.replace([s3.proxy.rule(**rule, count=1000)])
    through = {**s3.s3a(), "spark.hadoop.fs.s3a.endpoint": s3.proxy.url}
    command = [str(JOB), "--bucket", archive.store.url, "--topic", "orders", "--to", target, "--task-bytes", "30KiB"]
    driver = submit(*command, python=wheel_python, conf=through)
    waiting(lambda: requests(s3, "PUT", path), "that moment", driver)
    driver.kill()
    s3.proxy.script.replace([])
    store = open_target(target, s3.options()).store
    seen = rig.target_rows(store)
    assert len({row[:2] for row in seen}) == len(seen)
    if moment != "after the commit":
        assert seen == []
    rows = re.match(r"orders: (nothing new|4,000 rows)", submit(*command, python=wheel_python, conf=through).ended(0))
    assert rows is not None
    assert (rows[1] == "nothing new") == (moment == "after the commit")
    assert rig.target_rows(store) == rig.archive_rows(archive)
    assert list(store.list("_stratalog/backfill/orders/staging/")) == []


def test_a_service_that_says_slow_down(
    s3: Any, archive: Any, take: Callable[..., Any], wheel_python: str, rig: Any, digest: Any
) -> None:
    """Every request for an object is refused at first, some cut short or reset: it takes longer, that is all."""
    rules = [
        s3.proxy.rule(action="status", path="orders", count=12),
        s3.proxy.rule(action="reset", path=SEGMENT, count=4),
        s3.proxy.rule(action="truncate", method="GET", path=SEGMENT, count=4),
        s3.proxy.rule(action="corrupt", method="GET", path=SEGMENT, count=2),
    ]
    s3.proxy.script.replace(rules)
    options = s3.options(s3.proxy.url)
    steps = [("batch", {"archive": archive.store.url, **options}), ("count", {"archive": archive.store.url, **options})]
    assert take(*steps, python=wheel_python) == [digest(rig.archive_rows(archive)), 4000]
    assert [rule.count for rule in rules] == [0, 0, 0, 0]
