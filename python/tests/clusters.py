"""A Spark cluster on this machine, for tests that run in the environment `cluster` of scripts/test-ecosystem.sh."""

import os
import subprocess
import sys
import time

import innokit.spark
from conftest import REPOSITORY
from pyspark.sql import SparkSession

SCRIPT = REPOSITORY / "scripts/spark-cluster.sh"
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.executor.memory": "768m",
    "spark.executorEnv.TZ": "UTC",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class Cluster:
    """A standalone master with two workers, and a session on it."""

    def __init__(self, folder):
        self.folder, self.session = folder, None
        self.master = self.run("start")

    def run(self, action):
        environment = os.environ | {"PYTHON": sys.executable}
        done = subprocess.run([SCRIPT, action, self.folder], env=environment, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    def connect(self):
        # Rows have timestamps in the zone of the driver's process.
        os.environ.update(TZ="UTC", PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
        time.tzset()
        builder = SparkSession.builder.master(self.master).appName("innokit")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        self.session = builder.getOrCreate()
        innokit.spark.register(self.session)

    def executors(self):
        return {int(pid) for pid in self.run("pids").split()}

    def close(self):
        try:
            if self.session is not None:
                self.session.stop()
        finally:
            self.run("stop")
