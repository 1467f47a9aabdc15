"""The echo that tells what a wake-up costs."""

from bench.echo import echo_core_percent


def test_it_answers_and_what_it_used_is_counted():
    """As many requests as a core can take cost CPU time that the kernel's clock shows; a wrong answer ends it."""
    assert echo_core_percent(connections=3, requests_per_second=20_000, seconds=0.05) > 0
