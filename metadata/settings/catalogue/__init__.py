"""The settings by subject: name, type, default, bounds and meaning."""
