"""Write the pages of the manual that are made from code: ``python docs/generate.py``."""

from __future__ import annotations

from pathlib import Path

from reference import PAGES


def main() -> None:
    """Write every page whose content has changed."""
    folder = Path(__file__).parent
    for name, make in PAGES.items():
        path = folder / name
        content = make()
        if not path.exists() or path.read_text() != content:
            path.write_text(content)
            print(f"wrote {name}")


if __name__ == "__main__":
    main()
