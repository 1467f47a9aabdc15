"""The lines of ``/metrics`` about worker processes."""

from types import SimpleNamespace

from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.workers.metrics import add_worker_metrics
from stratalog.broker.workers.watch import WorkerState


def test_every_worker_that_there_is_has_its_samples():
    """One that has not been started has none."""
    metrics = Metrics()
    io, cleaner = SimpleNamespace(worker=WorkerState("io", 12.5, 2, "")), SimpleNamespace(worker=None)
    add_worker_metrics(metrics, io, cleaner)
    text = metrics.render().decode()
    assert 'stratalog_worker_oldest_command_seconds{worker="io"} 12.5' in text
    assert 'stratalog_worker_hangs_total{worker="io"} 2.0' in text
    cleaner.worker = WorkerState("cleaner", 0.0, 0, "")
    assert 'stratalog_worker_hangs_total{worker="cleaner"} 0.0' in metrics.render().decode()
