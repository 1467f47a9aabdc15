"""Names of views."""

from __future__ import annotations

import pytest

from stratalog.tier.bucket.view_names import ViewName, parse_view_name

NOVEMBER_MS = 1_793_491_200_000


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders@nightly", ViewName("orders", "nightly", None)),
        ("orders..at..nightly", ViewName("orders", "nightly", None)),
        ("a.b-c_d@Cut-9", ViewName("a.b-c_d", "Cut-9", None)),
        ("orders@2026-11-01T00:00Z", ViewName("orders", None, NOVEMBER_MS)),
        ("orders..at..2026-11-01T0000Z", ViewName("orders", None, NOVEMBER_MS)),
        ("orders..at..20261101T000000Z", ViewName("orders", None, NOVEMBER_MS)),
        ("orders@2026-11-01", ViewName("orders", None, NOVEMBER_MS)),
        ("orders@2026-11-01T02:00:00.250+02:00", ViewName("orders", None, NOVEMBER_MS + 250)),
        ("orders@1793491200000", ViewName("orders", None, NOVEMBER_MS)),
        ("orders", None),
        ("a..b", None),
        ("orders@", None),
        ("@nightly", None),
        ("orders@2026", None),
        ("orders@2026-13-01", None),
        ("orders@a b", None),
        ("orders@a@b", None),
    ],
)
def test_a_name_says_topic_and_moment(name, expected):
    """Cuts begin with a letter, times with a digit; without a zone it is UTC."""
    assert parse_view_name(name) == expected
