"""Every statement of the three papers beside what is computed: exactly, or by simulation.

Run ``python simulations/studies/theorems.py [--quick] [--out DIR]``: a minute, or seconds.
Writes ``theorems.csv`` and ``theorems.json``, a row for each statement: what is computed, what the
paper says of it, and whether that holds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy.linalg import hadamard

from flwr_kld.integral.boosting import LN_2, log_odds, mbde_steps, tilted
from flwr_kld.integral.fit import mbde_boosted
from flwr_kld.predictors import BayesMixture
from flwr_kld.simulations.studies.integral_domains import mixture
from flwr_kld.simulations.studies.papers.learners import PureLocalEXP3, kl_risk
from flwr_kld.simulations.studies.papers.rounds import Round, rounds_of
from flwr_kld.simulations.studies.predictor_learners import (
    Floats,
    Mixture,
    Scores,
    hypotheses_of,
    run,
    total_variation,
)
from flwr_kld.simulations.studies.runner import (
    Row,
    console,
    generator,
    plain_parser,
    save,
    show,
    significant,
)
from flwr_kld.trust.calibration import analytic_sigma

DELTA = 1e-6
Found = tuple[str, str, float, str, float, bool | None]
"""Statement, what is computed and its number, the paper's, and whether that holds; None: unsaid."""


def kl(p: Floats, q: Floats) -> float:
    """KL(P || Q) in nats, of laws of full support."""
    return float(p @ np.log(p / q))


def epsilon_of(mu: float, delta: float = DELTA) -> float:
    """Return ε of Gaussian noise that is 1/mu times as wide as what it hides."""
    low, high = 1e-6, 1e3
    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        enough = analytic_sigma(middle, delta) <= 1 / mu
        low, high = (low, middle) if enough else (middle, high)
    return high


def unbiased(quick: bool) -> Iterator[Found]:
    """PRIEST-KLD, Theorems 4.3 to 4.8: laws of full support, noise of standard deviation 1."""
    rng = generator("unbiased")
    draws, runs = 100, 400 if quick else 4_000
    worst, printed, tightness = 0.0, 0.0, []
    for _ in range(3 if quick else 10):
        pi, p = rng.dirichlet(np.full(40, 2.0)), rng.dirichlet(np.full(40, 2.0))
        x = rng.choice(np.arange(40), (runs, draws), p=pi)
        r = (p / pi)[x]
        true, reverse = kl(pi, p), kl(p, pi)
        alpha, beta = float((p / pi).max()), float((pi / p).max())
        for lam in (0.0, 0.5, 1.0):
            a, b = np.log(r).sum(axis=1), lam * (r - 1).sum(axis=1)
            one = (b - a) / draws + rng.standard_normal(runs)
            noise = rng.standard_normal((2, runs)) * draws / math.sqrt(2)
            two = (b + noise[0] - a - noise[1]) / draws
            for found in (one, two):
                z = (found.mean() - true) / (found.std() / math.sqrt(runs))
                worst = max(worst, abs(float(z)))
            if lam == 0:
                printed = max(printed, abs(float((a + b).mean() / draws - true) / true))
            score = lam * (p / pi - 1) - np.log(p / pi)
            exact = float(pi @ score**2 - true**2) / draws + 1
            bound = (lam**2 * (alpha - 1) + max(alpha, beta**2) - 1 + true**2) / draws + 1
            bound -= 2 * lam / draws * (true + reverse)
            tightness.append((bound - 1) / (exact - 1))
    yield ("4.3, 4.7: unbiased", "largest |mean - D| of Trusted and TAgg, in standard errors",
           worst, "0, so below", 4.5, worst < 4.5)  # fmt: skip
    yield ("Algorithm 2 as printed, (A + B) / T", "largest |mean / D - 1| at λ = 0",
           printed, "", 0.0, printed < 0.5)  # fmt: skip
    least = min(tightness)
    yield ("4.4, 4.8: variance bound", "least bound / variance, of the draws", least,
           "at least", 1.0, least >= 1)  # fmt: skip


