"""The quorum's messages as they travel: from the machine's values to Kafka's and back."""
