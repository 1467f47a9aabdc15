"""The whole life of a record, told on the terminal with measured figures. Run it by ``make demo``."""
