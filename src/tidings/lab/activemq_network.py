"""ActiveMQ's own network of brokers, to compare with: one broker a namespace, joined by duplex network connectors.

Debian's package, a heap of 256 MB each, advisories on (its network needs them), no persistence: the experiments send
messages that are not persistent. Its brokers pass a message to every broker with a consumer of the topic, whatever
the consumers' selectors say.
"""

from pathlib import Path

from tidings.errors import UsageError
from tidings.lab.servers import ACTIVEMQ_JAR

HEAP = "256m"
HOPS = 16


def command(folder: Path, name: str, port: int, link_port: int, dials: list[str]) -> list[str]:
    """Writes the configuration of one broker; returns what starts it. `dials` are addresses of others' link ports."""
    if not ACTIVEMQ_JAR.exists():
        raise UsageError("E_NO_ACTIVEMQ", "ActiveMQ is not installed: apt-get install activemq, or leave it out")
    here = folder / f"activemq-{name}"
    here.mkdir()
    links = "".join(
        f'<networkConnector name="to-{number}" uri="static:(tcp://{address})" duplex="true" networkTTL="{HOPS}"/>'
        for number, address in enumerate(dials)
    )
    (here / "activemq.xml").write_text(_CONFIGURATION.format(name=name, stomp=port, openwire=link_port, links=links))
    (here / "log4j.properties").write_text(_LOGGING)
    options = [f"-Dactivemq.{what}={here}" for what in ("base", "conf", "data")]
    options += [f"-Xms{HEAP}", f"-Xmx{HEAP}", "-Dactivemq.home=/usr/share/activemq"]
    options += [f"-Dlog4j.configuration=file:{here}/log4j.properties"]
    return ["java", *options, "-jar", str(ACTIVEMQ_JAR), "start", f"xbean:file:{here}/activemq.xml"]


_CONFIGURATION = """\
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
    http://www.springframework.org/schema/beans/spring-beans.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" useJmx="false" brokerName="broker-{name}" persistent="false"
      schedulerSupport="false">
    <networkConnectors>{links}</networkConnectors>
    <systemUsage><systemUsage><memoryUsage><memoryUsage limit="180 mb"/></memoryUsage></systemUsage></systemUsage>
    <transportConnectors>
      <transportConnector name="openwire" uri="tcp://0.0.0.0:{openwire}"/>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{stomp}"/>
    </transportConnectors>
  </broker>
</beans>
"""

_LOGGING = """\
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%p %m%n
"""
