"""The kernel's path for plain PUBLISH and PUBACK packets, and the tables it shares with the sessions."""

from tidings._kernel import MqttLimits, MqttPublications

__all__ = ["MqttLimits", "MqttPublications"]
