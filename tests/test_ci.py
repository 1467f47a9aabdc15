"""``.ci/run`` with stand-ins for ``make`` and Python: what it says, what it ends with, what it leaves."""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAKE = """#!/bin/sh
echo "make $1"
echo "$1" >>"$LOG"
case " $SLOW " in *" $1 "*) sleep 60.25 & echo $! >"$LOG.slow"; wait ;; esac
case " $FAILS " in *" $1 "*) until [ -z "$SLOW" ] || [ -s "$LOG.slow" ]; do sleep 0.05; done; exit 3 ;; esac
"""


@pytest.fixture
def run(tmp_path):
    """Runs it in a folder of its own; the exit status, its words and the targets that were made."""

    def ran(fails="", slow=""):
        for place in (".ci", "bin", ".venv/bin", "tmp"):
            (tmp_path / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
        for program, text in (("bin/make", MAKE), (".venv/bin/python", "#!/bin/sh\n")):
            (tmp_path / program).write_text(text)
            (tmp_path / program).chmod(0o755)
        environment = {
            **os.environ,
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "TMPDIR": str(tmp_path / "tmp"),
            "LOG": str(tmp_path / "log"),
            "FAILS": fails,
            "SLOW": slow,
        }
        done = subprocess.run(
            [tmp_path / ".ci/run"], env=environment, capture_output=True, text=True, timeout=30, check=False
        )
        return done.returncode, done.stdout, (tmp_path / "log").read_text().split()

    return ran


def test_all_steps_are_taken_and_the_demo_is_the_last(run, tmp_path):
    """The two that run beside the others say their words in one piece."""
    code, said, made = run()
    assert (code, made[0], made[-1]) == (0, "test", "demo")
    assert sorted(made[1:-1]) == ["lint", "test-browser", "test-kernel", "test-package", "test-s3"]
    assert "make test-kernel\nmake lint\n" in said
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("step", ["test", "test-browser", "test-kernel", "lint", "test-package", "demo"])
def test_a_step_that_fails_fails_the_run(run, step, tmp_path):
    """Also one of those beside; what these said is shown."""
    code, said, made = run(fails=step)
    assert code == 3
    assert step == "demo" or "demo" not in made
    assert f"make {step}\n" in said
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_run_that_fails_leaves_no_process(run, tmp_path):
    """The tests of the kernel went on for minutes, on a machine that has the next run to do."""
    code, said, _ = run(fails="test-package", slow="test-kernel")
    assert (code, "make test-kernel\n" in said) == (3, True)
    left = int((tmp_path / "log.slow").read_text())
    until = time.monotonic() + 5
    while _runs(left) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _runs(left)


def _runs(process):
    """Whether it does, and not for its parent alone."""
    try:
        return not re.search(r"^State:\s+Z", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_steps_side_by_side_install_packages_one_after_the_other():
    """A second apt-get fails at once while there is another."""
    recipes = (ROOT / "Makefile").read_text()
    assert len(re.findall(r"\$\(APT\) (?:update|install)", recipes)) == 6
    assert re.findall(r"^[^#\n]*apt-get.*", recipes, re.MULTILINE) == ["APT := flock $(VENV)/.apt apt-get"]
