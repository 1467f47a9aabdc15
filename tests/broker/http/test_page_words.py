"""The texts of the page (``broker/http/page/words.js``): pure functions, run by Node where there is one."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

WORDS = Path(__file__).resolve().parents[3] / "broker" / "http" / "page" / "words.js"
CALL = """
import { readFileSync } from "node:fs";
const words = await import(process.argv[1]);
const calls = JSON.parse(readFileSync(0));
console.log(JSON.stringify(calls.map(([name, ...given]) => words[name](...given))));
"""
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


@pytest.fixture(scope="module")
def say():
    """The results of these functions for these arguments, in one run."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("the words of the page are tried with Node: there is none on the PATH")

    def say(*calls):
        done = subprocess.run(
            [node, "--no-warnings", "--input-type=module", "-e", CALL, str(WORDS)],
            input=json.dumps(calls), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return say


def summary(**changes):
    """A broker where all is well."""
    well = {
        "now_ms": 10 * DAY,
        "bucket": {"url": "s3://b", "state": "ok", "failing_since_ms": None, "last_error": ""},
        "partitions": 9, "tiered_partitions": 7, "tiered_topics": 3, "problems": 0,
        "local_bytes": 1 << 20, "remote_bytes": 3 << 30,
        "lag": {"offsets": 0, "bytes": 0, "since_ms": None},
        "at_risk": None,
        "trash": {"items": 0, "size_bytes": 0, "leased_items": 0, "jobs": 0},
        "cache": {"used_bytes": 0, "limit_bytes": 10, "hits": 0, "misses": 0, "hit_rate": None},
        "errors": {"copy": 0, "fetch": 0, "delete": 0},
        "uploads": {"running": [], "waiting": 0},
        "read_back_ms": None, "verification": None,
    }  # fmt: skip
    return {**well, **changes}


def test_bytes_and_times_are_short(say):
    """One or two figures and the unit that fits."""
    sizes = {0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 150 << 20: "150 MiB", 3 << 40: "3.0 TiB", 1 << 62: "4096 PiB"}
    assert say(*(["bytes", size] for size in sizes)) == list(sizes.values())
    times = {
        -5: "0 s", 59 * SECOND: "59 s", 95 * SECOND: "1 min 35 s", 10 * MINUTE + SECOND: "10 min", HOUR: "1 h",
        2 * HOUR + 5 * MINUTE: "2 h 5 min", 47 * HOUR: "47 h", 50 * HOUR: "2 days 2 h", 400 * DAY: "400 days",
    }  # fmt: skip
    assert say(*(["duration", time] for time in times)) == list(times.values())


def test_a_share_is_never_rounded_to_nothing_or_everything(say):
    """0 % and 100 % are said of nothing else."""
    shares = [(0, 0), (0, 7), (1, 1000), (1, 3), (999, 1000), (7, 7)]
    assert say(*(["percent", *one] for one in shares)) == ["0 %", "0 %", "< 1 %", "33 %", "> 99 %", "100 %"]


def test_a_bar_is_a_sentence(say):
    """In the order of offsets, without what is not there."""
    none = dict.fromkeys(("remote", "both", "waiting", "local", "missing"), 0)
    some = {**none, "remote": 60, "waiting": 30, "missing": 10}
    assert say(["barText", none], ["barText", some]) == [
        "empty",
        "60 % in the bucket only, 30 % waiting for the bucket, 10 % in neither",
    ]


def test_the_first_sentence_is_the_worst_that_is_known(say):
    """A worker that hangs, then the bucket, then problems, then lag; an empty broker is no alarm."""
    away = {"url": "s3://b", "state": "failing", "failing_since_ms": 10 * DAY - 5 * MINUTE, "last_error": "refused"}
    lag = {"offsets": 5, "bytes": 2048, "since_ms": 10 * DAY - MINUTE}
    told = say(
        ["said", summary(bucket=away, problems=2, lag=lag)],
        ["said", summary(problems=1, lag=lag)],
        ["said", summary(lag=lag)],
        ["said", summary()],
        ["said", summary(tiered_partitions=0)],
        ["said", summary(bucket={"url": "s3://b", "state": "ok", "read_only": True})],
        ["said", summary(bucket=away, problems=1, worker={"problem": "the io worker hung"})],
    )
    assert [one["level"] for one in told] == ["alarm", "alarm", "busy", "calm", "calm", "calm", "alarm"]
    assert (told[6]["headline"], told[6]["error"]) == (
        "The process that talks to the bucket hangs",
        "the io worker hung",
    )
    assert told[0]["headline"] == "The bucket has not answered for 5 min"
    assert "2.0 KiB wait on this disk" in told[0]["detail"]
    assert told[0]["error"] == "refused"
    assert told[1]["headline"] == "1 partition needs attention"
    assert told[2]["headline"] == "2.0 KiB on the way to the bucket"
    assert told[2]["detail"].endswith("5 offsets wait, the oldest for 1 min.")
    assert told[3]["headline"] == "Everything that is due is in the bucket"
    assert told[4]["headline"] == "No topic is tiered yet"
    assert told[5]["headline"] == "The bucket is mounted for reading"
    assert told[5]["detail"] == "3 topics, 7 partitions: 3.0 GiB in the bucket. The mount never writes to it."


def test_figures_that_are_not_known_are_not_invented(say):
    """A dash and why, instead of a zero; errors are named by what failed."""
    cache = {"used_bytes": 5, "limit_bytes": 10, "hits": 3, "misses": 1, "hit_rate": 0.75}
    quiet, busy = say(
        ["figures", summary()],
        ["figures", summary(cache=cache, errors={"copy": 2, "fetch": 0, "delete": 1}, read_back_ms=10 * DAY - HOUR)],
    )
    quiet, busy = ({name: rest for name, *rest in one} for one in (quiet, busy))
    assert quiet["cache"][:2] == ["–", "no reads from the bucket yet"]  # noqa: RUF001 - what the page shows
    assert quiet["verified"][0] == "–"  # noqa: RUF001
    assert quiet["errors"] == ["0", "none", False]
    assert busy["errors"] == ["3", "2 uploading, 1 deleting", True]
    assert busy["cache"][:2] == ["75 %", "1 of 4 fetched; 5 B of 10 B used"]
    assert busy["verified"][0] == "1 h ago"


def test_the_trash_says_what_waits_and_for_whom(say):
    """Leases and jobs only where there are any."""
    some = {"items": 3, "size_bytes": 5 << 20, "leased_items": 2, "jobs": 1}
    one = {"items": 1, "size_bytes": 5, "leased_items": 0, "jobs": 0}
    told = say(
        *(["figures", summary(trash=trash)] for trash in (some, one, {**one, "items": 0, "size_bytes": 0, "jobs": 2}))
    )
    assert [next(rest for name, *rest in figures if name == "trash") for figures in told] == [
        ["5.0 MiB", "3 objects or pages wait to be removed, 2 held by leases; 1 job listed", False],
        ["5 B", "1 object or page waits to be removed", False],
        ["0 B", "nothing waits to be removed; 2 jobs listed", False],
    ]


def test_a_verification_counts_more_than_a_read_back(say):
    """With what it looked at and found; anomalies are alarming."""
    told = {"told_ms": 10 * DAY - HOUR, "deep": True, "topics": [], "partitions": 7, "objects": 9, "anomalies": 0}
    clean, found = say(
        ["figures", summary(verification=told, read_back_ms=10 * DAY)],
        ["figures", summary(verification={**told, "deep": False, "topics": ["a"], "anomalies": 2})],
    )
    assert clean[-1] == ["verified", "1 h ago", "clean (deep, all topics)", False, "Last verification"]
    assert found[-1] == ["verified", "1 h ago", "2 anomalies (shallow, 1 topic)", True, "Last verification"]


def test_the_replicas_of_the_cluster_are_a_sentence(say):
    """All is well, or the counts of what is not; before they are counted there is none."""
    counts = {"partitions": 1200, "without_leader": 0, "under_replicated": 0, "reassigning": 0}
    assert say(
        ["replicaNote", None],
        ["replicaNote", counts],
        ["replicaNote", counts | {"without_leader": 1, "under_replicated": 20}],
    ) == [
        "",
        "All replicas of 1,200 partitions are in sync. ",
        "Of 1,200 partitions 1 is without a leader, 20 are under-replicated. ",
    ]


def test_a_partition_says_its_place_among_replicas(say):
    """A problem comes first; a partition of one replica says its state alone, as before."""
    alone = {
        "problem": None,
        "tiered": True,
        "state": "held",
        "state_text": "archiving",
        "replicas": [1],
        "in_sync": [1],
    }
    three = alone | {"replicas": [1, 2, 3], "in_sync": [1, 2, 3]}
    assert say(
        ["remarkOf", alone],
        ["remarkOf", alone | {"state_text": "taking over its archive"}],
        ["remarkOf", three],
        ["remarkOf", three | {"in_sync": [1], "state_text": "taking over its archive"}],
        ["remarkOf", three | {"problem": "broken"}],
        ["remarkOf", alone | {"state": "copy", "leader": 2}],
    ) == [
        "",
        "taking over its archive",
        "leader; replicas on nodes 1, 2, 3, all in sync",
        "leader; replicas on nodes 1, 2, 3, not in sync: 2, 3; taking over its archive",
        "broken",
        "copy; node 2 leads",
    ]
