"""The figures of the archive."""

from collections import Counter

from stratalog.broker.archive.metrics import add_tier_metrics
from stratalog.broker.runtime.metrics import Metrics


def test_the_figures_are_those_of_now():
    """They are asked for with each scrape."""
    metrics, requests, counts = Metrics(), Counter(), Counter()
    add_tier_metrics(
        metrics,
        requests,
        border_reads=lambda: counts["border"],
        merged_objects=lambda: counts["merged"],
        refused_claims=lambda: counts["refused"],
    )
    requests.update(get_range=2, get=1, put=4)
    counts.update(border=5, merged=6, refused=7)
    text = metrics.render().decode()
    assert 'stratalog_tier_requests_total{operation="put"} 4' in text
    assert "stratalog_tier_gets_total 3" in text
    assert "stratalog_tier_border_reads_total 5" in text
    assert "stratalog_tier_merged_objects_total 6" in text
    assert "stratalog_tier_refused_claims_total 7" in text
