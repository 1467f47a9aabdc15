"""The figures of a controller."""

from types import SimpleNamespace

from stratalog.broker.control.controller_metrics import add_controller_metrics
from stratalog.broker.runtime.metrics import Metrics


def test_figures_have_kafkas_names_and_follow_the_cluster(memory_controller):
    """They are asked for at each scrape."""
    one = memory_controller()
    office = SimpleNamespace(is_active=True, high_watermark=0)
    metrics = Metrics()
    add_controller_metrics(metrics, office=office, cluster=one.cluster, sessions=one.sessions, clock=one.clock)

    def figures():
        lines = metrics.render().decode().splitlines()
        start = "kafka_controller_kafkacontroller_"
        rows = [line.removeprefix(start).split() for line in lines if line.startswith(start)]
        return {name: int(float(value)) for name, value in rows}

    one.start(1, 2, 3)
    one.topic("t", (1, 2), (2, 1), (3,))
    one.topic("u", (1,))
    one.beat(3, wants_fence=True)
    one.beat(2, wants_fence=True)
    office.high_watermark = len(one.log.records)
    one.sessions.timed_out_count = 4
    last = len(one.log.records) - 1
    written_ms = one.clock.wall_ms()
    assert figures() == {
        "activecontrollercount": 1,
        "activebrokercount": 1,
        "fencedbrokercount": 2,
        "globaltopiccount": 2,
        "globalpartitioncount": 4,
        "offlinepartitionscount": 1,
        "preferredreplicaimbalancecount": 2,
        "lastappliedrecordoffset": last,
        "lastappliedrecordtimestamp": written_ms,
        "lastappliedrecordlagms": 0,
        "lastcommittedrecordoffset": last,
        "timedoutbrokerheartbeatcount_total": 4,
    }
    office.is_active = False
    one.resign()
    one.pass_ms(700)
    found = figures()
    assert (found["activecontrollercount"], found["lastappliedrecordlagms"]) == (0, 700)
