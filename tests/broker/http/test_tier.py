"""``GET /v1/tier`` and its events, of a whole broker."""

import http.client
import json

import pytest

from stratalog.client.admin import delete_topics


@pytest.fixture
def connect(broker):
    """A connection to the broker's HTTP side."""
    opened = []

    def open_one():
        opened.append(http.client.HTTPConnection(*broker.node.http_address, timeout=20))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def get(connection, path, **headers):
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def events(response):
    """(name, data) of each event, as they come."""
    name = ""
    for line in response:
        key, _, value = line.decode().rstrip("\n").partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            yield name, json.loads(value)


def rows_of(stream, topic):
    """The rows of one topic in the next event that has some."""
    for name, data in stream:
        if name == "rows" and (found := [row for row in data["rows"] if row["topic"] == topic]):
            return found
    raise AssertionError("the stream has ended")


def test_a_snapshot_has_the_figures_and_a_row_for_every_partition(broker, connect):
    """In order; of one topic only if one is named; the figures are of all."""
    broker.create("b", 2)
    broker.create("a", remote_storage_enable="true")
    broker.produce("a", b"x")
    said = json.load(get(connect(), "/v1/tier"))
    assert [(row["topic"], row["partition"]) for row in said["rows"]] == [("a", 0), ("b", 0), ("b", 1)]
    assert (said["partitions"], said["tiered_partitions"]) == (3, 1)
    assert said["bucket"]["url"] == broker.node.config.bucket_url
    assert said["rows"][0]["spans"]["local"] == 1
    assert said["rows"][0]["at_risk"]["offset"] == 0
    one = json.load(get(connect(), "/v1/tier?topic=b"))
    assert [row["topic"] for row in one["rows"]] == ["b", "b"]
    assert json.load(get(connect(), "/v1/tier?topic=absent"))["rows"] == []


def test_events_begin_with_everything_and_go_on_with_what_changes(broker, connect):
    """Only the row that changed is sent again; a topic that is deleted is listed as gone."""
    broker.create("a", 2)
    broker.create("b")
    response = get(connect(), "/v1/tier/events")
    assert response.headers["Content-Type"].startswith("text/event-stream")
    stream = events(response)
    first = [next(stream) for _ in range(3)]
    assert [name for name, _ in first] == ["begin", "summary", "rows"]
    assert {(row["topic"], row["partition"]) for row in first[2][1]["rows"]} == {("a", 0), ("a", 1), ("b", 0)}
    broker.produce("a", b"x", partition=1)
    (row,) = rows_of(stream, "a")
    assert (row["partition"], row["log_end"]) == (1, 1)
    delete_topics(broker.client(), ["b"])
    assert next(data["gone"] for name, data in stream if name == "rows" and data["gone"]) == [["b", 0]]


def test_a_stopping_broker_ends_its_streams(broker, connect):
    """It does not wait for those who would listen for ever."""
    response = get(connect(), "/v1/tier/events")
    next(events(response))
    broker.stop()
    assert list(events(response))[2:] == []


def test_another_name_for_this_machine_is_refused(broker, connect):
    """421 for every path of the page and its data."""
    for path in ("/", "/v1/tier", "/v1/tier/events", "/page/page.js"):
        assert get(connect(), path, Host="evil.example").status == 421


def test_a_verification_is_reported_over_http_and_shown(broker, connect):
    """The latest one; what is about another bucket is refused, and so is what a form of a web page could send."""

    def tell(content_type="application/json", **body):
        connection = connect()
        connection.request("POST", "/v1/tier/verification", json.dumps(body), {"Content-Type": content_type})
        answer = connection.getresponse()
        return answer.status, json.load(answer)

    assert json.load(get(connect(), "/v1/tier"))["verification"] is None
    known = {"bucket": broker.node.config.bucket_url, "deep": True, "partitions": 1, "objects": 2, "size_bytes": 3}
    assert tell(**known, anomalies=0)[0] == 200
    assert tell(**{**known, "bucket": "s3://other"}, anomalies=4)[0] == 400
    assert tell(content_type="text/plain", **known, anomalies=5)[0] == 415
    broker.node.tier_watch._looked_at = float("-inf")
    shown = json.load(get(connect(), "/v1/tier"))["verification"]
    assert (shown["anomalies"], shown["deep"], shown["objects"]) == (0, True, 2)
    assert shown["told_ms"] > 0
