"""Declarations of Kafka's messages, one file per API key."""
