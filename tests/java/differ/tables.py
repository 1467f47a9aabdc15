"""All stories."""

from __future__ import annotations

from tests.java.differ import (
    stories_access,
    stories_cluster,
    stories_configs,
    stories_consumer_groups,
    stories_groups,
    stories_metadata,
    stories_offsets,
    stories_records,
    stories_refused,
    stories_topics,
    stories_transactions,
)
from tests.java.differ.story import Story

STORIES: tuple[Story, ...] = (
    *stories_cluster.STORIES,
    *stories_metadata.STORIES,
    *stories_topics.STORIES,
    *stories_configs.STORIES,
    *stories_records.STORIES,
    *stories_refused.STORIES,
    *stories_groups.STORIES,
    *stories_offsets.STORIES,
    *stories_consumer_groups.STORIES,
    *stories_transactions.STORIES,
    *stories_access.STORIES,
)
