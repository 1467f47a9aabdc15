"""A bucket that cannot be reached, and a worker that hangs: shown within seconds wherever one looks, and over by itself."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
import urllib.request

import pytest

from stratalog.client.admin import create_topic
from stratalog.client.client import Client
from stratalog.client.records import produce_batches
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition

TIERED = {"remote.storage.enable": "true", "internal.segment.bytes": "2000", "retention.ms": "-1"}
SHOWN_SECONDS = 5
LOAD_SECONDS = 10
"""Time that other work on the machine may add."""


@pytest.fixture(params=["refused", "silent"])
def endpoint(request):
    """A port without a listener, or one that accepts connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if request.param == "silent":
            listener.listen(100)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def get(broker, path):
    with urllib.request.urlopen(f"http://{broker.http}{path}", timeout=10) as answer:
        return answer.status, answer.read().decode()


def write(broker):
    with Client(broker.address) as client:
        for number in range(3):
            records = [Record(n, 1000 + n, None, b"%d" % number + b"." * 700) for n in range(2)]
            (answer,) = produce_batches(client, {TopicPartition("t", 0): build_batch(records)}, acks=-1).values()
            assert answer.error_code == 0


def waited(condition, seconds):
    """The first result of ``condition``, and the time until it came."""
    began = time.monotonic()
    while not (found := condition()):
        assert time.monotonic() - began < seconds, "what was waited for did not happen"
        time.sleep(0.05)
    return found, time.monotonic() - began


@pytest.mark.story
def test_an_unreachable_bucket_is_shown_within_seconds(serve_process, endpoint, monkeypatch):
    """/readyz stays 200 and says it when asked; so do page, metrics and log; claims that fail are errors of copying."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    broker = serve_process(stratalog_bucket_url="s3://bucket/prefix", stratalog_bucket_endpoint_url=endpoint)
    with Client(broker.address) as client:
        create_topic(client, "t", partition_count=1, configs=TIERED)
    write(broker)

    def told():
        status, text = get(broker, "/readyz?verbose")
        assert (status, text.splitlines()[0]) == (200, "ok")
        return re.search(r"problem: the bucket has not answered for (\d+) s: .+", text)

    _, seconds = waited(told, SHOWN_SECONDS + LOAD_SECONDS)
    print(f"shown after {seconds:.1f} s")
    assert get(broker, "/readyz") == (200, "ok\n")
    bucket = json.loads(get(broker, "/v1/tier")[1])["bucket"]
    assert (bucket["state"], bool(bucket["last_error"])) == ("failing", True)
    assert "stratalog_tier_bucket_up 0.0" in get(broker, "/metrics")[1]
    if "refused" in bucket["last_error"].lower() or "connect" in bucket["last_error"].lower():
        errors = 'kafka_server_brokertopicmetrics_remotecopyerrors_total{topic="t"} '
        waited(lambda: f"{errors}0.0" not in get(broker, "/metrics")[1], SHOWN_SECONDS + LOAD_SECONDS)
        line, _ = waited(lambda: re.search("t-0: claim did not succeed.*", broker.errors()), LOAD_SECONDS)
        assert "delete_many" not in line[0]
    waited(lambda: re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ \w+ worker ", broker.errors(), re.MULTILINE), 60)


@pytest.mark.slow
def test_a_stopped_worker_is_shown_and_replaced(serve_process):
    """Uploads go on under another process, the first was not continued."""
    broker = serve_process()
    with Client(broker.address) as client:
        create_topic(client, "t", partition_count=1, configs=TIERED)
    write(broker)

    def worker():
        return re.findall(r"started the io worker, process (\d+)", broker.errors())

    waited(lambda: "stratalog_tier_bucket_up 1.0" in get(broker, "/metrics")[1], 30)
    (first,) = worker()
    os.kill(int(first), signal.SIGSTOP)
    write(broker)
    _, seconds = waited(lambda: "given no sign of life" in get(broker, "/readyz?verbose")[1], 30)
    print(f"shown after {seconds:.1f} s")
    waited(lambda: len(worker()) == 2, 60)
    waited(lambda: json.loads(get(broker, "/v1/tier")[1])["worker"]["problem"] == "", 60)
    assert 'stratalog_worker_hangs_total{worker="io"} 1.0' in get(broker, "/metrics")[1]
    assert f"the io worker, process {first}, hangs and is killed" in broker.errors()
