"""The state of an incremental fetch session: the news its consumer has not had yet (KIP-227). Pure."""