def best_lambda(quick: bool) -> Iterator[Found]:
    """PRIEST-KLD, Corollary 4.5: the λ of least variance."""
    rng = generator("best lambda")
    inside, losses = 0.0, []
    for _ in range(200 if quick else 2_000):
        pi, p = rng.dirichlet(np.full(10, 2.0)), rng.dirichlet(np.full(10, 2.0))
        r = p / pi
        alpha, beta = float(r.max()), float((1 / r).max())
        printed = (kl(p, pi) + kl(pi, p)) / (alpha - 1)
        optimum = float(pi @ ((r - 1) * np.log(r)) / (pi @ (r - 1) ** 2))
        inside = max(inside, printed / ((alpha * beta - 1) ** 2 / (2 * alpha * beta * (alpha - 1))))
        at = [float(pi @ (lam * (r - 1) - np.log(r)) ** 2) - kl(pi, p) ** 2
              for lam in (printed, optimum)]  # fmt: skip
        losses.append(at[0] / at[1])
    yield ("4.5: 0 <= λ0 <= bound", "largest λ0 / bound", inside, "at most", 1.0, inside <= 1)
    loss = float(np.median(losses))
    yield ("4.5: λ0 has the least variance", "median variance at λ0 / at the optimum",
           loss, "", 1.0, loss < 1 + 1e-9)  # fmt: skip


def printed_noise(quick: bool) -> Iterator[Found]:
    """PRIEST-KLD, Corollary 3.1 and Theorem 4.6: what the printed Gaussian noise protects."""
    move = LN_2
    for claimed in (0.05, 1.0):
        deviation = math.sqrt(2 * math.log(1.25 / DELTA) * move / claimed)
        true = epsilon_of(move / deviation)
        yield (f"3.1, 4.6: noise of ε = {claimed:g}, Δ = ln 2", "exact ε", true,
               "", claimed, true <= claimed)  # fmt: skip
    both = epsilon_of(math.sqrt(2) / analytic_sigma(math.sqrt(2), DELTA))
    yield "4.6: A and B at √2 ε each, ε = 1", "exact ε together", both, "", 1.0, both <= 1


def sensitivities(quick: bool) -> Iterator[Found]:
    """PRIEST-KLD, Theorems 4.9 and 4.10: adjacent laws in which every value occurs twice."""
    rng = generator("sensitivities")
    exact, once, estimate = 0.0, 0.0, 0.0
    for _ in range(2_000 if quick else 20_000):
        n = int(rng.integers(2, 6))
        pi = rng.dirichlet(np.full(n, rng.choice([0.05, 0.3, 1.0]))) + 1e-9
        pi /= pi.sum()
        first = 2 + rng.poisson(rng.choice([0, 1, 5]), n)
        second = first.copy()
        u, v = rng.choice(n, 2, replace=False)
        second[u] -= 1
        second[v] += 1
        laws = [h / h.sum() for h in (first, second)]
        move = abs(kl(pi, laws[0]) - kl(pi, laws[1]))
        once = max(once, move)
        if second.min() < 2:
            continue
        exact = max(exact, move)
        lams = [(kl(p, pi) + kl(pi, p)) / ((p / pi).max() - 1) for p in laws]
        numbers = [lam * (p / pi - 1) - np.log(p / pi) for lam, p in zip(lams, laws, strict=True)]
        moved = float(np.abs(numbers[0] - numbers[1]).max())
        largest = max(float((p / pi).max()) for p in laws)
        bound = (largest - 1) * abs(lams[0] - lams[1])
        bound += lams[1] / (first.sum() * pi.min()) + math.log(2)
        estimate = max(estimate, moved / bound)
    yield ("4.9: Δ(D) on laws with every value twice", "largest move", exact, "below", 0.7,
           exact < 0.7)  # fmt: skip
    yield ("4.9, if only one of the two laws is such", "largest move", once, "below", 0.7,
           once < 0.7)  # fmt: skip
    yield ("4.10: (α̂ - 1)|λ - λ'| + λ'/(N m) + ln 2", "largest move / bound", estimate, "at most",
           1.0, estimate <= 1)  # fmt: skip


def repeated_draws(quick: bool) -> Iterator[Found]:
    """PRIEST-KLD, Theorem 4.11: one histogram, or an answer for each of 1,000 draws."""
    rng = generator("repeated draws")
    pi = 1 / np.arange(1.0, 1_001)
    times = rng.multinomial(1_000, pi / pi.sum(), 20 if quick else 200)
    yield ("4.11: distinct values, each asked once", "ε, of noise for ε = 1", 1.0, "", 1.0, True)
    # One record of the most frequent value is in that many answers, each with noise for 1/2.
    many = float(np.median(np.sort(times, axis=1)[:, -2:].sum(axis=1))) / 2
    yield ("4.11: a cohort for each draw of a Zipf law", "ε, of noise for ε = 1", many, "", 1.0,
           many <= 1)  # fmt: skip


