"""Debian's ActiveMQ with a configuration of ours: STOMP and its own protocol, on loopback, in a folder of its own.

Without JMX and the scheduler, which only cost time; without advisories unless it is one of a network, which needs them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HOME = Path("/usr/share/activemq")
JAR = HOME / "bin" / "activemq.jar"
HOPS = 16


@dataclass(frozen=True, slots=True)
class ActiveMQSetup:
    name: str
    ports: Mapping[str, int]  # stomp, openwire
    heap: str
    memory_mb: int  # of the heap, for messages
    store: str = ""  # the folder for persistent messages; empty: there are none
    links: Sequence[str] = ()  # addresses of other brokers' openwire ports
    linked: bool = False  # others may dial it, too: from everywhere, with advisories
    own_tasks: bool = False  # a thread for each destination, faster with few of them
    log_level: str = "WARN"


def command(folder: Path, setup: ActiveMQSetup) -> list[str]:
    """Writes the configuration into the folder; returns what starts the server."""
    (folder / "activemq.xml").write_text(configuration(folder, setup))
    (folder / "log4j.properties").write_text(_LOGGING.format(level=setup.log_level))
    options = [f"-Dactivemq.{what}={folder}" for what in ("base", "conf", "data")]
    options += [f"-Xms{setup.heap}", f"-Xmx{setup.heap}", f"-Dactivemq.home={HOME}"]
    options += [f"-Dlog4j.configuration=file:{folder}/log4j.properties"]
    if setup.own_tasks:
        options.append("-Dorg.apache.activemq.UseDedicatedTaskRunner=true")
    return ["java", *options, "-jar", str(JAR), "start", f"xbean:file:{folder}/activemq.xml"]


def configuration(folder: Path, setup: ActiveMQSetup) -> str:
    links = "".join(
        f'<networkConnector name="to-{number}" uri="static:(tcp://{address})" duplex="true" networkTTL="{HOPS}"/>'
        for number, address in enumerate(setup.links)
    )
    return _CONFIGURATION.format(
        name=setup.name,
        data=folder / "data",
        persistent=str(bool(setup.store)).lower(),
        advisories=str(setup.linked).lower(),
        store=f'<persistenceAdapter><kahaDB directory="{setup.store}"/></persistenceAdapter>' if setup.store else "",
        links=f"<networkConnectors>{links}</networkConnectors>" if links else "",
        memory=setup.memory_mb,
        host="0.0.0.0" if setup.linked else "127.0.0.1",
        **setup.ports,
    )


# ActiveMQ wants the elements of <broker> in this order, which is that of the alphabet.
_CONFIGURATION = """\
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
    http://www.springframework.org/schema/beans/spring-beans.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" useJmx="false" brokerName="{name}" dataDirectory="{data}"
      persistent="{persistent}" advisorySupport="{advisories}" schedulerSupport="false">
    {links}
    {store}
    <systemUsage><systemUsage><memoryUsage><memoryUsage limit="{memory} mb"/></memoryUsage></systemUsage></systemUsage>
    <transportConnectors>
      <transportConnector name="openwire" uri="tcp://{host}:{openwire}"/>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{stomp}"/>
    </transportConnectors>
  </broker>
</beans>
"""

_LOGGING = """\
log4j.rootLogger={level}, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%p %m%n
"""
