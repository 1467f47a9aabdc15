"""Python work on executors."""

from __future__ import annotations

import time

import pytest
from pyspark.sql import SparkSession

from stratalog.spark.sessions import spark_tasks
from stratalog.spark.sessions.spark_tasks import SparkTasks, TaskFailed

pytestmark = pytest.mark.spark


@pytest.mark.story
def test_results_come_in_the_order_of_the_tasks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order; the number of ended tasks is reported, and is never above the total."""
    monkeypatch.setattr(spark_tasks, "_LOOK_SECONDS", 0.05)
    told: list[int] = []

    def work(task: tuple[int, str]) -> tuple[str, int]:
        time.sleep(0.2 if task[0] == 0 else 0.0)
        return task[1], task[0] ** 2

    tasks = [(number, "x" * number) for number in range(5)]
    assert SparkTasks(spark).run("test", tasks, work, told.append) == [("x" * number, number**2) for number in range(5)]
    assert told == sorted(told)
    assert set(told) <= set(range(6))
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None


def test_a_task_that_fails_is_reported_in_its_own_words(spark: SparkSession) -> None:
    """One line of an error of ours; of another one all that Spark says."""

    def ours(task: int) -> int:
        from stratalog.wire.errors import Corrupt

        raise Corrupt(f"object {task} is damaged")

    def others(task: int) -> float:
        return 1 / task

    with pytest.raises(TaskFailed, match=r"^object 7 is damaged$"):
        SparkTasks(spark).run("test", [7], ours, print)
    with pytest.raises(TaskFailed, match="ZeroDivisionError"):
        SparkTasks(spark).run("test", [0], others, print)
