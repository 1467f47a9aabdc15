"""One file is one module in every process: two would mean two `KafkaError` classes."""

import asyncio
import importlib
import json
import os
import pkgutil
import subprocess
import sys

import pytest

from stratalog.broker.workers.main import Start
from stratalog.broker.workers.workers import ProcessWorkers

LOADED_TWICE = """
def loaded_twice(modules):
    import os
    names = {}
    for name, module in list(modules.items()):
        path = getattr(module, "__file__", None)
        if path:
            names.setdefault(os.path.realpath(path), set()).add(id(module))
    return sorted(path for path, modules in names.items() if len(modules) > 1 and "/site-packages/" not in path)
"""
exec(LOADED_TWICE)


def ours(modules) -> set[str]:
    """The names under which our own modules are loaded."""
    return {name for name in modules if name.partition(".")[0] == "stratalog"}


def short_names(modules) -> set[str]:
    """Our rooms under names that belong to others."""
    rooms = {"wire", "hot", "tier", "metadata", "broker", "spark"}
    return {name for name in modules if name.partition(".")[0] in rooms}


def test_the_test_process_has_every_file_once():
    """With all that tests have imported so far, the whole broker among it."""
    import stratalog.broker.node  # noqa: F401

    assert loaded_twice(sys.modules) == []  # noqa: F821 - defined by the text that other processes run too
    assert len(ours(sys.modules)) > 50
    assert short_names(sys.modules) == set()


def python(program: str, *arguments: str, directory: str | None = None) -> dict:
    """Run a program that leaves its answer in ``answer``; started in another directory if one is given."""
    text = f"{LOADED_TWICE}\nimport sys\n{program}\nimport json; print(); print(json.dumps(answer))"
    run = subprocess.run(
        [sys.executable, "-c", text, *arguments], capture_output=True, text=True, check=True, timeout=60, cwd=directory
    )
    return json.loads(run.stdout.splitlines()[-1])


ANSWER = "answer = {'twice': loaded_twice(sys.modules), 'names': sorted(sys.modules)}"


@pytest.mark.parametrize("where", ["elsewhere", "here"])
def test_the_command_line_has_every_file_once(tmp_path, where):
    """Also when it is started in the repository, where the short names could be found."""
    program = f"""
sys.argv = ["stratalog", "serve", "--print-config", "--data", {str(tmp_path)!r}]
import stratalog.broker.node
from stratalog.cli.main import main
try:
    main()
except SystemExit:
    pass
{ANSWER}"""
    answer = python(program, directory=str(tmp_path) if where == "elsewhere" else None)
    assert answer["twice"] == []
    assert "stratalog.cli.serve" in answer["names"]
    assert short_names(answer["names"]) == set()


@pytest.mark.parametrize("target", ["stratalog.broker.workers.io_worker", "stratalog.broker.workers.cpu_worker"])
async def test_a_worker_has_every_file_once(target):
    """The program it is started with included."""
    loop = asyncio.get_running_loop()
    workers = ProcessWorkers(loop, "test", Start("types:SimpleNamespace", {"execute": eval}))
    done = loop.create_future()
    look = (
        f"(lambda space: (exec({LOADED_TWICE!r} + 'import sys, {target}\\n' + {ANSWER!r}, space), space['answer'])[1])"
        "({})"
    )
    workers.submit(look, lambda report, error: done.set_result((report, error)))
    report, error = await asyncio.wait_for(done, 60)
    await workers.close()
    assert error is None
    assert report["twice"] == []
    assert target in report["names"]
    assert "stratalog.broker.workers.main" in report["names"]
    assert short_names(report["names"]) == set()


@pytest.mark.slow  # `test_no_module_is_loaded_under_two_names` of the source looks into a worker by default
@pytest.mark.spark
def test_a_spark_worker_has_every_file_once(tmp_path):
    """The Python process that Spark starts for a data source or a function."""
    program = f"""
from stratalog.spark.sessions.sessions import session
spark = session("local[1]", app_name="modules", **{{
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.warehouse.dir": {str(tmp_path)!r},
    "spark.ui.enabled": "false",
}})
def look(_rows):
    import json, sys
    import pyspark_stratalog, stratalog.spark.source.source
    {LOADED_TWICE.strip().replace(chr(10), chr(10) + "    ")}
    {ANSWER}
    yield json.dumps(answer)
import json
answer = json.loads(spark.sparkContext.parallelize([1], 1).mapPartitions(look).collect()[0])
spark.stop()
"""
    answer = python(program, directory=os.fspath(tmp_path))
    assert answer["twice"] == []
    assert {"pyspark_stratalog", "stratalog.spark.source.source"} <= set(answer["names"])
    assert short_names(answer["names"]) == set()


@pytest.mark.parametrize("package", ["stratalog", "stratalog.spark", "stratalog.tier"])
def test_no_module_has_the_name_of_a_function_of_its_package(package):
    """Importing such a module would put it in the place of the function."""
    found = importlib.import_module(package)
    names = set(getattr(found, "__all__", ())) | {
        name for name, value in vars(found).items() if callable(value) and not name.startswith("_")
    }
    assert names & {module.name for module in pkgutil.iter_modules(found.__path__)} == set()
