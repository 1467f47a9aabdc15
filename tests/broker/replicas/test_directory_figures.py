"""Figures of log directories."""

from types import SimpleNamespace

from stratalog.broker.replicas.directory_figures import add_directory_figures
from stratalog.broker.runtime.metrics import Metrics


def test_the_sync_cycles_of_each_directory_are_shown_as_they_are_now():
    """They are asked for at each scrape."""
    metrics = Metrics()
    one, two = (SimpleNamespace(path=path, writer=SimpleNamespace(sync_cycles=0)) for path in ("/a", "/b"))
    add_directory_figures(metrics, [one, two])
    one.writer.sync_cycles = 3
    text = metrics.render().decode()
    assert 'stratalog_directory_sync_cycles_total{directory="/a"} 3.0' in text
    assert 'stratalog_directory_sync_cycles_total{directory="/b"} 0.0' in text
