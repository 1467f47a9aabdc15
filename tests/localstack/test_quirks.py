from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LOCALSTACK = Path(__file__).resolve().parents[2] / "localstack"


def test_every_question_is_answered():
    """Of moto: it minds no checksum and no credentials, and does the rest as Amazon does."""
    programs = [str(LOCALSTACK / "run_s3.py"), "moto", "--", sys.executable, str(LOCALSTACK / "quirks.py")]
    done = subprocess.run([sys.executable, *programs], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    answers = dict(reversed(line.split(maxsplit=1)) for line in done.stdout.splitlines())
    assert len(answers) == 15
    wrong = {text for text, answer in answers.items() if answer != "yes"}
    assert wrong == {
        "a wrong CRC-32C is refused",
        "a wrong Content-MD5 is refused",
        "a wrong CRC-32C over all parts is refused at completion",
        "requests with a wrong secret key are refused",
    }
