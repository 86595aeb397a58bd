"""From a live stream to a figure: a broker, a publisher, Spark's `tidings` source, a query, a picture.

Run it with `python docs/examples/stream_to_figure.py tidings://127.0.0.1:7300 prices.svg`, a broker running.
"""

import random
import sys
import tempfile

from matplotlib.figure import Figure
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import tidings
from tidings.pipeline.session import open_session


def publish(url: str, count: int) -> None:
    """What would be going on anyway: prices of three stocks."""
    rng = random.Random(1)
    prices = {"ABC": 20.0, "DEF": 35.0, "XYZ": 50.0}
    with tidings.sync.connect(url) as client:
        for n in range(count):
            stock = rng.choice(sorted(prices))
            prices[stock] *= rng.uniform(0.98, 1.02)
            client.publish(
                f"ticks.{stock.lower()}", {"stock": stock, "price": prices[stock], "n": n}, persistent=True, wait=False
            )
        client.publish("ticks.end", {"stock": "end", "price": 0.0, "n": count}, persistent=True)


def stream(spark: SparkSession, url: str) -> DataFrame:
    """Attributes as columns. The subscription is retained by the broker: a restarted query goes on where it was."""
    return (
        spark.readStream.format("tidings")
        .options(url=url, subscription="tutorial", destination="ticks.>", selector="stock <> 'end'")
        .schema("stock string, price double, n bigint")
        .load()
    )


def main(url: str, picture: str) -> int:
    with tidings.sync.connect(url) as client:
        client.retain("tutorial", "ticks.>")  # from here on nothing is missed
    publish(url, 300)
    with open_session("local[2]", quick=True) as spark, tempfile.TemporaryDirectory() as folder:
        ticks = stream(spark, url)
        query = (
            ticks.writeStream.format("parquet")
            .options(path=f"{folder}/ticks", checkpointLocation=f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = spark.read.parquet(f"{folder}/ticks")
        summary = rows.groupBy("stock").agg(f.count("*").alias("ticks"), f.avg("price").alias("mean")).orderBy("stock")
        summary.show()
        lines = {
            row.stock: row.points
            for row in rows.groupBy("stock").agg(f.collect_list(f.struct("n", "price")).alias("points")).collect()
        }
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for stock, points in sorted(lines.items()):
        axes.plot(*zip(*sorted(points), strict=True), label=stock)
    axes.set(xlabel="tick", ylabel="price")
    axes.legend()
    figure.savefig(picture)
    return sum(len(points) for points in lines.values())


if __name__ == "__main__":
    main(*sys.argv[1:3])
