"""kill -9 under MQTT sessions: QoS 1 loses nothing, QoS 2 neither loses nor doubles.

More of it: python -m hardening.kills.mqtt 50
"""

from hardening.kills.mqtt import run, total


def test_sessions_survive_kills() -> None:
    found = total(run(3, seed=1))
    assert found["published"] > 0
    assert (found["unconfirmed"], found["lost"], found["doubled_qos_2"]) == (0, 0, 0)
