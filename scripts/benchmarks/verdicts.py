"""How often verdicts are wrong: false equivalence, false alarms of the gate, coverage of intervals, by simulation.

    python scripts/benchmarks/verdicts.py [--trials 4000] [--seed 0]

Every figure is a share of simulated comparisons, with the truth known:

- equivalent at the margin: runs whose true difference is the margin of 3 points, called equivalent although they are
  not; one-sided (the gate's side) and both sides. At most 0.025 on each side is what a 95 % interval promises.
- false alarms: nothing changed, but 4 to 40 questions of 500 flip by chance; the gate of `compare --against` with a
  margin of 0 fails, or the verdict is "better" or "worse".
- coverage: the share of 95 % intervals that hold the truth, for labels of independent questions, and for questions
  over 5, 10 and 50 haystacks that shift all of theirs alike.
"""

import argparse

import numpy as np
from numpy.typing import NDArray

from longmemeval.statistics.paired import label_difference_interval, mcnemar
from longmemeval.statistics.resampling import sign_flip_interval, sign_flip_p

MARGIN = 0.03
PARTED = 0.2
"""Share of the questions on which two runs disagree."""


def discordant(
    generator: np.random.Generator, n: int, difference: float, parted: float, trials: int
) -> NDArray[np.int64]:
    """Draw how many questions only the first and only the second run gets right, shape (trials, 2)."""
    first, second = (parted + difference) / 2, (parted - difference) / 2
    drawn: NDArray[np.int64] = generator.multinomial(n, [first, second, 1 - parted], size=trials)[:, :2]
    return drawn


def equivalent_at_the_margin(generator: np.random.Generator, trials: int) -> None:
    print("equivalent at a true difference of the margin, 3 points (at most 0.025 one-sided)")
    print("     n  parted   inside both ends   above the lower end alone")
    for n in (100, 200, 300, 500, 1000):
        for parted in (0.05, 0.1, PARTED):
            both = one = 0
            for a, b in discordant(generator, n, -MARGIN, parted, trials):
                low, high = label_difference_interval(int(a), int(b), n)
                one += low > -MARGIN
                both += low > -MARGIN and high < MARGIN
            print(f"{n:6}  {parted:6.2f}   {both / trials:16.4f}   {one / trials:25.4f}")


def false_alarms(generator: np.random.Generator, trials: int) -> None:
    print("\nfalse alarms where nothing changed, 500 questions of which some flip")
    print(" flips   gate fails   called better or worse")
    for flips in (4, 8, 12, 20, 30, 40):
        gate = verdict = 0
        for a in generator.binomial(flips, 0.5, size=trials):
            gate += label_difference_interval(int(a), flips - int(a), 500)[1] < 0
            verdict += mcnemar(int(a), flips - int(a)) < 0.05
        print(f"{flips:6}   {gate / trials:10.4f}   {verdict / trials:22.4f}")


def coverage(generator: np.random.Generator, trials: int) -> None:
    print("\ncoverage of the 95% interval, labels of independent questions (true difference 5 points)")
    print("     n  parted   coverage")
    for n in (20, 50, 100, 234, 500):
        for parted in (0.1, PARTED, 0.4):
            held = 0
            for a, b in discordant(generator, n, 0.05, parted, trials):
                low, high = label_difference_interval(int(a), int(b), n)
                held += low <= 0.05 <= high
            print(f"{n:6}  {parted:6.2f}   {held / trials:8.4f}")
    print("\ncoverage over haystacks of 20 questions, sign-flip interval (true difference 5 points)")
    print(" haystacks   shift of a haystack   coverage   p < 0.05 where nothing differs")
    for haystacks in (5, 10, 50):
        for shift in (0.0, 0.08, 0.15):
            held = rejected = 0
            for _ in range(trials // 4):
                differences, clusters = clustered(generator, haystacks, 20, shift, 0.05)
                low, high = sign_flip_interval(differences, clusters, sign_flip_p(differences, clusters))
                held += low <= 0.05 <= high
                differences, clusters = clustered(generator, haystacks, 20, shift, 0.0)
                rejected += sign_flip_p(differences, clusters) < 0.05
            share = trials // 4
            print(f"{haystacks:10}   {shift:19.2f}   {held / share:8.4f}   {rejected / share:30.4f}")


def clustered(
    generator: np.random.Generator, haystacks: int, each: int, shift: float, difference: float
) -> tuple[list[float], list[str]]:
    """Draw differences of labels: each haystack shifts the balance of its discordant questions up or down."""
    balance = difference / PARTED + generator.choice([-shift, shift], size=(haystacks, 1)) / PARTED
    parted = generator.random((haystacks, each)) < PARTED
    first = generator.random((haystacks, each)) < np.clip((1 + balance) / 2, 0, 1)
    values = np.where(parted, np.where(first, 1.0, -1.0), 0.0)
    return values.ravel().tolist(), [f"h{number}" for number in range(haystacks) for _ in range(each)]


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    generator = np.random.default_rng(options.seed)
    equivalent_at_the_margin(generator, options.trials)
    false_alarms(generator, options.trials)
    coverage(generator, options.trials)


if __name__ == "__main__":
    main()
