"""The bucket as a whole: topics, cuts, trash, walks over its keys."""
