"""Stores calibrated costs of brokers as JSON, by protocol, with where and how they were measured."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidings.capacity.arrays import refuse
from tidings.capacity.cost_model import BrokerCosts
from tidings.capacity.processing import Errors
from tidings.capacity.traffic import CLIENT_TERMS, TERMS
from tidings.errors import CodecError, UsageError
from tidings.text_files import as_object, fault

FORMAT, VERSION = "tidings.broker-costs", 2


@dataclass(frozen=True, slots=True)
class CalibratedModel:
    """Costs by protocol. `environment`: machine, software and settings of the measurement."""

    protocols: Mapping[str, BrokerCosts]
    environment: Mapping[str, Any] = field(default_factory=dict)

    def costs(self, protocol: str) -> BrokerCosts:
        if protocol not in self.protocols:
            known = ", ".join(self.protocols)
            reason = (
                f"the model knows {known}, not {protocol}; calibrate it: tidings lab calibrate --protocol {protocol}"
            )
            raise refuse(reason, "E_PLAN_DOMAIN")
        return self.protocols[protocol]

    def with_costs(self, protocol: str, costs: BrokerCosts) -> "CalibratedModel":
        return CalibratedModel({**self.protocols, protocol: costs}, self.environment)

    def to_json(self) -> str:
        protocols = {name: _document(costs) for name, costs in self.protocols.items()}
        head = {"format": FORMAT, "version": VERSION, "environment": dict(self.environment)}
        return json.dumps({**head, "protocols": protocols}, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "CalibratedModel":
        """Read what `to_json` wrote; anything else is refused with a CodecError."""
        try:
            document = as_object(json.loads(text))
            if document["format"] != FORMAT or document["version"] != VERSION:
                raise CodecError("E_LAB_VERSION", f"expected {FORMAT} version {VERSION}")
            protocols = {str(name): _read(costs) for name, costs in document["protocols"].items()}
            return cls(protocols, as_object(document.get("environment", {})))
        except json.JSONDecodeError as error:
            raise CodecError("E_LAB_JSON", error.msg, position=error.pos) from None
        except UsageError as error:
            raise CodecError(error.code, error.reason) from None
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise CodecError("E_LAB_JSON", f"not stored costs of a broker: {fault(error)}") from None


def is_calibrated(text: str) -> bool:
    """True for a file of this format, whether or not it is intact."""
    try:
        return bool(as_object(json.loads(text)).get("format") == FORMAT)
    except (RecursionError, ValueError):
        return False


def _document(costs: BrokerCosts) -> dict[str, Any]:
    found: dict[str, Any] = {
        "seconds": costs.parameters,
        "share": costs.share,
        "wake": costs.wake,
        "points": costs.points,
        "persistent": list(costs.persistent),
        "domain": {name: list(pair) for name, pair in costs.domain.items()},
        "excluded": list(costs.excluded),
        "client_seconds": dict(zip(CLIENT_TERMS, costs.client, strict=False)),
        "covariance": [list(line) for line in costs.covariance],
    }
    for name, errors in (("errors_fitted", costs.errors), ("errors_held_out", costs.held_out)):
        if errors is not None:
            found[name] = errors.as_row()
    return found


def _read(document: dict[str, Any]) -> BrokerCosts:
    fitted, held_out = (document.get(name) for name in ("errors_fitted", "errors_held_out"))
    return BrokerCosts(
        tuple(float(document["seconds"][name]) for name in TERMS),
        float(document["share"]),
        {str(name): (float(pair[0]), float(pair[1])) for name, pair in document["domain"].items()},
        tuple(bool(one) for one in document["persistent"]),
        _square(document["covariance"]),
        float(document["wake"]),
        int(document["points"]),
        None if fitted is None else Errors.of_row(fitted),
        None if held_out is None else Errors.of_row(held_out),
        tuple(str(one) for one in document["excluded"]),
        tuple(float(value) for value in document["client_seconds"].values()),
    )


def _square(rows: Any) -> tuple[tuple[float, ...], ...]:
    found = tuple(tuple(float(one) for one in line) for line in rows)
    if found and {len(found), *map(len, found)} != {len(TERMS)}:
        raise ValueError(f"the covariance is not of {len(TERMS)} terms")
    return found
