"""A headless Chromium, and brokers whose tier is in the states that a person may find it in."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from stratalog.broker.embedded import EmbeddedBroker, LoopThread
from stratalog.broker.http.verification import Verification
from stratalog.client.admin import alter_topic_configs
from stratalog.client.client import Client
from stratalog.client.records import NewRecord, Producer, fetch
from stratalog.tier.stores.faulty_store import Fault, FaultRule
from stratalog.wire.topic import TopicPartition

BUILD = Path(__file__).resolve().parents[2] / "build" / "screenshots"
WAIT_SECONDS = 30
TIERED = {
    "remote_storage_enable": "true",
    "internal_segment_bytes": 20_000,
    "local_retention_bytes": 100_000,
    "retention_ms": -1,
}
NOT_AT_ALL = FaultRule(Fault.FAIL_BEFORE, count=None)


def pytest_collection_modifyitems(items):
    """Everything here needs a browser."""
    here = "tests/browser/"  # paths are compared as text: this sees every test there is
    for item in items:
        if item.nodeid.startswith(here):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(120))


@pytest.fixture(scope="session")
def chromium():
    """The browser: STRATALOG_CHROMIUM names it, else it is looked for on the PATH."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install --group browser")
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    program = os.environ.get("STRATALOG_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no Chromium on the PATH: apt-get install chromium, or set STRATALOG_CHROMIUM")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


