"""The example of docs/testing.md, as it stands there."""

import re
from pathlib import Path

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_example_of_the_manual_works(stratalog_broker) -> None:
    """A consumer of a group gets what a producer has sent."""
    examples = re.findall(r"```python\n(.*?)```", (DOCS / "testing.md").read_text(), re.DOTALL)
    (example,) = (one for one in examples if "test_an_order_arrives" in one)
    names: dict = {}
    exec(example, names)
    names["test_an_order_arrives"](stratalog_broker)
