"""AMQP with the JavaScript client rhea."""

import json
import shutil
import subprocess
from pathlib import Path

from tidings.testing.local_broker import BrokerThread

ROOT = Path(__file__).parents[3]
SECONDS = 120


def test_rhea(broker: BrokerThread) -> None:
    """Queues with every outcome, a message of many frames, selectors, durable subscriptions, and a refusal."""
    subprocess.run([ROOT / "scripts" / "node-packages"], check=True, timeout=300)
    node = shutil.which("node")
    assert node is not None, "make setup installs it"
    script = shutil.copy(ROOT / "tests/integration/protocols/node/rhea.mjs", ROOT / "build/node/rhea.mjs")
    port = broker.amqp.rpartition(":")[2]
    done = subprocess.run([node, script, port], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "first": ["first", 1, "é", "first"],
        "large": True,
        "filtered": "50",
        "kept": "while away",
        "refused": "amqp:invalid-field",
    }
