"""Looking after an archive: verify, repair, take over, rewind, restore."""
