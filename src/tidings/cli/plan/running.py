"""`tidings plan capacity --from-broker`: the planner's answers for a broker that runs, from what it publishes."""

import urllib.request
from dataclasses import asdict

import typer

from tidings.capacity.online import UTILISATION_MAX
from tidings.capacity.running_model import Interval, LoadAsked, RunningAnswer, RunningModel
from tidings.cli.json_text import strict_json
from tidings.errors import UsageError

SECONDS_MAX = 10.0


def plan_from_broker(address: str, asked: LoadAsked, *, as_json: bool) -> None:
    answer = RunningModel.from_metrics(_metrics(address)).plan(asked)
    if as_json:
        typer.echo(strict_json(asdict(answer)))
        return
    for line in lines(asked, answer):
        typer.echo(line)


def _metrics(address: str) -> str:
    """`address`: HOST:PORT of its metrics, or their address with http:// or https://."""
    url = address if "://" in address else f"http://{address}"
    if not url.startswith(("http://", "https://")):
        raise UsageError("E_PLAN_BROKER", f"--from-broker takes HOST:PORT of a broker's metrics, not {address!r}")
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/metrics", timeout=SECONDS_MAX) as page:
            return str(page.read().decode(errors="replace"))
    except (OSError, ValueError) as error:
        raise UsageError("E_PLAN_BROKER", f"cannot read the metrics at {url}: {error}") from None


def lines(asked: LoadAsked, answer: RunningAnswer) -> list[str]:
    """The answer for people; a load outside the experience of the broker comes first."""
    found = []
    if answer.outside:
        found.append(f"outside of what was measured: {'; '.join(answer.outside)}")
    found.append(f"{UTILISATION_MAX:.0%} busy at {_counts(answer.busiest)} messages/s")
    share, bound = f"{asked.probability:.6g}", _ms(asked.waiting_max_s)
    found.append(f"{share} wait at most {bound} up to {_counts(answer.rate_allowed)} messages/s")
    if asked.rate is None:
        return found
    verdict = {True: "yes", False: "no", None: "cannot tell, it is within the interval"}[answer.enough(asked.rate)]
    found.append(f"{asked.rate:,.0f} messages/s: {verdict}")
    if answer.busy and answer.waiting_mean and answer.waiting_quantile:
        low, middle, high = answer.busy
        found.append(f"busy {middle:.0%} ({low:.0%} to {high:.0%})")
        found.append(f"mean wait {_times(answer.waiting_mean)}; {share} wait at most {_times(answer.waiting_quantile)}")
    return found


def _counts(one: Interval) -> str:
    low, middle, high = one
    return f"{middle:,.0f} ({low:,.0f} to {high:,.0f})"


def _times(one: Interval) -> str:
    low, middle, high = one
    return f"{_ms(middle)} ({_ms(low)} to {_ms(high)})"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
