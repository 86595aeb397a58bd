"""The install matrix: builds wheels and tries them in fresh environments outside the checkout.

    python -m bench.install [--python python3.13]... [--extra segments]... [--wheels build/wheels]

One environment for each Python and each extra alone, one without extras, and one of the wheel only, for clients. In
each: the imports, the help of every command, the commands of the tutorial and of a newcomer's first hour with their
answers, the messages for what is not installed, and how much disk and memory it takes. Exit status 1 if anything fails
or is larger than it may be.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from docs.pages.blocks import ROOT, blocks

from tidings.extras import EXTRA_OF

CLIENT = "client"  # no extra: the wheel without what it depends on
LAB = {"matplotlib", "pyarrow", "scipy"}
OPTIONAL = {  # packages that must be there with an extra; without extras none of them is
    "": set(),
    "segments": {"pyarrow"},
    "capacity": {"scipy"},
    "jwt": {"jwt"},
    "postgresql": {"psycopg"},
    "console": {"nicegui", "scipy"},
    "lab": LAB,
    "bench": LAB,
    "pipeline": {*LAB, "deltalake", "pandas", "pyspark"},
    "all": set(EXTRA_OF),
}
EXTRAS = (CLIENT, *OPTIONAL)
INSTALLED_MB_MAX = 130  # without extras; NumPy, which the store needs, is 73 of them
IDLE_MB_MAX = 90
CLIENT_MB_MAX = 20
HELP_CPU_S_MAX = 0.4
STEP_SECONDS = 600

HELP = """
import typer.main
from typer.testing import CliRunner
from tidings.cli import make_app
app = make_app()
def walk(command, path):
    shown = CliRunner().invoke(app, [*path, "--help"])
    assert shown.exit_code == 0 and "Usage:" in shown.output, (path, shown.output)
    for name, below in getattr(command, "commands", {}).items():
        walk(below, [*path, name])
walk(typer.main.get_command(app), [])
"""
PRESENT = """
import importlib.util, sys
from tidings.extras import EXTRA_OF
print(*sorted(name for name in EXTRA_OF if importlib.util.find_spec(name)))
"""
REFUSED = {  # package -> command that needs it
    "scipy": "tidings broker --config admission.toml",
    "pyarrow": "tidings lab run quick",
    "nicegui": "tidings console",
    "pyspark": "tidings pipeline run",
    "jwt": "tidings broker --check --config jwt.toml",
    "psycopg": "tidings broker --check --config database.toml",
}
CONFIGURATIONS = {  # that these commands name
    "admission": "[admission]\nwaiting_ms_max = 5\n",
    "jwt": '[jwt]\nkeys = "keys.pem"\naudience = "here"\n',
    "database": '[broker]\nid = 1\n[store]\nurl = "postgresql://127.0.0.1/tidings"\n',
}
BEGIN = """
await() { for _ in $(seq 600); do grep -q "$1" "$2" && return; sleep 0.1; done; cat "$2" >&2; return 1; }
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
ip link set lo up 2> /dev/null || true
"""


USE_CLIENT = """
import resource, sys
import tidings
with tidings.sync.connect("tidings://127.0.0.1:7300", client_id="alone") as client:
    ticks = client.subscribe("ticks.>", selector="price > 20", durable="ticks", ack="client")
    for price in (12, 50):
        client.publish("ticks.xyz", {"price": price}, body={"of": price}, persistent=True)
    message = ticks.receive(timeout=5)
    assert message.properties["price"] == 50
    message.ack()
    path = client.trace(str(message.message_id))
    assert path.hops, path
