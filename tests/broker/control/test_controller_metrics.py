"""The figures of a controller."""

from types import SimpleNamespace

from stratalog.broker.control.controller_metrics import ControllerParts, add_controller_metrics
from stratalog.broker.runtime.metrics import Metrics

OF_BROKERS_AND_COMMANDS = {
    "newactivecontrollerscount_total": 3,
    "metadataerrorcount_total": 1,
    "controlledshutdownbrokercount": 0,
    'brokerregistrationstate{broker="1"}': 30,
    'brokerregistrationstate{broker="2"}': 10,
    'brokerregistrationstate{broker="3"}': 10,
    'timesincelastheartbeatreceivedms{broker="1"}': 0,
    'timesincelastheartbeatreceivedms{broker="2"}': 0,
    'timesincelastheartbeatreceivedms{broker="3"}': 0,
    "controllereventmanager_eventqueuetimems_mean": 0,
    "controllereventmanager_eventqueuetimems_max": 0,
    "controllereventmanager_eventqueueprocessingtimems_mean": 0,
    "controllereventmanager_eventqueueprocessingtimems_max": 0,
}


def controller_figures(metrics):
    """The figures of the controller, without the beginning that most have in common."""
    start = "kafka_controller_"
    lines = metrics.render().decode().splitlines()
    rows = [line.removeprefix(start).split() for line in lines if line.startswith(start)]
    return {name.removeprefix("kafkacontroller_"): float(value) for name, value in rows}


def test_figures_have_kafkas_names_and_follow_the_cluster(memory_controller):
    """They are asked for at each scrape."""
    one = memory_controller()
    office = SimpleNamespace(is_active=True, high_watermark=0)
    metrics = Metrics()
    parts = ControllerParts(
        office=office,
        cluster=one.cluster,
        sessions=one.sessions,
        control=one.control,
        clock=one.clock,
        new_leaders=lambda: 3,
        metadata_errors=lambda: 1,
    )
    add_controller_metrics(metrics, parts)

    def figures():
        return controller_figures(metrics)

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
        **OF_BROKERS_AND_COMMANDS,
    }
    one.pass_ms(300)
    assert figures()['timesincelastheartbeatreceivedms{broker="1"}'] == 300
    office.is_active = False
    one.resign()
    one.pass_ms(700)
    found = figures()
    assert (found["activecontrollercount"], found["lastappliedrecordlagms"]) == (0, 1000)
    assert not [name for name in found if name.startswith("timesince")]
