"""The demo, chapter by chapter. Every "held" is a comparison that was made; one that fails fails the demo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from demo.copier import is_delayed
from demo.dataset import DAY_END_MS, DAY_START_MS, PARTITIONS, Event, flights, load_events
from demo.fingerprint import Fingerprint, combine, partition_digest
from demo.load import Loaded, Loader
from demo.servers import Broker

__all__ = ["Story"]

SETTINGS = {
    "log.retention.check.interval.ms": 500,
    "remote.log.manager.task.interval.ms": 200,
    "log.segment.delete.delay.ms": 500,
}
TIERED = {
    "retention.ms": "-1",
    "segment.bytes": str(1 << 20),
    "segment.ms": str(20 * 86_400_000),  # twenty days of record time: a small partition has many ranges too
    "local.retention.bytes": str(2 << 20),
    "remote.storage.enable": "true",
}
JULY_MS = 1_372_651_200_000


class Story:
    """One run of the demo."""

    def __init__(self, data: Path, bucket: str) -> None:
        self._data = data
        self._bucket = bucket
        self._console = Console(highlight=False, soft_wrap=True)
        self._console.width = max(self._console.width, 110)
        self._held = True

    def tell(self) -> bool:
        """Run all chapters; whether every comparison held."""
        events = load_events()
        broker = Broker.start(self._data, self._bucket, dict(SETTINGS))
        self._say(f"A broker listens on [bold]{broker.kafka}[/]; its archive is {self._bucket}.")
        try:
            topics = self._load(broker, events)
            self._retention(broker, events)
            self._tier(broker, list(topics))
            expected = {topic: loaded.fingerprint(events) for topic, loaded in topics.items()}
            self._read_back(broker, expected)
            self._fourth_of_july(broker)
            self._groups(broker, expected["flights"])
            self._exactly_once(broker, topics["flights"], events)
        finally:
            seconds = broker.stop()
        self._chapter("6. No broker: Spark reads the bucket")
        self._say(f"The broker is stopped (in {seconds:.2f} s).")
        self._spark(expected)
        self._chapter("7. No Spark: Python and DuckDB read the bucket")
        self._python_readers(expected)
        self._farewell(list(topics))
        return self._held

    # -- saying things ----------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self._console.print(text)

    def _chapter(self, title: str) -> None:
        self._console.print(f"\n[bold]{title}[/]")

    def _compare(self, what: str, found: object, wanted: object) -> None:
        """Say and remember whether two independent answers agree."""
        if found == wanted:
            shown = f"{len(found)} rows are equal" if isinstance(found, list) else found
            self._console.print(f"  [green]held[/]    {what}: {shown}")
            return
        self._held = False
        self._console.print(f"  [red]BROKEN[/]  {what}: found {found}, wanted {wanted}")

    # -- chapters ---------------------------------------------------------------------------------------------

    def _load(self, broker: Broker, events: list[Event]) -> dict[str, Loaded]:
        self._chapter("1. A year of flights goes in")
        loader = Loader(broker.kafka)
        topics = {}
        for topic, codec in (("flights", "none"), ("flights-zstd", "zstd")):
            loader.create_topic(topic, PARTITIONS, TIERED)
            loaded = loader.load(topic, events, codec)
            rate = len(events) / loaded.seconds
            self._say(
                f"librdkafka produced {len(events):,} flights ({loaded.value_bytes / 1e6:.0f} MB of JSON, "
                f"codec {codec}) into {topic!r} in {loaded.seconds:.1f} s: {rate:,.0f} a second, idempotent, "
                "each one on disk before it was acknowledged."
            )
            topics[topic] = loaded
        mapping = {
            event.key.decode(): partition
            for partition, rows in topics["flights"].landed.items()
            for event in (events[index] for _, index in rows[:2000])
        }
        where = ", ".join(f"{carrier}→{mapping[carrier]}" for carrier in ("AA", "UA", "DL", "B6"))
        self._compare("carriers land where Java's murmur2 puts them", where, "AA→3, UA→4, DL→5, B6→0")
        return topics

    def _retention(self, broker: Broker, events: list[Event]) -> None:
        loader = Loader(broker.kafka)
        sample = [event for event in events if event.key == b"HA"]
        kept_from = next(index for index, event in enumerate(sample) if event.timestamp_ms >= JULY_MS)
        # A month a batch: retention removes whole segments only, and a batch is in one segment.
        loader.create_topic("hawaiian", 1, {"retention.ms": "-1", "segment.ms": str(86_400_000)})
        for month in range(1, 13):
            loader.load("hawaiian", [event for event in sample if f'"month":{month},'.encode() in event.value], "none")
        age_ms = int(time.time() * 1000) - JULY_MS
        loader.set_config("hawaiian", "retention.ms", str(age_ms))
        self._wait(lambda: self._offsets(broker, "hawaiian")[0]["log_start"] >= kept_from - 1, "retention")
        start = self._offsets(broker, "hawaiian")[0]["log_start"]
        self._say(
            f"The {len(sample)} flights to Honolulu went into a second topic whose retention ends on 1 July 2013, "
            f"by record time: its log now starts at offset {start}."
        )
        self._compare("first offset kept in 'hawaiian'", start, kept_from)

    def _tier(self, broker: Broker, topics: list[str]) -> None:
        self._chapter("2. Frozen ranges move to the bucket and leave the disk")
        during = broker.metrics().get("kafka_server_brokertopicmetrics_remotecopybytes_total", 0)
        self._say(f"While the load ran, {during / 1e6:.0f} MB were already uploaded.")
        loader = Loader(broker.kafka)
        for topic in topics:
            # From here on the tick freezes the idle tail, counting wall-clock time since its first append.
            loader.set_config(topic, "segment.ms", "1000")
        for topic in topics:
            self._wait(
                lambda topic=topic: all(row["remote_end"] == row["log_end"] for row in self._offsets(broker, topic)),
                f"{topic} to be archived",
            )
            # Local retention works on frozen segments that are safely archived.
            self._wait(lambda topic=topic: self._trimmed(broker, topic), f"{topic} to leave the disk")
            rows = self._offsets(broker, topic)
            self._table(topic, rows)
            fewest = min(row["objects"] for row in rows if row["log_end"] > row["log_start"])
            self._compare(f"every partition of {topic} with data has at least ten ranges", fewest >= 10, True)

    def _trimmed(self, broker: Broker, topic: str) -> bool:
        rows = [row for row in self._offsets(broker, topic) if row["log_end"] > row["log_start"]]
        return any(row["local_start"] > row["log_start"] for row in rows) and all(
            row["local_bytes"] <= 4 << 20 for row in rows
        )

    def _table(self, topic: str, rows: list[dict[str, Any]]) -> None:
        table = Table(title=f"tier of {topic}", title_justify="left")
        for name in (
            "partition",
            "log start",
            "local start",
            "remote end",
            "log end",
            "local bytes",
            "remote bytes",
            "objects",
        ):
            table.add_column(name, justify="right")
        for row in rows:
            table.add_row(
                *(f"{row[name.replace(' ', '_')]:,}" for name in map(str, (column.header for column in table.columns)))
            )
        self._console.print(table)

    def _read_back(self, broker: Broker, expected: dict[str, Fingerprint]) -> None:
        self._chapter("3. Another process reads all of it through one logical view")
        for topic, wanted in expected.items():
            before = broker.metrics()
            found = self._python(
                "demo.reader", "--bootstrap", broker.kafka, "--topic", topic, "--partitions", str(PARTITIONS)
            )
            after = broker.metrics()
            gets = self._delta(before, after, "stratalog_tier_gets_total")
            remote = self._delta(before, after, "kafka_server_brokertopicmetrics_remotefetchbytes_total")
            border = self._delta(before, after, "stratalog_tier_border_reads_total")
            self._say(
                f"{topic}: {found['value_bytes'] / 1e6:.0f} MB of values in {found['seconds']:.1f} s; {gets:.0f} GETs brought "
                f"{remote / 1e6:.0f} MB from the bucket; {border:.0f} readers crossed from the bucket to the local disk."
            )
            self._compare(f"{topic} as a Kafka client sees it", _fingerprint(found["partitions"]), wanted)
            self._compare("some reader crossed the border", border > 0, True)

    def _fourth_of_july(self, broker: Broker) -> None:
        self._chapter("4. One day, found by timestamp")
        before = broker.metrics()
        found = self._python(
            "demo.reader", "--bootstrap", broker.kafka, "--topic", "flights", "--partitions", str(PARTITIONS),
            "--from-ms", str(DAY_START_MS), "--until-ms", str(DAY_END_MS),
        )  # fmt: skip
        after = broker.metrics()
        table = flights()
        wanted = int(((table["month"] == 7) & (table["day"] == 4)).sum())
        remote = self._delta(before, after, "kafka_server_brokertopicmetrics_remotefetchbytes_total")
        gets = self._delta(before, after, "stratalog_tier_gets_total")
        self._say(
            f"ListOffsets found 4 July 2013 at the cost of {remote / 1e6:.1f} MB and {gets:.0f} GETs from the bucket."
        )
        self._compare(
            "flights on 4 July 2013, by timestamp and by pandas", _fingerprint(found["partitions"]).count, wanted
        )

    def _groups(self, broker: Broker, wanted: Fingerprint) -> None:
        self._chapter("5. A group shares the load, and a job copies exactly once")
        started = time.monotonic()
        arguments = ["--bootstrap", broker.kafka, "--group", "readers", "--topic", "flights"]
        share = str(PARTITIONS // 2)
        members = [self._start("demo.member", *arguments, "--share", share) for _ in range(2)]
        shares = [self._finish(member)["partitions"] for member in members]
        seconds = time.monotonic() - started
        self._say(
            f"Two consumers of one group read {' and '.join(', '.join(one) for one in shares)} in {seconds:.1f} s."
        )
        self._compare("partitions that both were given", ", ".join(set(shares[0]) & set(shares[1])) or "none", "none")
        self._compare("flights as the group sees it", _fingerprint({**shares[0], **shares[1]}), wanted)

    def _exactly_once(self, broker: Broker, loaded: Loaded, events: list[Event]) -> None:
        Loader(broker.kafka).create_topic("delayed", PARTITIONS, TIERED)
        arguments = ["--bootstrap", broker.kafka, "--source", "flights", "--target", "delayed"]
        job = self._start("demo.copier", *arguments)
        assert job.stdout is not None
        looked_at = 0
        while looked_at < len(events) // 2:
            looked_at = int(job.stdout.readline())
        job.kill()
        job.communicate()
        again = self._start("demo.copier", *arguments)
        out, _ = again.communicate(timeout=120)
        self._compare("the second run of the job ended well", again.returncode, 0)
        transactions = out.decode().split()
        self._say(
            f"A job copied the flights that left over an hour late into 'delayed'. It was killed after {looked_at:,} "
            f"flights; a second run looked at {int(transactions[-1]):,} more in {len(transactions)} transactions."
        )
        found = self._python(
            "demo.reader", "--bootstrap", broker.kafka, "--topic", "delayed", "--partitions", str(PARTITIONS),
            "--no-offsets",
        )  # fmt: skip
        wanted = {}
        for number, rows in loaded.landed.items():
            late = (events[index] for _, index in rows if is_delayed(events[index].value))
            counted = ((at, event.key, event.value, event.timestamp_ms) for at, event in enumerate(late))
            wanted[number] = partition_digest(number, counted)
        self._compare("'delayed' and a plain filter of the source", _fingerprint(found["partitions"]), combine(wanted))

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._data / f"{module.rpartition('.')[2]}.log").open("a") as log:
            return subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, stderr=log)

    def _finish(self, process: subprocess.Popen[bytes]) -> Any:
        out, _ = process.communicate(timeout=120)
        if process.returncode:
            raise SystemExit(f"{process.args!r} failed; its log is in {self._data}")
        return json.loads(out)

    def _spark(self, expected: dict[str, Fingerprint]) -> None:
        found = self._python(
            "demo.spark_side", "--bucket", self._bucket, "--topics", ",".join(expected), "--out", str(self._data)
        )
        for topic, wanted in expected.items():
            self._say(
                f"Spark {found['spark']} read {topic} from the bucket in {found[topic]['seconds']:.1f} s, twice over."
            )
            self._compare(f"{topic} as Spark counts it", found[topic]["count"], wanted.count)
            self._compare(f"{topic} as Spark sees it", _fingerprint(found[topic]["partitions"]), wanted)
        table = flights()
        self._compare("delay by carrier, Spark SQL and pandas", found["by_carrier"], _delays(table, "carrier"))
        self._compare("delay by month, Spark SQL and pandas", found["by_month"], _delays(table, "month"))
        parquet = found["parquet"]
        self._say(
            f"A backfill to Parquet files, and a second one that finds nothing new, took {parquet['seconds']:.1f} s."
        )
        self._compare("rows of both backfills", parquet["rows"], [expected["flights"].count, 0])
        self._compare(
            f"Parquet beside it ({parquet['bytes'] / 1e6:.0f} MB), read back",
            _fingerprint(parquet["partitions"]),
            expected["flights"],
        )
        self._say(f"Delays by month are drawn in {found['chart']}.")

    def _python_readers(self, expected: dict[str, Fingerprint]) -> None:
        found = self._python("demo.python_side", "--bucket", self._bucket, "--topics", ",".join(expected))
        for topic, wanted in expected.items():
            self._say(f"stratalog.open read {topic} from the bucket in {found[topic]['seconds']:.1f} s, without Java.")
            self._compare(f"{topic} as Python sees it", _fingerprint(found[topic]["partitions"]), wanted)
        what = f"delay by carrier, DuckDB {found['duckdb']} and pandas"
        self._compare(what, found["by_carrier"], _delays(flights(), "carrier"))

    def _farewell(self, topics: list[str]) -> None:
        here = self._data
        if self._bucket.startswith("file:") or os.environ.get("S3_ENDPOINT"):
            self._chapter("Go on from here")
            self._say(
                f"  stratalog serve --config {here}/server.properties --data {here}/broker --bucket {self._bucket}"
            )
            self._say(f"  kcat -b 127.0.0.1:9092 -C -t {topics[0]} -o beginning -c 3")
            manifest = next(here.glob("bucket/topics/*/0000000000/manifest.json"), None)
            if manifest is not None:
                self._say(f"  stratalog dump {manifest}")
            self._say(f"""  spark.read.format("stratalog").option("subscribe", "{topics[0]}").load("{self._bucket}")""")
        else:
            self._say("\nThe S3 server kept its objects in memory and is gone; S3_ENDPOINT=… names one that stays.")
        self._say("\n[green]Everything held.[/]" if self._held else "\n[red]Something is broken: see above.[/]")

    # -- plumbing ---------------------------------------------------------------------------------------------

    def _offsets(self, broker: Broker, topic: str) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"http://{broker.http}/tier/status?topic={topic}", timeout=30) as answer:
            return list(json.load(answer)["partitions"])

    def _wait(self, condition: Any, what: str) -> None:
        deadline = time.monotonic() + 90
        while not condition():
            if time.monotonic() > deadline:
                raise SystemExit(f"waited 90 s for {what}, in vain; the broker's log is {self._data}/broker.log")
            time.sleep(0.1)

    def _delta(self, before: dict[str, float], after: dict[str, float], name: str) -> float:
        return after[name] - before.get(name, 0.0)

    def _python(self, module: str, *arguments: str) -> Any:
        with (self._data / f"{module.rpartition('.')[2]}.log").open("a") as log:
            result = subprocess.run(
                [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, stderr=log, check=False
            )
        if result.returncode != 0:
            raise SystemExit(f"{module} failed; its log is {log.name}:\n{Path(log.name).read_text()[-2000:]}")
        return json.loads(result.stdout.splitlines()[-1])


def _fingerprint(partitions: dict[str, tuple[int, str]]) -> Fingerprint:
    return combine({int(partition): (count, digest) for partition, (count, digest) in partitions.items()})


def _delays(table: pd.DataFrame, by: str) -> list[list[Any]]:
    grouped = table.groupby(by)["dep_delay"]
    sizes = table.groupby(by).size()
    return [[key, int(sizes[key]), round(float(mean), 2)] for key, mean in grouped.mean().items()]
