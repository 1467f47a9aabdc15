"""The settings, one file for each group: every name Kafka 4.3 knows, its default, its bounds, what it does here.

Source: the configuration reference of Apache Kafka 4.3 (broker and topic settings). The explanations are ours.
"""
