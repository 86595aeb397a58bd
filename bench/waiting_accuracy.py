"""Accuracy of the Gamma-approximation: its quantiles against the exact ones, discrete-time analysis and simulation.

    python -m bench.waiting_accuracy

Service times are Gamma-distributed with mean 1 and the given c_var (0: constant). Exact means inversion of the
Pollaczek–Khintchine transform, and the series of `hardening.queueing.exact` for constant service. Discrete-time
analysis is compared with the approximation from the discretised moments, as in section 5.1.4 of the thesis; it is left
out where it would take more than a minute. "Exceeded" says how often messages wait longer than the approximated
quantile, as a multiple of what it promises (1 would be perfect): exactly, and in a simulation of several independent
runs, with the standard error over them. (A simulated 99.99 % quantile would be a poor judge: in heavy traffic the few
messages beyond it come in a handful of clusters, about messages·(1 − p)·(1 − ρ)²/(1 + c_var²) of them. Where fewer
than CLUSTERS_MIN are to be expected, neither the mean nor its standard error could be trusted, and the simulation is
left out.)
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from hardening.queueing.discrete import DiscreteSettings, analyse, exponential_cdf, gamma_cdf
from hardening.queueing.exact import md1_quantile, md1_tail
from hardening.queueing.inversion import gamma_transform, quantile_by_inversion, tail_by_inversion
from hardening.queueing.lindley import simulate

from tidings.capacity.arrays import Array
from tidings.capacity.service import gamma_moments
from tidings.capacity.waiting import GammaWaiting

FOLDER = Path(__file__).parent / "results"
C_VARS = (0.0, 0.2, 0.4, 1.0, 1.5, 2.0, 4.0)
RHOS = (0.3, 0.5, 0.7, 0.9, 0.95)
PROBABILITIES = (0.99, 0.9999)
DISCRETE_RHO_MAX = {0.0: 0.95, 0.2: 0.95, 0.4: 0.95, 1.0: 0.95, 1.5: 0.9, 2.0: 0.9, 4.0: 0.7}
RUNS, MESSAGES = 10, 2_000_000
CLUSTERS_MIN = 50


@dataclass(frozen=True, slots=True)
class Row:
    """One queue and one probability; quantiles in mean service times, errors relative."""

    c_var: float
    rho: float
    probability: float
    exact: float
    gamma: float
    gamma_error: float  # against the exact quantile
    gamma_error_discrete: float | None  # against discrete-time analysis, from the discretised moments
    exceeded_exact: float
    exceeded_simulated: float | None
    exceeded_simulated_error: float | None  # standard error


def exact_tail(t: float, rho: float, c_var: float) -> float:
    if c_var == 0:
        return float(md1_tail(t, rho, 1.0))
    return float(tail_by_inversion(t, rho, 1.0, gamma_transform(1.0, c_var)))


def exact_quantile(p: float, rho: float, c_var: float) -> float:
    if c_var == 0:
        return md1_quantile(p, rho, 1.0)
    return quantile_by_inversion(p, rho, 1.0, gamma_transform(1.0, c_var))


def discrete_errors(rho: float, c_var: float) -> list[float | None]:
    if rho > DISCRETE_RHO_MAX[c_var]:
        return [None] * len(PROBABILITIES)
    queue = analyse(exponential_cdf(1.0), gamma_cdf(rho, c_var), 1.0, DiscreteSettings(iterations_max=50_000))
    gamma = GammaWaiting.of(1 / float(queue.interarrival.moments().first), queue.service.moments())
    return [float(gamma.quantile(p)) / queue.quantile(p) - 1 for p in PROBABILITIES]


def simulated_tails(times: list[float], rho: float, c_var: float, seed: int) -> Array:
    """tails[run, time], of independent runs."""

    def service(rng: np.random.Generator, size: int) -> Array:
        return np.ones(size) if c_var == 0 else rng.gamma(1 / c_var**2, c_var**2, size)

    runs = (
        simulate(rng, rho, service, MESSAGES, warm_up=MESSAGES // 10) for rng in np.random.default_rng(seed).spawn(RUNS)
    )
    return np.array([[run.tail(t) for t in times] for run in runs])


def rows_of(rho: float, c_var: float, seed: int) -> list[Row]:
    gamma = GammaWaiting.of(rho, gamma_moments(1.0, c_var))
    found = [float(gamma.quantile(p)) for p in PROBABILITIES]
    tails = simulated_tails(found, rho, c_var, seed)
    discrete = discrete_errors(rho, c_var)
    rows = []
    for i, p in enumerate(PROBABILITIES):
        exact = exact_quantile(p, rho, c_var)
        exceeded = tails[:, i] / (1 - p)
        enough = RUNS * MESSAGES * (1 - p) * (1 - rho) ** 2 / (1 + c_var**2) >= CLUSTERS_MIN
        simulated = (float(exceeded.mean()), float(exceeded.std(ddof=1) / np.sqrt(RUNS))) if enough else (None, None)
        exceeded_exact = exact_tail(found[i], rho, c_var) / (1 - p)
        rows.append(Row(c_var, rho, p, exact, found[i], found[i] / exact - 1, discrete[i], exceeded_exact, *simulated))
    return rows


def markdown(rows: list[Row]) -> str:
    lines = [
        "# Errors of the Gamma-approximation of the waiting time",
        "",
        "Written by `python -m bench.waiting_accuracy`; what the columns mean is said there.",
        "",
        "| c_var | ρ | quantile | exact | Gamma | error | against DTA | exceeded, exactly | exceeded, simulated |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    scores = []
    for row in rows:
        discrete = "–" if row.gamma_error_discrete is None else f"{row.gamma_error_discrete:+.2%}"
        simulated = "–"
        if row.exceeded_simulated is not None and row.exceeded_simulated_error is not None:
            simulated = f"{row.exceeded_simulated:.3f} ± {row.exceeded_simulated_error:.3f}"
            scores.append((row.exceeded_simulated - row.exceeded_exact) / row.exceeded_simulated_error)
        numbers = f"{row.exact:.3f} | {row.gamma:.3f} | {row.gamma_error:+.2%} | {discrete}"
        numbers += f" | {row.exceeded_exact:.3f} | {simulated}"
        lines.append(f"| {row.c_var:g} | {row.rho:g} | {row.probability:.2%} | {numbers} |")
    worst = max(rows, key=lambda row: abs(row.gamma_error))
    heavy = max(abs(row.gamma_error) for row in rows if row.rho >= 0.7)
    lines += ["", f"Largest error: {worst.gamma_error:+.2%}, at c_var {worst.c_var:g}, ρ {worst.rho:g}."]
    lines += [f"Largest error from ρ = 0.7 on: {heavy:.2%}."]
    rms = float(np.sqrt(np.mean(np.square(scores))))
    expected = ((RUNS - 1) / (RUNS - 3)) ** 0.5  # of Student's t with RUNS − 1 degrees of freedom
    lines += [f"Simulated against exact, in standard errors: rms {rms:.2f} of {len(scores)} (expected {expected:.2f})."]
    return "\n".join(lines) + "\n"


def main() -> None:
    rows = []
    for index, (c_var, rho) in enumerate((c_var, rho) for c_var in C_VARS for rho in RHOS):
        rows += rows_of(rho, c_var, seed=index)
        print(f"c_var {c_var:g}, rho {rho:g}: {rows[-1].gamma_error:+.2%} at {rows[-1].probability:.2%}", flush=True)
    (FOLDER / "waiting_accuracy.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    (FOLDER / "waiting_accuracy.md").write_text(markdown(rows))


if __name__ == "__main__":
    main()