def hard_class(pairs: int, epsilon: float, horizon: int) -> tuple[Floats, float]:
    """Laws of eq. (16), 2K of them, and a."""
    size = 1 << pairs.bit_length()
    columns = hadamard(size)[1 : pairs + 1]
    hard = min((math.exp(epsilon) - 1) ** 2, 1) * math.exp(epsilon)
    a = math.sqrt(pairs / (9 * horizon * hard))
    first = np.where(columns == 1, 0.0, 2 / size)
    return np.vstack([first, first + columns * a / size]), a


def lower_bound(quick: bool) -> Iterator[Found]:
    """Online paper, Theorem 3: the hard class, and learners on it."""
    epsilon, horizon = 0.5, 1_000
    for pairs in (3, 15):
        table, a = hard_class(pairs, epsilon, horizon)
        risks: dict[str, list[float]] = {"default queries": [], "Algorithm 2": []}
        for true in (0, pairs):
            law = table[true]
            hypotheses = hypotheses_of(table)
            for repeat in range(2 if quick else 8):
                rng = generator("hard class", pairs, true, repeat)
                mix = Mixture(BayesMixture(hypotheses, epsilon, share=0.0),
                              np.eye(2 * pairs)[true], rng)  # fmt: skip
                scores = Scores(PureLocalEXP3(hypotheses.at(), epsilon, horizon=horizon), law,
                                2 * pairs, rng)  # fmt: skip
                for name, learner in (("default queries", mix), ("Algorithm 2", scores)):
                    risks[name].append(run(learner, law, horizon).risk(horizon))
        bound = horizon * a / 132
        for name, found in risks.items():
            mean = float(np.mean(found))
            yield (f"Theorem 3, K = {2 * pairs}: {name}", "KL-risk, nats", mean, "at least",
                   bound, mean >= bound)  # fmt: skip
    # Eq. (23c) for a reply whose probability is 1 for one of four labels and e**-ε for the others
    q = np.array([1.0, *[math.exp(-4.0)] * 3])
    left = ((q[:, None] - q) ** 2).sum() / (2 * 16)
    right = (q**2).sum() / (2 * 4)
    yield ("Theorem 3, eq. (23c) at ε = 4, four labels", "left side / right side",
           float(left / right), "at most", 1.0, bool(left <= right))  # fmt: skip


def averaged_risk(quick: bool) -> Iterator[Found]:
    """Online paper, Theorem 6 and its conjecture: the averaged TV-risk falls as T**-1/2."""
    epsilon, k, horizons = 1.0, 10, (1_000, 4_000, 16_000)
    table = generator("averaged").dirichlet(np.ones(100), k)
    hypotheses, law = hypotheses_of(table), table[0]
    means: dict[str, list[float]] = {"default queries": [], "Algorithm 2": []}
    for horizon in horizons:
        risks: dict[str, list[float]] = {name: [] for name in means}
        for repeat in range(2 if quick else 8):
            rng = generator("averaged", horizon, repeat)
            mix = Mixture(BayesMixture(hypotheses, epsilon, share=0.0), np.eye(k)[0], rng)
            exp3 = Scores(PureLocalEXP3(hypotheses.at(), epsilon, horizon=horizon), law, k, rng)
            for name, learner in (("default queries", mix), ("Algorithm 2", exp3)):
                path = run(learner, law, horizon, apart=total_variation)
                risks[name].append(path.risk(horizon) / horizon)
        for name, found in risks.items():
            means[name].append(float(np.mean(found)))
    for name, found in means.items():
        bound = math.sqrt(kl_risk(k, epsilon, horizons[-1]) / (2 * horizons[-1]))
        yield (f"Theorem 6: {name}", "averaged TV-risk at T = 16,000", found[-1], "at most",
               bound, found[-1] <= bound)  # fmt: skip
    slopes = {name: float(np.polyfit(np.log(horizons), np.log(found), 1)[0])
              for name, found in means.items()}  # fmt: skip
    slope = slopes["default queries"]
    yield ("Conjecture after Theorem 6: default queries", "exponent of T", slope, "at most", -0.5,
           slope <= -0.5)  # fmt: skip
    yield ("Theorem 6: Algorithm 2, up to T = 16,000", "exponent of T", slopes["Algorithm 2"],
           "for large T", -0.25, None)  # fmt: skip


