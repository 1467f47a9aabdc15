"""The checks on a reported verification."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.http.verification import Verification, verification_of
from stratalog.wire.errors import Invalid

BODY = {"bucket": "s3://b/p", "deep": True, "partitions": 3, "objects": 40, "size_bytes": 5, "anomalies": 0}


def test_a_sent_verification_is_kept():
    """With the broker's time; a slash at the end of the bucket makes no difference."""
    known = Verification(77, deep=True, topics=(), partitions=3, objects=40, size_bytes=5, anomalies=0)
    assert verification_of(BODY, "s3://b/p/", 77) == known
    assert verification_of({**BODY, "topics": ["a"]}, "s3://b/p", 77) == known._replace(topics=("a",))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bucket": "s3://other"}, "not s3://other"),
        ({"bucket": 5}, "this broker's bucket is"),
        ({"deep": 1}, "'deep' must be true or false, got 1"),
        ({"anomalies": -1}, "'anomalies' must be a whole number from 0 on, got -1"),
        ({"objects": True}, "'objects' must be a whole number from 0 on, got True"),
        ({"partitions": None}, "'partitions' must be a whole number from 0 on, got None"),
        ({"topics": "a"}, "'topics' must be a list of names, got 'a'"),
        ({"topics": [1]}, "'topics' must be a list of names"),
        ({"clean": True}, "unknown field 'clean': a verification has bucket, deep"),
    ],
)
def test_odd_fields_are_refused(change, says):
    """With a word on what it should be."""
    with pytest.raises(Invalid, match=says):
        verification_of({**BODY, **change}, "s3://b/p", 77)


VALUES = st.sampled_from([None, True, False, -1, 0, 7, "", "s3://b", [], [""], {}])


@given(st.dictionaries(st.sampled_from([*BODY, "topics", "x"]), VALUES))
def test_anything_else_is_refused_too(body):
    """Never another error."""
    with pytest.raises(Invalid):
        verification_of(body, "s3://b/p", 77)
