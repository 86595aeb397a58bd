"""The mean time one message occupies the server, as a sum of terms: (4.9) to (4.12) of the thesis and ours.

Idea: a message is received once (`t_rcv`), compared with the installed filters (`t_fltr`, times something that
depends on how the server matches), and sent r times (`t_tx`). Within that time B one message comes in and r go
out, so a saturated server receives 1/B and moves (r + 1)/B messages a second.

All models are linear in their parameters; they differ only in what the parameters are multiplied with. Hence one
table, `MODELS`, and no class per model. The last three are for an indexed matcher, whose cost grows slower than the
number of filters. Which one holds is a question for measurements: see `tidings.capacity.fitting`.

Reference: R. Henjes, Performance Evaluation of Publish/Subscribe Middleware Architectures, chapter 4.

>>> server = Fitted.of("base", t_rcv=4.10e-6, t_fltr=1.46e-5, t_tx=1.62e-5)
>>> round(server.received(Load(filters=100, replication=1)))
676
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tidings.capacity.arrays import check_finite, check_probability, refuse
from tidings.errors import CodecError, UsageError
from tidings.text_files import as_object, fault

FORMAT = "tidings.processing"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Load:
    """The mean work of a server per message: filters, copies and components of filters."""

    filters: float  # installed filters, all of them
    replication: float = 1.0  # copies sent per message received
    different: float | None = None  # filters that differ from each other; None: all of them
    components: float = 1.0  # comparisons in one filter

    def __post_init__(self) -> None:
        check_finite("filters", self.filters, 0)
        check_finite("replication", self.replication, 0)
        check_finite("components", self.components, 0)
        if self.different is not None:
            check_finite("different", self.different, 0)

    @property
    def distinct(self) -> float:
        return self.filters if self.different is None else self.different


@dataclass(frozen=True, slots=True)
class Term:
    parameter: str
    factor: str  # as it is printed; empty for the constant 1
    of: Callable[[Load], float]


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    source: str
    terms: tuple[Term, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(term.parameter for term in self.terms)

    @property
    def formula(self) -> str:
        return "B = " + " + ".join("·".join(filter(None, (term.factor, term.parameter))) for term in self.terms)

    def row(self, load: Load) -> list[float]:
        """The factors of the parameters: one row of the regression matrix of (4.4)."""
        return [term.of(load) for term in self.terms]


_RECEIVE = Term("t_rcv", "", lambda load: 1.0)
_SEND = Term("t_tx", "r", lambda load: load.replication)


def _model(name: str, source: str, *filtering: Term) -> Model:
    return Model(name, source, (_RECEIVE, *filtering, _SEND))


MODELS: Mapping[str, Model] = MappingProxyType(
    {
        model.name: model
        for model in (
            _model("base", "(4.9)", Term("t_fltr", "n", lambda load: load.filters)),
            _model(
                "identical",
                "(4.10)",
                Term("t_all", "n", lambda load: load.filters),
                Term("t_diff", "n_diff", lambda load: load.distinct),
            ),
            _model(
                "superlinear", "(4.11)", Term("t_fltr", "n·√n", lambda load: load.filters * math.sqrt(load.filters))
            ),
            _model("complex", "(4.12)", Term("t_fltr", "n_cmp·n", lambda load: load.components * load.filters)),
            _model("sqrt", "indexed matcher", Term("t_fltr", "√n", lambda load: math.sqrt(load.filters))),
            _model("log", "indexed matcher", Term("t_fltr", "log2(1 + n)", lambda load: math.log2(1 + load.filters))),
            _model("constant", "indexed matcher"),
        )
    }
)


def model_named(name: str) -> Model:
    if name not in MODELS:
        raise refuse(f"unknown model {name!s:.40}; known models: {', '.join(MODELS)}", "E_LAB_MODEL")
    return MODELS[name]


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors of the predicted received throughput."""

    rms: float
    max: float

    def as_row(self) -> dict[str, float | None]:
        """None: without bound, for which JSON has no number. A fit that says "no time at all" errs so much."""
        return {name: value if math.isfinite(value) else None for name, value in (("rms", self.rms), ("max", self.max))}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "Errors":
        rms, most = (math.inf if row[name] is None else float(row[name]) for name in ("rms", "max"))
        return cls(rms, most)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A model with values for its parameters, in seconds; all that capacity planning needs of a server."""

    name: str
    values: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...] | None = None  # one for each value, at `level`
    level: float | None = None
    points: int = 0  # measurements it was fitted to; 0: given, not fitted
    errors: Errors | None = None  # at the points it was fitted to
    held_out: Errors | None = None  # at points that fits without them predicted: what to expect elsewhere

    def __post_init__(self) -> None:
        names = self.model.parameters
        if len(self.values) != len(names):
            raise refuse(f"{self.name} needs {', '.join(names)}, not {len(self.values)} values")
        for name, value in zip(names, self.values, strict=True):
            check_finite(name, value, 0)
        if self.intervals is not None and len(self.intervals) != len(names):
            raise refuse("give one confidence interval per value")

    @classmethod
    def of(cls, model: str, **parameters: float) -> "Fitted":
        names = model_named(model).parameters
        if set(parameters) != set(names):
            raise refuse(f"{model} needs {', '.join(names)}, not {', '.join(sorted(parameters))}")
        return cls(model, tuple(float(parameters[name]) for name in names))

    @property
    def model(self) -> Model:
        return model_named(self.name)

    @property
    def parameters(self) -> dict[str, float]:
        return dict(zip(self.model.parameters, self.values, strict=True))

    @property
    def t_rcv(self) -> float:
        return self.values[0]

    @property
    def t_tx(self) -> float:
        return self.values[-1]

    def filtering(self, load: Load) -> float:
        """Seconds spent on filters for one message: the terms between receiving and sending."""
        row = self.model.row(load)
        return sum(factor * value for factor, value in zip(row[1:-1], self.values[1:-1], strict=True))

    def fixed(self, load: Load) -> float:
        """D of (5.33): what a message costs before the first copy is sent."""
        return self.t_rcv + self.filtering(load)

    def processing_time(self, load: Load) -> float:
        """B of (4.9) to (4.12), in seconds."""
        return self.fixed(load) + load.replication * self.t_tx

    def received(self, load: Load) -> float:
        """Messages a saturated server takes in per second: 1/B."""
        return self.capacity(load, 1.0)

    def overall(self, load: Load) -> float:
        """Messages a saturated server takes in and sends out per second: (r + 1)/B."""
        return (load.replication + 1) * self.received(load)

    def capacity(self, load: Load, utilisation: float) -> float:
        """(5.31): the received messages per second that keep the server this busy, ρ/E[B]."""
        check_finite("utilisation", utilisation, 0, 1, open_low=True)
        busy = self.processing_time(load)
        if busy <= 0:
            raise refuse("the model gives a message no processing time, so capacity is undefined", "E_LAB_MODEL")
        return utilisation / busy

    def to_json(self) -> str:
        names = self.model.parameters
        document: dict[str, Any] = {"format": FORMAT, "version": VERSION, "model": self.name}
        document |= {"formula": self.model.formula, "parameters": self.parameters, "points": self.points}
        if self.intervals is None and self.points:
            document["intervals"] = None
        elif self.intervals is not None:
            document["level"] = self.level
            document["intervals"] = {name: list(pair) for name, pair in zip(names, self.intervals, strict=True)}
        for name, errors in (("errors_fitted", self.errors), ("errors_held_out", self.held_out)):
            if errors is not None:
                document[name] = errors.as_row()
        return json.dumps(document, indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Fitted":
        """Read what `to_json` wrote; anything else is refused with a CodecError."""
        try:
            return cls._read(as_object(json.loads(text)))
        except json.JSONDecodeError as error:
            raise CodecError("E_LAB_JSON", error.msg, position=error.pos) from None
        except UsageError as error:  # well-formed, but no model or parameter of ours
            raise CodecError(error.code, error.reason) from None
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise CodecError("E_LAB_JSON", f"not a stored model: {fault(error)}") from None

    @classmethod
    def _read(cls, document: Any) -> "Fitted":
        if document["format"] != FORMAT or document["version"] != VERSION:
            raise CodecError("E_LAB_VERSION", f"expected {FORMAT} version {VERSION}")
        names = model_named(document["model"]).parameters
        pairs = document.get("intervals")
        fitted = document.get("errors_fitted", document.get("errors"))  # the latter: models stored before both were
        held_out = document.get("errors_held_out")
        return cls(
            document["model"],
            tuple(float(document["parameters"][name]) for name in names),
            None if pairs is None else tuple((float(pairs[name][0]), float(pairs[name][1])) for name in names),
            None if pairs is None else float(document["level"]),
            int(document["points"]),
            None if fitted is None else Errors.of_row(fitted),
            None if held_out is None else Errors.of_row(held_out),
        )


def filters_pay_off(filters: float, match_probability: float, t_fltr: float, t_tx: float) -> bool:
    """(5.32): whether a consumer's filters save the server more sending than they cost it in matching."""
    check_probability("match_probability", match_probability)
    return filters * t_fltr < (1 - match_probability) * t_tx


def match_probability_break_even(filters: float, t_fltr: float, t_tx: float) -> float:
    """(5.32) solved for p_match: below it the filters pay off; 0 if they never do."""
    check_finite("t_tx", t_tx, 0, open_low=True)
    return max(0.0, 1 - filters * t_fltr / t_tx)
