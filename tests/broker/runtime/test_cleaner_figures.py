"""The figures of the cleaner."""

from stratalog.broker.runtime.cleaner_figures import add_cleaner_figures
from stratalog.broker.runtime.metrics import Metrics


def test_the_cleaner_shows_its_figures():
    """Under Kafka's names where Kafka has them."""
    metrics, counts = Metrics(), {"cleanings": 3, "read_bytes": 50, "written_bytes": 20}
    add_cleaner_figures(metrics, uncleanable=lambda: {"/d": 2}, dirty_ratio=lambda: 0.257, count=counts.__getitem__)
    text = metrics.render().decode()
    for line in (
        'kafka_log_logcleanermanager_uncleanable_partitions_count{logDirectory="/d"} 2',
        "kafka_log_logcleanermanager_max_dirty_percent 25",
        "stratalog_cleaner_cleanings_total 3",
        "stratalog_cleaner_read_bytes_total 50",
        "stratalog_cleaner_written_bytes_total 20",
    ):
        assert line in text
