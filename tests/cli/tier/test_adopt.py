"""``stratalog tier adopt``: what it says, and that it keeps away from a running broker."""

import json
from pathlib import Path

from click.testing import CliRunner

from stratalog.cli.main import cli


def run(*arguments):
    """One command; exit code, stdout, stderr."""
    result = CliRunner().invoke(cli, ["tier", "adopt", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_a_running_broker_is_not_touched(start_node):
    """Its directory is locked; stopped, it changes its bucket."""
    node = start_node()
    bucket = Path(node.directory, "other")
    bucket.mkdir()
    arguments = ("--data", f"{node.directory}/data", "--bucket", f"file://{bucket}", "--json")
    code, _, err = run(*arguments)
    assert code != 0
    assert "in use by another process" in err
    node.stop()
    code, out, err = run(*arguments)
    assert code == 0
    assert json.loads(out)["partitions"] == 0
    assert "is the bucket from now on" in err
    assert json.loads((bucket / "format.json").read_bytes())["bucket_id"] == json.loads(out)["bucket_id"]
