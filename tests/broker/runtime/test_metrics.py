import pytest
from prometheus_client.parser import text_string_to_metric_families

from stratalog.broker.runtime import metrics as metrics_module
from stratalog.broker.runtime.metrics import Metrics, TopicMetrics


@pytest.fixture
def metrics():
    """An empty set of figures."""
    return Metrics()


def samples(metrics):
    """Every exposed sample as {(name, labels): value}."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def test_topic_figures_have_kafkas_names(metrics):
    """Bytes, messages and remote figures of a topic appear under the names that dashboards for Kafka ask for."""
    orders = metrics.topic("orders")
    orders.bytes_in += 100
    orders.messages_in += 3
    orders.remote_copy_lag_bytes = 7
    orders.remote_fetch_requests += 2
    found = samples(metrics)
    label = (("topic", "orders"),)
    assert found["kafka_server_brokertopicmetrics_bytesin_total", label] == 100
    assert found["kafka_server_brokertopicmetrics_messagesin_total", label] == 3
    assert found["kafka_server_brokertopicmetrics_bytesout_total", label] == 0
    assert found["kafka_server_brokertopicmetrics_remotecopylagbytes", label] == 7
    assert found["kafka_server_brokertopicmetrics_remotefetchrequests_total", label] == 2


def test_every_topic_figure_is_exposed_exactly_once():
    """No counter is collected in vain: each attribute has a name, and no name is used twice."""
    names = {**metrics_module._TOPIC_COUNTERS, **metrics_module._TOPIC_GAUGES}
    assert set(names) == set(TopicMetrics.__slots__)
    assert len(set(names.values())) == len(names)


def test_a_deleted_topic_disappears(metrics):
    """Its figures are dropped; a topic created again begins at zero."""
    metrics.topic("gone").bytes_in = 5
    metrics.forget_topic("gone")
    metrics.forget_topic("never there")
    assert ("kafka_server_brokertopicmetrics_bytesin_total", (("topic", "gone"),)) not in samples(metrics)
    assert metrics.topic("gone").bytes_in == 0


def test_request_times_are_a_histogram_in_milliseconds(metrics):
    """Buckets are cumulative powers of two; very long times are in the last one; the sum is exact."""
    figures = metrics.api("Fetch", 12)
    for microseconds in (0, 1, 1000, 1_000_000, 10**12):
        figures.time_us += microseconds
        figures.time_buckets[microseconds.bit_length()] += 1
    figures.errors += 1
    assert figures.requests == 5
    found = samples(metrics)
    labels = (("request", "Fetch"), ("version", "12"))
    assert found["kafka_network_requestmetrics_requests_total", labels] == 5
    assert found["kafka_network_requestmetrics_errors_total", labels] == 1
    name = (("request", "Fetch"),)
    assert found["kafka_network_requestmetrics_totaltimems_count", name] == 5
    assert found["kafka_network_requestmetrics_totaltimems_sum", name] == 1_000_001_001.001
    buckets = {
        dict(label)["le"]: value
        for (name, label), value in found.items()
        if name == "kafka_network_requestmetrics_totaltimems_bucket"
    }
    assert buckets["0.001"] == 1
    assert buckets["0.002"] == 2
    assert buckets["1.024"] == 3
    assert buckets["1048.58"] == 4
    assert buckets["33554.4"] == 4
    assert buckets["+Inf"] == 5


def test_times_are_joined_over_versions_and_silent_versions_are_left_out(metrics):
    """One histogram for an API, and no lines for versions without requests."""
    for version in range(20):
        metrics.api("Metadata", version)
    for version in (3, 4):
        metrics.api("Metadata", version).time_buckets[5] += 2
    found = samples(metrics)
    assert found["kafka_network_requestmetrics_totaltimems_count", (("request", "Metadata"),)] == 4
    counted = [labels for name, labels in found if name == "kafka_network_requestmetrics_requests_total"]
    assert sorted(dict(labels)["version"] for labels in counted) == ["3", "4"]


def test_api_figures_are_kept_by_name_and_version(metrics):
    """Asking again gives the same object."""
    assert metrics.api("Produce", 9) is metrics.api("Produce", 9)
    assert metrics.api("Produce", 9) is not metrics.api("Produce", 10)


def test_other_parts_add_gauges_and_counters_that_are_asked_at_each_scrape(metrics):
    """A gauge shows the value of the moment; one without any rows is still valid text."""
    values = {"a": 1.0}
    metrics.add_gauge("stratalog_test_level", "A level.", lambda: [({"of": key}, v) for key, v in values.items()])
    metrics.add_counter("stratalog_test_events", "Events.", lambda: [({}, 3)])
    metrics.add_gauge("stratalog_test_nothing", "Nothing.", list)
    assert samples(metrics)["stratalog_test_level", (("of", "a"),)] == 1
    values["a"] = 2.0
    found = samples(metrics)
    assert found["stratalog_test_level", (("of", "a"),)] == 2
    assert found["stratalog_test_events_total", ()] == 3


def test_figures_are_brought_up_to_date_at_each_scrape(metrics):
    """Before anything of them is shown."""

    def refresh():
        metrics.topic("t").remote_log_size_bytes += 5
        yield

    metrics.before_collecting(refresh)
    for size_bytes in (5, 10):
        found = samples(metrics)
        assert found["kafka_server_brokertopicmetrics_remotelogsizebytes", (("topic", "t"),)] == size_bytes


def test_network_figures_are_exposed(metrics):
    """Every slot of the network figures has a text and a sample."""
    metrics.network.sendfile_bytes = 12
    assert set(metrics_module._NETWORK_TEXTS) == set(metrics.network.__slots__)
    assert samples(metrics)["stratalog_network_sendfile_bytes_total", ()] == 12


def test_two_brokers_in_one_process_do_not_share_figures():
    """No global registry: tests and several nodes in one process stay apart."""
    first, second = Metrics(), Metrics()
    first.topic("t").bytes_in = 1
    assert b'topic="t"' not in second.render()


def test_a_figure_of_two_servers_stands_once():
    """Values of equal labels are added up; others stand beside each other."""
    metrics = Metrics()
    for name, bytes_used in (("CLIENTS", 3), ("CONTROLLER", 4)):
        metrics.add_gauge("connections", "By listener.", lambda name=name: [({"listener": name}, 1)])
        metrics.add_gauge("memory", "Of all.", lambda used=bytes_used: [({}, used)])
        metrics.add_counter("closed", "Of all.", lambda used=bytes_used: [({}, used)])
    text = metrics.render().decode()
    assert 'connections{listener="CLIENTS"} 1.0' in text
    assert 'connections{listener="CONTROLLER"} 1.0' in text
    assert text.count("\nmemory 7.0") == text.count("\nclosed_total 7.0") == 1
    assert text.count("# TYPE memory") == 1
