"""Every setting: its resolution, and the rules over several settings."""