present = [name for name in ("numpy", "typer", "rich", "uvloop", "websockets", "h11") if name in sys.modules]
assert not present, present
print(round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000))
"""


class FailedError(Exception):
    """A step of the matrix did not do what it must."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with the wheel, and a directory to work in."""

    folder: Path
    extra: str

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    def run(self, *command: str, status: int = 0) -> str:
        """Returns the output, errors included."""
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        path = f"{self.python.parent}:{os.defpath}:/usr/sbin:/sbin"
        environment = {"PATH": path, "HOME": str(work), "LANG": "C.UTF-8"}
        done = subprocess.run(
            command, cwd=work, env=environment, text=True, timeout=STEP_SECONDS, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode != status:
            raise FailedError(f"{' '.join(command)[:200]}\nexit status {done.returncode}, not {status}\n{done.stdout}")
        return done.stdout

    def shell(self, text: str) -> str:
        """In a network of its own where Linux lets us: its ports are free, whoever has them elsewhere."""
        begin = ["unshare", "--map-root-user", "--net"]
        alone = subprocess.run([*begin, "true"], capture_output=True, check=False).returncode == 0
        return self.run(*(begin if alone else []), "bash", "-euo", "pipefail", "-c", BEGIN + text)

    def size_mb(self) -> float:
        """Of what was installed."""
        [packages] = (self.folder / "venv" / "lib").glob("python*/site-packages")
        return sum(path.stat().st_size for path in packages.rglob("*") if path.is_file()) / 1e6


def build_wheel(python: str, folder: Path) -> Path:
    """For this Python; the one that runs this has what is needed to build, another one gets it from pip."""
    apart = ["-C", f"build-dir={ROOT}/build/apart/{{wheel_tag}}"]
    own = ["--no-build-isolation"] if python == sys.executable else apart
    before = set(folder.glob("*.whl"))
    command = [python, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", *own]
    began = time.time()
    subprocess.run([*command, "--wheel-dir", str(folder), str(ROOT)], check=True)
    made = [path for path in folder.glob("*.whl") if path not in before or path.stat().st_mtime >= began - 1]
    return max(made, key=lambda path: path.stat().st_mtime)


def make_environment(python: str, wheel: Path, extra: str, folder: Path, *, compiled: bool = True) -> Environment:
    """With this program's pip, so that the environment has nothing but the wheel and what it depends on.
    `compiled`: to bytecode at once, as pip does; it takes longer than all the rest."""
    made = Environment(folder, extra)
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(made.python), "--disable-pip-version-check", "install"]
    what = f"{wheel}[{extra}]" if extra not in ("", CLIENT) else str(wheel)
    options = [*([] if compiled else ["--no-compile"]), *(["--no-deps"] if extra == CLIENT else [])]
    subprocess.run([*pip, "--quiet", *options, what], check=True)
    return made


# --- what is tried ----------------------------------------------------------------------------------------------------


def check_packages(made: Environment) -> None:
    found = set(made.run("python", "-c", PRESENT).split())
    if found != OPTIONAL[made.extra]:
        raise FailedError(f"optional packages: {sorted(found)}, not {sorted(OPTIONAL[made.extra])}")
    made.run("python", "-c", "import tidings; tidings.connect, tidings.Message, tidings.sync.connect")


def check_help(made: Environment) -> float:
    """Of every command; returns the CPU time of `tidings --help`."""
    made.run("python", "-c", HELP)
    made.run("tidings", "--help")  # what is compiled once is compiled now
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    made.run("tidings", "--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def check_idle(made: Environment) -> float:
    """Megabytes that a broker with the defaults holds when nobody has used it yet. Two of them run side by side."""
    text = """
tidings broker > one.log 2>&1 & one=$!
await 'info ready' one.log
tidings broker --port 7310 --metrics-port 0 --data two > two.log 2>&1 & two=$!
await 'info ready' two.log
sleep 3
awk '/VmRSS/ {print $2}' /proc/$one/status
kill $two $one; wait $two $one
"""
    return int(made.shell(text).split()[-1]) / 1000


BROKER = "rm -rf tidings-data; tidings broker > broker.log 2>&1 & broker=$!\nawait 'info ready' broker.log"
BLOCK = "=== block"  # before what the block of this number prints


def page_script(page: str) -> str:
    """The commands of a page as one script: without what needs the checkout, and without the models of the lab."""
    parts = [BROKER]
    for number, block in enumerate(blocks()):
        if block.name != page or "make setup" in block.text or block.marked("stays up") or block.marked("not run"):
            continue
        text = block.text
        if block.language == "python":
            text = f"python - <<'END'\n{text}END"
        elif block.language != "sh" or "tidings lab" in text:
            continue
        elif block.marked("in another window"):
            text = f"( {text.strip()} ) > window 2>&1 & window=$!\nawait subscribed window"
        elif block.marked("once the other window has ended"):
            text = f"wait $window\n{text}"
        elif block.marked("fails"):
            text = f"if ( {text.strip()} ); then exit 1; fi"
        parts += [f"echo '{BLOCK} {number}'", text]
    parts += ["wait $window", "grep -q hello window", "kill $broker", "wait $broker"]
    return "\n".join(parts)


def check_tutorial(made: Environment) -> None:
    told = made.shell(page_script("docs/tutorial.md"))
    if "durable:me:far" not in told:
        raise FailedError(f"the trace does not name the subscriber:\n{told}")


def check_first_hour(made: Environment) -> None:
    """The transcript of a newcomer: commands, and answers except for their numbers."""
    page = "docs/howto/first_hour.md"
    told = made.shell(page_script(page))
    answers = {int(part.split("\n")[0]): part.partition("\n")[2] for part in told.split(f"{BLOCK} ")[1:]}
    everything = list(enumerate(blocks()))
    for (number, asked), (_, shown) in pairwise(everything):
        if (
            asked.name == page
            and shown.language == "text"
            and without_numbers(answers[number]) != without_numbers(shown.text)
        ):
            raise FailedError(f"{asked.text}\nanswers\n{answers[number]}\nand not\n{shown.text}")


def without_numbers(text: str) -> str:
    """
    >>> without_numbers("id 0e29779000000001 at 00:10:07.204, broker 1")
    'id # at #:#:#.#, broker #'
    """
    return re.sub(r"\b[0-9a-f]{16,}\b|\d+", "#", text).strip()


def check_refusals(made: Environment) -> None:
    """A missing package is reported in one line that says what to install."""
    for name, text in CONFIGURATIONS.items():
        (made.folder / "work" / f"{name}.toml").write_text(text)
    for package, command in REFUSED.items():
        if package not in OPTIONAL[made.extra]:
            told = made.run(*command.split(), status=2)
            if "pip install 'tidings[" not in told or len(told.strip().splitlines()) != 1:
                raise FailedError(f"{command}:\n{told}")


def check_client(made: Environment) -> str:
    """A client without a single other package, at a broker of the Python that runs this. Returns a line of figures."""
    (made.folder / "work").mkdir(exist_ok=True)
    (made.folder / "work" / "use.py").write_text(USE_CLIENT)
    broker = f"{sys.executable} -m tidings.cli broker > broker.log 2>&1 & await 'info ready' broker.log\n"
    resident_mb = int(made.shell(f"{broker} python use.py").split()[-1])
    told = made.run("tidings", "--help", status=1)
    if "pip install tidings" not in told or len(told.strip().splitlines()) != 1:
        raise FailedError(f"tidings --help:\n{told}")
    size_mb = made.size_mb()
    if size_mb > CLIENT_MB_MAX:
        raise FailedError(f"{size_mb:.0f} MB installed, at most {CLIENT_MB_MAX} are allowed")
    return f"{size_mb:5.0f} MB installed, a client holds {resident_mb} MB"


def check_all(made: Environment) -> str:
    """Returns a line of figures."""
    if made.extra == CLIENT:
        return check_client(made)
    check_packages(made)
    cpu_s, idle_mb, size_mb = check_help(made), check_idle(made), made.size_mb()
    check_refusals(made)
    check_first_hour(made)
    check_tutorial(made)
    if cpu_s > HELP_CPU_S_MAX:
        raise FailedError(f"tidings --help took {cpu_s:.2f} s of CPU, at most {HELP_CPU_S_MAX} are allowed")
    if idle_mb > IDLE_MB_MAX:
        raise FailedError(f"an idle broker holds {idle_mb:.0f} MB, at most {IDLE_MB_MAX} are allowed")
    if not made.extra and size_mb > INSTALLED_MB_MAX:
        raise FailedError(f"{size_mb:.0f} MB installed, at most {INSTALLED_MB_MAX} are allowed")
    return f"{size_mb:5.0f} MB installed, idle broker {idle_mb:3.0f} MB, tidings --help {cpu_s:.2f} s of CPU"


def main() -> int:
    parser = argparse.ArgumentParser(description="Build wheels and try them in fresh environments.")
    parser.add_argument("--python", action="append", help="an interpreter (may be repeated); otherwise this one")
    parser.add_argument(
        "--extra", action="append", choices=EXTRAS, help="only this extra (may be repeated); '' for none"
    )
    parser.add_argument("--wheels", type=Path, default=ROOT / "build" / "wheels", help="where wheels are put")
    options = parser.parse_args()
    options.wheels.mkdir(parents=True, exist_ok=True)
    failures = 0
    for python in options.python or [sys.executable]:
        wheel = build_wheel(python, options.wheels)
        print(wheel.name, flush=True)
        for extra in options.extra or EXTRAS:
            with tempfile.TemporaryDirectory(prefix="tidings-install-") as folder:
                try:
                    told = check_all(make_environment(python, wheel, extra, Path(folder)))
                except (FailedError, subprocess.SubprocessError) as error:
                    failures += 1
                    told = f"FAILED: {error}"
            print(f"  {extra or 'no extras':10} {told}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
