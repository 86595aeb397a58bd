"""From measured points of a calibration to a model, tested at those that were held out."""

from collections.abc import Sequence
from dataclasses import replace

from tidings.capacity.cost_fit import CostPoint, errors_of, fit_broker
from tidings.capacity.cost_model import BrokerCosts
from tidings.errors import UsageError
from tidings.lab.calibration.design import DesignedPoint
from tidings.lab.calibration.measure import MeasuredPoint, cost_points, wake_seconds


def calibrated(
    points: Sequence[DesignedPoint], measured: Sequence[MeasuredPoint], *, excluded: Sequence[str] = ()
) -> BrokerCosts:
    """The fit to the designed points; its held-out errors are those at points that it has not seen, if any are."""
    names = {one.name for one in points}
    unknown = sorted(set(excluded) - names)
    if unknown:
        raise UsageError("E_LAB_POINT", f"no point {unknown[0]!r}; points: {', '.join(sorted(names))}")
    found = cost_points(measured)
    if not found:
        raise UsageError("E_LAB_RESULTS", "no point was measured; see the reasons in the file of results")
    apart = {one.name for one in points if one.held_out}
    used = [one for one in found if one.name not in apart]
    costs = fit_broker(used, wake_seconds(measured), excluded=excluded)
    held_out = held_out_points(costs, [one for one in found if one.name in apart and one.name not in excluded])
    return replace(costs, held_out=errors_of(costs, held_out)) if held_out else costs


def held_out_points(costs: BrokerCosts, points: Sequence[CostPoint]) -> list[CostPoint]:
    """Those within the domain: of others the model says that it does not know them."""
    return [one for one in points if not costs.outside(one.traffic)]
