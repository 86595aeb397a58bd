"""Calibrates a broker over native, STOMP and AMQP, and validates the model: `python -m bench.validation [--minutes N]`.

A broker of its own with default settings, tracking on. It calibrates with persistent messages (three times the given
minutes; default 3) and measures the thirty held-out scenarios (about ten minutes). The model, the results and the
picture are kept in bench/results. Nothing else may run on the machine: waiting times and wall throughput would be its.
"""

import argparse
import tempfile
from pathlib import Path

from typer.testing import CliRunner

from bench.harness import RESULTS
from tidings.cli import make_app
from tidings.testing.broker_process import BrokerProcess

PROTOCOLS = ("native", "stomp", "amqp")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="of each calibration")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement of the validation")
    arguments = parser.parse_args()
    app, runner, model = make_app(["lab"]), CliRunner(), RESULTS / "broker_model.json"
    listeners = "".join(f'[[listeners]]\nprotocol = "{name}"\nport = 0\n' for name in PROTOCOLS[1:])
    with tempfile.TemporaryDirectory() as folder:
        more = listeners + '[broker]\ndata = "data"\n'
        with BrokerProcess(Path(folder), more, level="info") as broker:
            where = {one["protocol"]: f"127.0.0.1:{one['port']}" for one in broker.events("listening")}
            metrics = f"127.0.0.1:{broker.events('metrics')[-1]['port']}"
            for protocol in PROTOCOLS:
                kept = [*("-o", str(model)), "--results", str(Path(folder) / f"{protocol}.jsonl")]
                wish = [
                    "lab",
                    "calibrate",
                    where[protocol],
                    "--protocol",
                    protocol,
                    "--persistent",
                    "--metrics",
                    metrics,
                ]
                run(runner, app, [*wish, "--minutes", str(arguments.minutes), *kept])
            brokers = [word for name in PROTOCOLS for word in ("--broker", f"{name}={where[name]}")]
            files = ["-o", str(RESULTS / "validation.json"), "--picture", str(RESULTS / "validation.png")]
            wish = ["lab", "validate", str(model), *brokers, "--metrics", metrics, *files]
            run(runner, app, [*wish, "--seconds", str(arguments.seconds)])


def run(runner: CliRunner, app: object, words: list[str]) -> None:
    done = runner.invoke(app, words, catch_exceptions=False)  # type: ignore[arg-type]
    print(done.output, flush=True)
    if done.exit_code:
        raise SystemExit(done.exit_code)


if __name__ == "__main__":
    main()
