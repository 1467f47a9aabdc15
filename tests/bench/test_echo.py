"""The echo that tells what a wake-up costs."""

from bench.echo import echo_core_percent


def test_it_answers_and_what_it_used_is_counted():
    """Some CPU time, and never more than the cores there are."""
    assert 0 <= echo_core_percent(connections=3, requests_per_second=200, seconds=0.2) < 1000
