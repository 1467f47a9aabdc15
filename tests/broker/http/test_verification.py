"""The checks on a reported verification."""

import pytest
from hypothesis import given, settings
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
        ({"deep": 1}, "'deep' is true or false"),
        ({"anomalies": -1}, "'anomalies' is a number"),
        ({"objects": True}, "'objects' is a number"),
        ({"partitions": None}, "'partitions' is a number"),
        ({"topics": "a"}, "'topics' is a list"),
        ({"topics": [1]}, "'topics' is a list"),
        ({"clean": True}, "'clean' is not part"),
    ],
)
def test_odd_fields_are_refused(change, says):
    """With a word on what it should be."""
    with pytest.raises(Invalid, match=says):
        verification_of({**BODY, **change}, "s3://b/p", 77)


VALUES = st.sampled_from([None, True, False, -1, 0, 7, "", "s3://b", [], [""], {}])


@given(st.dictionaries(st.sampled_from([*BODY, "topics", "x"]), VALUES))
@settings(max_examples=50)
def test_anything_else_is_refused_too(body):
    """Never another error."""
    with pytest.raises(Invalid):
        verification_of(body, "s3://b/p", 77)
