"""The thirty scenarios that a calibrated model is validated with. No calibration measures any of them.

Bodies of 0 to 16 000 bytes, 1 to 30 properties, three protocols, persistent or not, 1 to 50 publishers, 1 to 500
messages in flight, independent and all-or-none interests.
"""

from tidings.lab.calibration.design import carried
from tidings.lab.calibration.load import LoadPoint

# protocol, persistent, body, properties, others, components, subscribers, match, together, publishers, in flight
_ROWS = (
    ("native", False, 0, 1, 0, 1, 1, 1.0, False, 1, 100),
    ("native", False, 100, 3, 20, 1, 11, 0.4, False, 10, 100),
    ("native", False, 700, 10, 300, 2, 26, 0.4, False, 20, 300),
    ("native", False, 2500, 6, 100, 3, 8, 0.7, False, 4, 40),
    ("native", False, 9000, 2, 10, 1, 4, 1.0, False, 2, 25),
    ("native", False, 16_000, 8, 40, 2, 12, 0.3, False, 8, 80),
    ("native", False, 30, 25, 800, 4, 41, 0.1, True, 30, 400),
    ("native", False, 300, 30, 1200, 6, 31, 0.5, True, 50, 500),
    ("native", True, 0, 1, 0, 1, 1, 1.0, False, 1, 1),
    ("native", True, 500, 5, 50, 2, 3, 0.5, False, 5, 60),
    ("native", True, 3000, 12, 100, 1, 7, 0.6, True, 12, 250),
    ("stomp", False, 0, 1, 0, 1, 1, 1.0, False, 1, 1),
    ("stomp", False, 200, 4, 10, 1, 26, 0.4, False, 20, 20),
    ("stomp", False, 200, 4, 10, 1, 26, 0.4, False, 20, 200),
    ("stomp", False, 1000, 15, 400, 3, 16, 0.25, False, 40, 450),
    ("stomp", False, 6000, 7, 60, 1, 6, 0.8, False, 3, 30),
    ("stomp", False, 14_000, 20, 150, 2, 9, 0.5, True, 6, 70),
    ("stomp", False, 40, 2, 1500, 1, 2, 1.0, False, 15, 150),
    ("stomp", False, 80, 9, 30, 5, 46, 0.15, True, 25, 50),
    ("stomp", True, 150, 3, 5, 1, 2, 1.0, False, 8, 8),
    ("stomp", True, 1500, 8, 200, 2, 5, 0.75, False, 16, 320),
    ("amqp", False, 0, 1, 0, 1, 1, 1.0, False, 1, 60),
    ("amqp", False, 120, 6, 20, 1, 7, 0.5, False, 5, 15),
    ("amqp", False, 800, 12, 150, 3, 21, 0.35, False, 18, 180),
    ("amqp", False, 5000, 4, 80, 1, 10, 0.9, False, 9, 90),
    ("amqp", False, 12_000, 16, 250, 2, 5, 1.0, False, 2, 12),
    ("amqp", False, 60, 28, 600, 4, 36, 0.2, True, 35, 350),
    ("amqp", False, 400, 2, 0, 1, 51, 0.3, True, 12, 24),
    ("amqp", True, 250, 5, 30, 1, 2, 1.0, False, 4, 30),
    ("amqp", True, 2000, 10, 100, 2, 6, 0.6, True, 10, 200),
)


def scenarios() -> list[LoadPoint]:
    return [carried(LoadPoint(*one)) for one in _ROWS]