class Site:
    """One broker and what is done to it."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker

    def write(self, topic: str, partition: int = 0, records: int = 50) -> None:
        """Records of a kilobyte, some to a batch."""
        with Client(self.broker.bootstrap_servers) as client:
            producer = Producer(client, topic)
            for number in range(0, records, 10):
                now_ms = time.time_ns() // 1_000_000
                some = range(min(10, records - number))
                producer.send([NewRecord(os.urandom(1000), now_ms, partition=partition) for _ in some])

    def until(self, condition) -> None:
        """Wait for what the broker does by itself."""
        end = time.monotonic() + WAIT_SECONDS
        while not condition():
            assert time.monotonic() < end, "what was waited for did not happen"
            time.sleep(0.02)

    def partition(self, topic: str, partition: int = 0):
        """The partition, white-box."""
        return self.broker.node.partitions.by_name(topic, partition)

    def archived(self, topic: str, partition: int = 0) -> bool:
        """Whether all that is frozen is in the bucket and the rest has been let go of."""
        unified = self.partition(topic, partition)
        return unified.remote.end_offset == unified.log.active_base_offset > 0

    def read(self, topic: str, partition: int = 0) -> None:
        """The first batches of a partition, twice."""
        with Client(self.broker.bootstrap_servers) as client:
            for _ in range(2):
                self.until(lambda: fetch(client, {TopicPartition(topic, partition): 0})[0].data)

    def slow_uploads(self, seconds: float) -> None:
        """Objects take their time from now on."""
        self.broker.fail_store(FaultRule(Fault.DELAY, "put_if_absent", r"\.seg$", count=None, seconds=seconds))

    def broken(self, topic: str, partition: int) -> str:
        """Let a byte of the newest records rot before they are copied; returns how the archive found it."""
        self.write(topic, partition, 10)
        log = self.partition(topic, partition).log
        with Path(log.segments()[-1].path).open("r+b") as damaged:
            position = damaged.seek(-500, os.SEEK_END)
            rotten = bytes([damaged.read(1)[0] ^ 1])
            damaged.seek(position)
            damaged.write(rotten)
        self.write(topic, partition, 30)
        archive, _ = self.broker.node.tiering.watched(self.partition(topic, partition))
        self.until(lambda: archive.corrupt)
        return archive.corrupt

    def verified(self, anomalies: int) -> None:
        """As if `tier verify --deep --tell` had ended just now."""
        node = self.broker.node
        told = Verification(
            node.clock.wall_ms(),
            deep=True,
            topics=(),
            partitions=7,
            objects=90,
            size_bytes=1 << 20,
            anomalies=anomalies,
        )
        node.tier_watch.verification = told

    def in_cluster(self, cluster) -> None:
        """As if the broker were one of several."""
        watch = self.broker.node.tier_watch
        watch._services = replace(watch._services, cluster=lambda: cluster)

    def configure(self, topic: str, *settings: str) -> None:
        """Names and values in turn."""
        with Client(self.broker.bootstrap_servers) as client:
            alter_topic_configs(client, topic, set_to=dict(zip(settings[::2], settings[1::2], strict=True)))

    def bucket_down(self) -> None:
        """From now on every request fails."""
        self.broker.fail_store(NOT_AT_ALL)

    def bucket_up(self) -> None:
        """All is well again."""
        self.broker.fail_store()


@pytest.fixture(scope="module")
def loop_thread():
    """The loop of all brokers here."""
    thread = LoopThread()
    yield thread
    closing = threading.Thread(target=thread.close)  # the browser's driver has a loop in this thread
    closing.start()
    closing.join()


@pytest.fixture
def site(loop_thread, tmp_path):
    """A broker without topics."""
    settings = {
        "log.retention.check.interval.ms": 200,
        "remote.log.manager.task.retry.backoff.ms": 100,
        "remote.log.manager.task.retry.backoff.max.ms": 300,
    }
    broker = EmbeddedBroker(str(tmp_path), loop_thread, settings).start()
    yield Site(broker)
    broker.fail_store()
    broker.discard()


@pytest.fixture
def busy(site):
    """A broker with topics in every ordinary state."""
    site.broker.create_topic("orders", 4, **TIERED)
    site.broker.create_topic("payments", 2, **{**TIERED, "local_retention_bytes": 1})
    site.broker.create_topic("clicks.eu-west.raw", 1, **TIERED)
    site.broker.create_topic("scratch", 3)
    for partition in range(4):
        site.write("orders", partition, 100 + 100 * partition)
    for partition in range(2):
        site.write("payments", partition, 150)
    site.write("clicks.eu-west.raw", 0, 15)
    site.write("scratch", 1, 30)
    tiered = [("orders", number) for number in range(4)] + [("payments", 0), ("payments", 1)]
    site.until(lambda: all(site.archived(*one) for one in tiered))
    site.until(lambda: site.partition("payments").log.local_log_start_offset > 0)
    site.until(lambda: site.partition("orders", 3).log.local_log_start_offset > 0)
    return site


class Look:
    """A page in the browser, and everything that it complained about or asked elsewhere for."""

    def __init__(self, page, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self._heard(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))

    def _heard(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.complaints.append(text)

    def go(self, *, live: bool = True) -> Look:
        """Open the page and wait until it shows something."""
        self.page.goto(self.url)
        if live:
            self.page.wait_for_selector('#link[data-state="live"]')
            shown = "() => document.getElementById('count').textContent || !document.getElementById('empty').hidden"
            self.page.wait_for_function(shown)
        return self

    def picture(self, name: str) -> None:
        """A screenshot of the whole page, under ``build/screenshots``."""
        BUILD.mkdir(parents=True, exist_ok=True)
        self.page.wait_for_timeout(600)  # bars have come to rest
        self.page.screenshot(path=BUILD / f"{name}.png", full_page=True)

    def rows(self) -> dict[str, dict[str, str]]:
        """Text of each shown row, by its name as a screen reader says it."""
        return {
            line.locator("th").inner_text().replace("\n", " ").strip(): {
                "bar": line.locator('[role="img"]').get_attribute("aria-label"),
                "text": line.inner_text(),
            }
            for line in self.page.locator("tbody tr").all()
            if line.locator('[role="img"]').count()
        }

    def wait_text(self, selector: str, text: str) -> None:
        """Wait until an element says something."""
        self.page.wait_for_function(
            "([selector, text]) => document.querySelector(selector).textContent.includes(text)", arg=[selector, text]
        )


@pytest.fixture
def look(chromium):
    """Opens the page of a site: width, colour scheme, motion."""
    contexts = []

    def open_page(
        site: Site, *, width: int = 1280, scheme: str = "light", motion: str = "no-preference", **more
    ) -> Look:
        context = chromium.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion=motion, **more
        )
        contexts.append(context)
        return Look(context.new_page(), site.broker.http_url + "/")

    yield open_page
    for context in contexts:
        context.close()
