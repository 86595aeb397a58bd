"""The tutorial of docs/pipeline.md runs and draws what it says."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidings.testing.local_broker import BrokerThread

SCRIPT = Path(__file__).parents[2] / "docs" / "examples" / "stream_to_figure.py"


def test_from_a_live_stream_to_a_figure(spark: SparkSession, tmp_path: Path, patiently: Callable[..., Any]) -> None:
    spec = importlib.util.spec_from_file_location("stream_to_figure", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    tutorial = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tutorial)

    def run() -> int:
        with BrokerThread() as broker:
            return int(tutorial.main(broker.url, str(tmp_path / "prices.svg")))

    assert patiently(run) == 300
    assert "<svg" in (tmp_path / "prices.svg").read_text()
