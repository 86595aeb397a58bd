"""The tutorial of docs/pipeline.md runs and draws what it says."""

import importlib.util
from pathlib import Path

from pyspark.sql import SparkSession

from tidings.testing.broker import BrokerThread

SCRIPT = Path(__file__).parents[2] / "docs" / "examples" / "stream_to_figure.py"


def test_from_a_live_stream_to_a_figure(spark: SparkSession, broker: BrokerThread, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("stream_to_figure", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    tutorial = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tutorial)
    assert tutorial.main(broker.url, str(tmp_path / "prices.svg")) == 300
    assert "<svg" in (tmp_path / "prices.svg").read_text()
