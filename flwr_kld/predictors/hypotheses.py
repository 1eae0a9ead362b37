"""Named candidates for what clients' labels follow, some of them conditional on a context.

>>> from flwr_kld import Labels, Reference
>>> colours = Labels(["red", "green"])
>>> usual, odd = (Reference.from_probabilities(colours, p) for p in ([0.9, 0.1], [0.4, 0.6]))
>>> by_day = {"weekday": usual, "weekend": odd}
>>> candidates = Hypotheses({"always as usual": usual, "odd on weekends": by_day})
>>> candidates.at("weekend").probabilities.round(4).tolist()
[[0.8996, 0.1004], [0.4001, 0.5999]]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from flwr_kld.common.guesses import suggests
from flwr_kld.kernel.arguments import finite, instance, text
from flwr_kld.predictors.laws import Laws
from flwr_kld.reference import Reference
from flwr_kld.table.base import Domain
from flwr_kld.table.table import require_one_symbol

Hypothesis = Reference | Mapping[str, Reference]
"""A constant law, or a table by context (the paper's f: x ↦ D(Y))."""

_KEPT = 16
"""Contexts whose tables stay in memory."""


@suggests()
class Hypotheses:
    """K named hypotheses over one domain. Public.

    Parameters
    ----------
    candidates : Mapping[str, Hypothesis]
        At least two, by name.
    floor : float
        In [0, 1): every law becomes ``(1 - floor) f + floor / M``, so that no label is impossible
        under a candidate and no prediction is infinitely wrong: neither a listed one nor 'other' or
        'missing', which the M labels of a domain include.

    Raises
    ------
    ValueError
        If there are fewer than two, the floor is out of range, domains differ, or are a table.
    """

    def __init__(self, candidates: Mapping[str, Hypothesis], *, floor: float = 1e-3) -> None:
        instance("candidates", candidates, Mapping, "a mapping, {name: Reference}")
        if len(candidates) < 2:
            raise ValueError("a predictor needs at least two candidate hypotheses")
        self._candidates = dict(candidates)
        self._floor = finite("floor", floor, least=0, below=1)
        self._constant = all(isinstance(c, Reference) for c in candidates.values())
        self._kept: dict[str, Laws] = {}
        self._domain: Domain | None = None
        for name, candidate in candidates.items():
            text("a candidate's name", name)
            known = candidate.values() if isinstance(candidate, Mapping) else [candidate]
            for reference in known:
                self._check(reference)

    @classmethod
    def from_frame(
        cls,
        domain: Domain,
        frame: Any,
        *,
        label: str,
        candidate: str,
        context: str | None = None,
        floor: float = 1e-3,
    ) -> Hypotheses:
        """Count the rows of one public frame: a candidate for each value of a column.

        Parameters
        ----------
        domain : Domain
            Of what a client reports.
        frame : data frame, or mapping of column to array [n]
            Public rows.
        label, candidate, context : str
            Columns: what a client would report, which candidate a row is of, and in which context
            it was seen; without the last, candidates are the same in all contexts.
        floor : float
            As of `Hypotheses`.
        """
        labels, of = (np.asarray(frame[column]) for column in (label, candidate))
        when = None if context is None else np.asarray(frame[context])

        def law(name: Any) -> Hypothesis:
            if when is None:
                return Reference.from_samples(domain, labels[of == name])
            return {
                str(at): Reference.from_samples(domain, labels[(of == name) & (when == at)])
                for at in np.unique(when[of == name])
            }

        return cls({str(name): law(name) for name in np.unique(of)}, floor=floor)

    @property
    def names(self) -> tuple[str, ...]:
        """The candidates' names, in order; index j of everything else."""
        return tuple(self._candidates)

    @property
    def domain(self) -> Domain:
        """What labels mean."""
        if self._domain is None:
            raise ValueError("a hypothesis must have a law in some context")
        return self._domain

    def at(self, context: str = "") -> Laws:
        """Return the laws in one context, [K, M].

        Raises `ValueError` if a table has no entry for the context.
        """
        key = "" if self._constant else context
        if key not in self._kept:
            while len(self._kept) >= _KEPT:
                del self._kept[next(iter(self._kept))]
            rows = [self._law(name, context).probabilities for name in self._candidates]
            size = len(rows[0])
            self._kept[key] = Laws((1 - self._floor) * np.array(rows) + self._floor / size)
        return self._kept[key]

    def require(self, contexts: Mapping[str, str]) -> None:
        """Refuse laws that are not those of stored fingerprints, by context: `ValueError`."""
        for context, fingerprint in contexts.items():
            if self.at(context).fingerprint != fingerprint:
                raise ValueError(f"the hypotheses have changed in context {context!r}")

    def _law(self, name: str, context: str) -> Reference:
        candidate = self._candidates[name]
        if isinstance(candidate, Reference):
            return candidate
        if context not in candidate:
            raise ValueError(f"hypothesis {name!r} has no law for context {context!r}: add one")
        return candidate[context]

    def _check(self, reference: object) -> None:
        if not isinstance(reference, Reference):
            raise ValueError("a hypothesis must be a Reference, or hold one for each context")
        self._domain = self._domain or reference.domain
        require_one_symbol(self._domain, "a predictor")
        if reference.domain != self._domain:
            raise ValueError("all hypotheses must be over the same domain")