def boosting(quick: bool) -> Iterator[Found]:
    """Integral privacy, Theorems 5 to 8, on the paper's mixture of three, as cells."""
    domain = mixture(0)
    base = domain.base
    target = base.histogram(domain.records) / len(domain.records)
    start = domain.kl(base.mass)
    for epsilon in (1.0,) if quick else (0.5, 1.0, 5.0):
        steps = mbde_steps(epsilon, 3)
        fitted = tilted(base.mass, mbde_boosted(domain.records, base, epsilon, rounds=3))
        reach = float(np.abs(np.log(fitted / base.mass)).max())
        yield (f"Theorem 5, ε = {epsilon:g}: Q is in the box", "largest |ln Q / Q0|", reach,
               "at most", epsilon / 2, reach <= epsilon / 2)  # fmt: skip
        rounds = rounds_of(target, base.mass, log_odds, steps, features=base.features)
        surplus = min(r.drop - r.bound for r in rounds)
        yield (f"Theorem 6, mended, ε = {epsilon:g}", "least drop less its bound, nats", surplus,
               "at least", 0.0, surplus >= 0)  # fmt: skip
        drop = start - domain.kl(fitted)
        yield (f"Theorem 7, ε = {epsilon:g}: limit", "drop of KL, nats", drop, "at most",
               epsilon / 2, drop <= epsilon / 2)  # fmt: skip
        yield from modes(domain.truth, base.mass, fitted, epsilon, rounds)
    (one,) = rounds_of(np.array([0.75, 0.25]), np.array([0.25, 0.75]), _two_points,
                       mbde_steps(1.0, 1))  # fmt: skip
    printed = 0.25 * (one.target_edge + one.model_edge) * (1 - one.step)
    yield ("Theorem 7, eq. (10): P = (.75, .25), Q0 reversed, ε = 1", "drop of KL, nats", one.drop,
           "at least", printed, one.drop >= printed)  # fmt: skip
    step, reach = mbde_steps(1.0, 1)[0], 0.1
    (low,) = rounds_of(np.array([0.6, 0.4]), np.array([0.4, 0.6]),
                       lambda *_: np.array([reach, -reach]), [step])  # fmt: skip
    printed = step * (low.target_edge + low.model_edge - reach * step / 2)
    yield ("Theorem 6, low regime, as printed, c* = .1", "drop of KL, nats", low.drop, "at least",
           printed, low.drop >= printed)  # fmt: skip


def modes(
    truth: Floats, base: Floats, fitted: Floats, epsilon: float, rounds: Sequence[Round]
) -> Iterator[Found]:
    """Theorem 8, of all regions where P / Q0 is above a level, and α of 0, .1, …, 1."""
    edges = [sum(getattr(r, name) for r in rounds) / len(rounds)
             for name in ("target_edge", "model_edge")]  # fmt: skip
    total = len(rounds)
    order = np.argsort(-truth / base)
    ratio = np.divide(truth, base)
    pointwise = truth * np.log(np.where(truth > 0, ratio, 1.0))
    mass, model, apart = (np.cumsum(x[order]) for x in (truth, fitted, pointwise))
    covered, least = 0, math.inf
    for alpha in np.linspace(0, 1, 11):
        needs = epsilon * (epsilon + 2 * (2 - sum(edges)) * total)
        needs /= (epsilon + 2 * alpha) * (epsilon + 2 * total)
        holds = mass >= needs
        covered += int(holds.sum())
        if holds.any():
            least = min(least, float((model - (1 - alpha) * mass + apart)[holds].min()))
    yield (f"Theorem 8, ε = {epsilon:g}: {covered:,} regions and α it speaks of",
           "least Q(B) less its bound", least if covered else 0.0, "at least", 0.0,
           least >= 0)  # fmt: skip


def _two_points(features: Floats, target: Floats, model: Floats, records: int) -> Floats:
    return np.asarray(np.log(target / model))


_SAID = {True: "yes", False: "NO", None: ""}
CLAIMS: dict[str, tuple[Callable[[bool], Iterator[Found]], ...]] = {
    "PRIEST-KLD": (unbiased, best_lambda, printed_noise, sensitivities, repeated_draws),
    "online": (lower_bound, averaged_risk),
    "integral": (boosting,),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute all of them."""
    parser = plain_parser(__doc__, out="theorems")
    parser.add_argument("--quick", action="store_true", help="fewer laws and runs: seconds")
    chosen = parser.parse_args(arguments)
    rows: list[Row] = []
    for paper, claims in CLAIMS.items():
        for claim in claims:
            began = time.perf_counter()
            for statement, computed, number, relation, bound, holds in claim(chosen.quick):
                rows.append({
                    "statement": statement, "paper": paper, "computed": computed,
                    "number": significant(number), "the paper": relation,
                    "says": significant(bound), "holds": _SAID[holds],
                })  # fmt: skip
            console.print(f"{paper}, {claim.__name__}: {time.perf_counter() - began:.1f} s")
    show("statements of the papers", rows)
    save(rows, chosen.out, "theorems")


if __name__ == "__main__":
    main()
