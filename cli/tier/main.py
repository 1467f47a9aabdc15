"""``stratalog tier``: the commands about what of a topic is in the bucket, each in a module of its own."""

from __future__ import annotations

from typing import Final

from stratalog.cli.command import LazyGroup, LazyPath

__all__ = ["tier"]

COMMANDS: Final = {
    "status": LazyPath("stratalog.cli.tier.status", "status", "Show where each partition of a topic is held."),
    "explain": LazyPath(
        "stratalog.cli.tier.explain",
        "explain",
        "Say what a read will cost before it happens.",
    ),
    "hydrate": LazyPath(
        "stratalog.cli.tier.hydrate", "hydrate", "Bring a range into the chunk cache, and keep it for a while."
    ),
    "plan": LazyPath(
        "stratalog.cli.tier.plan", "plan", "Show what would be uploaded, evicted and deleted now, and why."
    ),
    "policy": LazyPath("stratalog.cli.tier.policy", "policy", "Print the S3 policy that a role needs, no more."),
    "set": LazyPath("stratalog.cli.tier.set", "set_tier", "Change how a topic is archived."),
    "adopt": LazyPath("stratalog.cli.tier.adopt", "adopt", "Have a stopped broker archive to another bucket."),
    "gc": LazyPath("stratalog.cli.tier.gc", "gc", "Find and remove what was never committed; no broker."),
    "verify": LazyPath("stratalog.cli.tier.verify", "verify", "Compare a bucket with its manifests; no broker."),
    "repair": LazyPath("stratalog.cli.tier.repair", "repair", "Rebuild damaged or missing manifests; no broker."),
}

tier = LazyGroup(
    "tier",
    lazy=COMMANDS,
    help="See and set what of a topic is in the bucket.",
    no_args_is_help=True,
    examples="""
    stratalog tier status
    stratalog tier status orders --json
    stratalog tier set orders --enable --local-retention-bytes 100MiB --segment-ms 1h
    """,
)
