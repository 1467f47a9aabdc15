from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.tier.stores.s3.walk import Level, Walk, first_needed_name, just_below

names = st.text("ab-.0/1\u00e9", min_size=1, max_size=7).filter(
    lambda key: not key.startswith("/") and not key.endswith("/") and "//" not in key
)


class ByDirectory:
    """A service that compares the names of one level, and gives two entries a page."""

    def __init__(self, keys):
        self.keys = keys
        self.asked = 0

    def pages(self, prefix, start_after):
        """The pages of a level, by name; ``start_after`` itself is not among them."""
        at = prefix.rfind("/") + 1
        found = {}
        for key in self.keys:
            if key.startswith(prefix):
                name, slash, _ = key[at:].partition("/")
                found[key[:at] + name + slash] = None if slash else key
        ordered = sorted(found, key=lambda one: (one.removesuffix("/").encode(), one))
        wanted = [one for one in ordered if one.removesuffix("/").encode() > start_after.encode()]
        for first in range(0, len(wanted), 2):
            self.asked += 1
            yield Level({one: found[one] for one in wanted[first : first + 2]})


@pytest.mark.story
@given(st.sets(names, max_size=12), names, names)
@settings(max_examples=300)
def test_keys_come_in_byte_order(keys, prefix, after):
    """From any prefix and after any key, whatever directories the keys share."""
    for start in ("", after, *list(keys)[:2]):
        for begin in ("", prefix, prefix[:2]):
            expected = sorted((key for key in keys if key.startswith(begin)), key=str.encode)
            expected = [key for key in expected if key.encode() > start.encode()]
            assert list(Walk(ByDirectory(keys).pages).objects(begin, start)) == expected


@given(names.filter(lambda name: "/" not in name))
def test_a_text_just_below_is_below(name):
    """And the first name that is needed is the name itself or a beginning of it."""
    assert just_below(name).encode() < name.encode()
    assert "/" not in just_below(name)
    assert name.startswith(first_needed_name(name))


def test_the_rest_of_a_long_listing_costs_little():
    """One key after another out of a thousand: a few pages of each level on the way, not all before it."""
    keys = {f"topics/t-{topic}/{number:020}.seg" for topic in range(20) for number in range(50)}
    for after in sorted(keys)[::100]:
        service = ByDirectory(keys)
        following = min((key for key in keys if key > after), default=None)
        assert next(Walk(service.pages).objects("topics/", after), None) == following
        assert service.asked < 15
