"""The bucket as a whole: topics, cuts, trash, and what lies where."""
