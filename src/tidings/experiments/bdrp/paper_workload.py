"""The B-DRP paper's workload, drawn in turn from a seed: filters and messages as the study of encodings takes them.

A message has 10 attributes out of 20 names; 60 % are strings from 200 frequent terms, the others integers up to 100.
Conjunctions have 1 to 5 constraints; strings 70 % equality and 10 % each prefix, suffix and substring; integers 80 %
equality, 10 % each < and >. The paper does not say whether a name stands for one type. If it does not (`mixed_names`),
a message matches 17 % of 100 routers with 100 conjunctions each; if it does, twice as many.
"""

from random import Random

from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Predicate
from tidings.model.values import Value

TERMS, INT_MAX, ATTRIBUTES = 200, 100, 10


class PaperWorkload:
    def __init__(self, seed: int, *, constraints_max: int = 5, names: int = 20, mixed_names: bool = True) -> None:
        self.rng = Random(seed)
        self.constraints_max, self.name_count, self.mixed_names = constraints_max, names, mixed_names
        terms: set[str] = set()
        while len(terms) < TERMS:
            syllables = self.rng.randrange(2, 6)
            terms.add("".join(self.rng.choice("bcdfghlmnprstvz") + self.rng.choice("aeiou") for _ in range(syllables)))
        self.terms = sorted(terms)

    def names(self, count: int) -> dict[str, bool]:
        """Distinct names, and whether each has a string here."""
        found: dict[str, bool] = {}
        texts = self.name_count * 3 // 5
        while len(found) < count:
            text = self.rng.random() < 0.6
            if self.mixed_names:
                found.setdefault(f"n{self.rng.randrange(self.name_count)}", text)
            else:
                number = self.rng.randrange(texts if text else self.name_count - texts)
                found[f"{'s' if text else 'i'}{number}"] = text
        return found

    def constraint(self, name: str, text: bool) -> Constraint:
        chance = self.rng.random()
        if not text:
            op = Op.EQ if chance < 0.8 else Op.LT if chance < 0.9 else Op.GT
            return Constraint(name, op, self.rng.randrange(INT_MAX + 1))
        term = self.rng.choice(self.terms)
        size = self.rng.randrange(2, 5)
        start = self.rng.randrange(len(term) - size + 1)
        if chance < 0.7:
            return Constraint(name, Op.EQ, term)
        if chance < 0.8:
            return Constraint(name, Op.PREFIX, term[:size])
        if chance < 0.9:
            return Constraint(name, Op.SUFFIX, term[-size:])
        return Constraint(name, Op.CONTAINS, term[start : start + size])

    def conjunction(self) -> list[Constraint]:
        names = self.names(self.rng.randrange(1, self.constraints_max + 1))
        return [self.constraint(name, text) for name, text in names.items()]

    def predicate(self, conjunctions: int) -> Predicate:
        return Predicate([self.conjunction() for _ in range(conjunctions)])

    def message(self) -> dict[str, Value]:
        return {
            name: self.rng.choice(self.terms) if text else self.rng.randrange(INT_MAX + 1)
            for name, text in self.names(ATTRIBUTES).items()
        }
