"""``python -m stratalog`` is the ``stratalog`` command."""

from stratalog.broker.cli import main

if __name__ == "__main__":
    main()
