"""Configuration: file, environment and options become one frozen value."""
