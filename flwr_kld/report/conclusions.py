"""Concludes a check: each column's reading, and its verdict checked against the estimates."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from flwr_kld.infer.alarm import Alarm, Tolerated
from flwr_kld.infer.contradictions import impossible_estimate
from flwr_kld.infer.decision import contradicted, held_against_estimates
from flwr_kld.infer.e_detector import EDetector
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.estimators.posterior_ratios import divergences
from flwr_kld.infer.estimators.result import Divergences
from flwr_kld.infer.one_thread import one_thread
from flwr_kld.infer.verdict import Verdict
from flwr_kld.ledger.entry import Remembered
from flwr_kld.reference import Reference
from flwr_kld.report.cohort_release import CohortRelease
from flwr_kld.report.column import ColumnReport, Reading
from flwr_kld.report.decider import Bounds, Decider, bounds_of
from flwr_kld.report.parts import column_report, read
from flwr_kld.table.table import Table

if TYPE_CHECKING:
    from flwr_kld.ledger import Ledger

_FEW = 100
"""Drawn clients, among whom there may well be none of a few that are unlike the rest."""

logger = logging.getLogger("flwr_kld")


@dataclass(frozen=True)
class _Read:
    """What the counts of one column say, before anything is decided."""

    effects: DesignEffects
    divergences: Divergences | None  # None of counts that nobody can have
    reading: Reading
    contradiction: str | None  # What cannot be in them


@dataclass
class Conclusions:
    """Concludes checks in their order."""

    reference: Reference  # What clients are compared with
    # Of each column; None if nothing is decided
    tolerated: dict[str, Tolerated] | None
    alarm: Alarm  # How sure decisions are, over all columns
    # Whether every check asks all clients about new records: only then does evidence add up
    adds_up: bool = False
    # Evidence of earlier checks by column, to go on from
    gathered: InitVar[Mapping[str, EDetector]] = MappingProxyType({})
    _deciders: dict[str, Decider] = field(init=False, repr=False)

    def __post_init__(self, gathered: Mapping[str, EDetector]) -> None:
        references = self.reference.columns
        alarm = self.alarm.shared(len(references))
        self._deciders = {
            name: Decider(
                threshold,
                outside,
                alarm,
                references[name],
                name,
                len(references),
                self.adds_up,
            )
            for name, (threshold, outside) in (self.tolerated or {}).items()
        }
        for name, detector in gathered.items():
            self._deciders[name].resume(detector)

    def so_far(self) -> dict[str, EDetector]:
        """Return the evidence of earlier checks, by column, and forget their forecasts.

        What is concluded next follows from this, and from what is published then.
        """
        found = {name: decider.so_far() for name, decider in self._deciders.items()}
        return {name: detector for name, detector in found.items() if detector is not None}

    def recall(self, ledger: Ledger, budget: str) -> None:
        """Take up what a ledger remembers; say so if it does not count any more."""
        counts = [decider.recall(ledger, budget) for decider in self._deciders.values()]
        if not all(counts):
            logger.warning(
                "evidence over checks begins anew: another version of flwr-kld gathered what the "
                "ledger keeps. Single checks decide as before."
            )

    @one_thread()
    def conclude(
        self, measured: CohortRelease, budget: str
    ) -> tuple[dict[str, ColumnReport], tuple[Remembered, ...]]:
        """Return what a check says of each column, unless numbers contradict, and what it keeps."""
        why, columns = measured.contradiction(), measured.columns
        of = {name: one.effects for name, one in columns.items()}
        estimates = divergences([one.published for one in columns.values()], effects=[*of.values()])
        read = {
            name: self._read(one, of[name], estimate, why)
            for (name, one), estimate in zip(columns.items(), estimates, strict=True)
        }
        decided = [name for name, one in read.items() if one.contradiction is None]
        decided = [name for name in decided if name in self._deciders]
        bounds = bounds_of(
            [self._deciders[name] for name in decided],
            [columns[name].published for name in decided],
        )
        by_name = dict(zip(decided, bounds, strict=True))
        found = {
            name: self._column(name, one, read[name], by_name.get(name), budget)
            for name, one in columns.items()
        }
        states = tuple(state for _, kept in found.values() for state in kept)
        return {name: column for name, (column, _) in found.items()}, states

    def _read(
        self,
        measured: CohortRelease,
        effects: DesignEffects,
        found: Divergences | None,
        contradiction: str | None,
    ) -> _Read:
        """Return what the counts of a column say, whatever is decided."""
        reading = self._reading(measured, found, effects)
        contradiction = contradiction or impossible_estimate(
            reading.estimate, reading.error.privacy
        )
        if contradiction is not None:
            note = f"the published numbers contradict each other: {contradiction}"
            reading = replace(reading, note=note)
        return _Read(effects, found, reading, contradiction)

    def _column(
        self, name: str, measured: CohortRelease, read: _Read, found: Bounds | None, budget: str
    ) -> tuple[ColumnReport, tuple[Remembered, ...]]:
        """Return what a check says of one column, and what it keeps."""
        verdict, states = self._decided(name, measured, read, found, budget)
        table = self.reference.domain
        units, descriptions = (
            (table.units, table.descriptions) if isinstance(table, Table) else ({}, {})
        )
        report = column_report(
            measured.published,
            replace(read.reading, drawn_from=measured.drawn_from, counted=measured.whose),
            verdict,
            columns=len(self.reference.columns),
            effects=read.effects,
            draws="client" if measured.asked.drawn else "record",
            unit=units.get(name, ""),
            description=descriptions.get(name, ""),
        )
        return report, states

    def _reading(
        self, measured: CohortRelease, found: Divergences | None, effects: DesignEffects
    ) -> Reading:
        """Return what a column's counts say, with a note if few of many clients were drawn."""
        reading, clients = read(measured.published, found, effects=effects), measured.survivors
        if not measured.asked.drawn or clients > _FEW or not reading.of_population:
            return reading
        few = (
            "the population's ± may be too small if a few of its clients are much larger than "
            f"the rest, or far from them, and not among these {clients}"
        )
        return replace(reading, note="; ".join(filter(None, (reading.note, few))))

    def _decided(
        self,
        name: str,
        measured: CohortRelease,
        read: _Read,
        found: Bounds | None,
        budget: str,
    ) -> tuple[Verdict | None, tuple[Remembered, ...]]:
        """Return the verdict, held against the estimates, and the evidence after it."""
        if (decider := self._deciders.get(name)) is None:
            return None, ()
        if read.contradiction is not None or found is None:
            return contradicted(decider.threshold, decider.alarm, read.contradiction or ""), ()
        reading, estimates = read.reading, read.divergences
        population = None if estimates is None else estimates.population
        verdict, states = decider.decide(measured, found, population, reading.outside, budget)
        shown = reading.of_population
        held = held_against_estimates(
            verdict,
            None if shown is None else shown.value,
            reading.estimate,
            reading.outside,
            deviation=0.0 if shown is None else shown.deviation,
        )
        return held, states
