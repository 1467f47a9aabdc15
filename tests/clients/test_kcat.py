"""kcat from the system's packages: an older librdkafka than the Python client brings, with older versions of the APIs."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="there is no kcat on the PATH")


@pytest.fixture(scope="module")
def broker(start_shared_node):
    """A broker with quick groups."""
    return start_shared_node(group_initial_rebalance_delay_ms=0)


@pytest.fixture
def kcat(broker):
    """Runs kcat to its end; what it printed."""

    def run(*arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            ["kcat", "-b", broker.address, *arguments],
            input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_with_keys_and_headers(kcat, broker, codec):
    """Written with -P and read with -C in every codec."""
    topic = f"kcat-{codec}"
    broker.create(topic)
    lines = "".join(f"k{n}:value {n}\n" for n in range(100))
    kcat("-P", "-t", topic, "-K:", "-z", codec, "-H", "one=1", stdin=lines)
    assert kcat("-C", "-t", topic, "-e", "-q", "-K:", "-f", "%o %h %k:%s\n") == "".join(
        f"{n} one=1 k{n}:value {n}\n" for n in range(100)
    )
    assert kcat("-C", "-t", topic, "-e", "-q", "-o", "-3") == "value 97\nvalue 98\nvalue 99\n"


def test_a_group_goes_on_where_it_was(kcat, broker):
    """Run twice with -G: the second time only what is new."""
    broker.create("kcat-group", 3)
    for first in (0, 30):
        lines = [f"value {n}" for n in range(first, first + 30)]
        kcat("-P", "-t", "kcat-group", stdin="\n".join(lines) + "\n")
        said = kcat("-G", "kcat", "-e", "-q", "-X", "auto.offset.reset=earliest", "kcat-group")
        assert sorted(said.splitlines()) == sorted(lines)


def test_a_transaction_of_kcat_is_seen_when_it_commits(kcat, broker):
    """Standard input in one transaction, seen by those who read committed records."""
    broker.create("kcat-transaction")
    kcat("-P", "-t", "kcat-transaction", "-X", "transactional.id=kcat", stdin="1\n2\n3\n")
    said = kcat("-C", "-t", "kcat-transaction", "-c", "3", "-q", "-X", "isolation.level=read_committed")
    assert said == "1\n2\n3\n"


def test_metadata_and_offsets_by_time(kcat, broker):
    """-L lists the topic and its leaders, -Q finds offsets."""
    broker.create("kcat-list", 2)
    kcat("-P", "-t", "kcat-list", "-p", "1", stdin="a\nb\n")
    listed = json.loads(kcat("-L", "-J"))
    (topic,) = [one for one in listed["topics"] if one["topic"] == "kcat-list"]
    assert [(one["partition"], one["leader"]) for one in topic["partitions"]] == [(0, 1), (1, 1)]
    assert kcat("-Q", "-t", "kcat-list:1:-1").strip() == "kcat-list [1] offset 2"
    assert kcat("-Q", "-t", "kcat-list:1:1").strip() == "kcat-list [1] offset 0"
