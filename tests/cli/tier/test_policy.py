"""Policies on the command line."""

from __future__ import annotations

import json


def test_the_policy_is_printed_as_it_is_attached(stratalog) -> None:
    """JSON for the role and bucket; no broker is asked."""
    document = json.loads(stratalog("tier", "policy", "--role", "spark", "--bucket", "s3://archive/prod").out)
    assert document["Version"] == "2012-10-17"
    resources = [one["Resource"] for one in document["Statement"]]
    assert resources == ["arn:aws:s3:::archive", "arn:aws:s3:::archive/prod/*", "arn:aws:s3:::archive/prod/leases/*"]


def test_stores_without_a_policy_are_refused(stratalog) -> None:
    """With its code."""
    stratalog("tier", "policy", "--role", "broker", "--bucket", "file:///x", code=2)
    stratalog("tier", "policy", "--role", "root", "--bucket", "s3://x", code=2)
    stratalog(
        "tier", "policy", "--role", "broker", "--bucket", "s3://x", "--principal", "arn:x", "--kms-key", "arn:y", code=2
    )
