"""Declarations of the records that Kafka keeps in its own logs."""
