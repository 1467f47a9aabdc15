"""The text of figures in parts."""

import sys
from subprocess import run

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from stratalog.broker.runtime.exposition import ROWS_A_PART, exposition
from stratalog.broker.runtime.families import Family, Kind


@given(
    counts=st.lists(st.tuples(st.sampled_from([Kind.COUNTER, Kind.GAUGE]), st.integers(0, 3 * ROWS_A_PART)), max_size=3)
)
def test_parts_are_short_and_together_one_text(counts):
    """Every row stands once, under one HELP and one TYPE of its family, however many parts it takes."""
    families = [
        Family(kind, f"family_{number}", "A family.", ("of",), (((str(row),), row) for row in range(count)))
        for number, (kind, count) in enumerate(counts)
    ]
    parts = list(exposition(families))
    assert all(part.count(b"\n") <= ROWS_A_PART + 2 for part in parts)
    text = b"".join(parts).decode()
    assert text.count("# HELP") == text.count("# TYPE") == len(counts)
    for family, (kind, count) in zip(text_string_to_metric_families(text), counts, strict=True):
        assert family.type == kind.value
        assert [(sample.labels["of"], sample.value) for sample in family.samples] == [
            (str(row), row) for row in range(count)
        ]


def test_pauses_stay_where_they_are():
    """Between the families that are ready and those that are still counted."""
    family = Family(Kind.GAUGE, "level", "A level.", (), [((), 3)])
    assert [part is None for part in exposition([None, family, None])] == [True, False, True]


def test_a_broker_that_is_not_scraped_has_no_prometheus_client():
    """It is a megabyte: an HTTP server, a WSGI server and a push client."""
    code = "import sys, stratalog.broker.node, stratalog.broker.http.server; print('prometheus_client' in sys.modules)"
    assert run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
