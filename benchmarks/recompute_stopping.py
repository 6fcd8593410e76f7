"""Part of `recompute.py`: looks, answers and what they grade, from the raw rows and the registration.

It shares nothing with the analysis. Boundaries come from sums over a fine grid, ends of intervals from a search.
"""

import math

import numpy as np
from recompute_basics import cell_means
from scipy import optimize, stats

HELD_BACK, BETS = 0.25, (0.5, 1.0, 2.0)
CLOSE = 1e-4  # of boundaries, and of what follows from them


def check_stopping(ledger, registered, shown, book):
    """`stopping` of the score: every look at every question, and how the study ended."""
    rule, order = registered["stopping"], registered["grid"]["checkpoints"]
    counts = [*range(rule["first_look"], len(order), rule["step"]), len(order)]
    rate = rule["error_rate"] / len(rule["questions"])
    bounds = nominal(counts, (1 - HELD_BACK) * rate)
    asked, there = list(shown["questions"]), list(rule["questions"])
    book.same("stopping.questions", len(there), len(asked))
    ended = {}
    for question, one in zip(there, asked, strict=True):
        task, arm, against = question["task"], question["arm"], question.get("against")
        where = f"stopping {arm} - {against} {task}"
        book.same(f"{where}.of", [task, arm, against or ""], [one["task"], one["arm"], one["against"] or ""])
        means = by_checkpoint(ledger, task, arm, against)
        looks = []
        for count in counts:
            if count > len([checkpoint for checkpoint in order if checkpoint in means]):
                break
            values = np.array([means[checkpoint] for checkpoint in order[:count]])
            if rule["null"] == "mean":
                bound = stats.t.isf(stats.norm.sf(bounds[counts.index(count)]), count - 1)
                statistic, interval = of_mean(values, bound)
            else:
                bound = 1 / rate
                statistic, interval = of_symmetry(values, bound)
            low, high = interval or (0.0, 0.0)
            answer = "above" if low > 0 else "below" if high < 0 else None
            looks.append((count, values.mean(), statistic, bound, interval, answer))
            if answer:
                break
        book.same(f"{where}.looks", len(looks), len(one["looks"]))
        for look, printed in [*zip(looks, one["looks"], strict=True), (looks[-1], one)]:
            at = f"{where}.{look[0]}"
            book.same(f"{at}.mean", look[1], printed["mean"])
            book.same(f"{at}.checkpoints", look[0], printed["checkpoints"])
            mine = [look[2], look[3], None if look[4] is None else list(look[4])]
            book.same(f"{at}.found", mine, [printed[name] for name in ("statistic", "bound", "interval")], CLOSE)
            book.same(f"{at}.answer", look[5] or "", printed["answer"] or "")
        book.same(f"{where}.grade", "resolved" if looks[-1][5] else "unresolved", one["grade"])
        last = ended.setdefault(task, [0, True])
        ended[task] = [max(last[0], looks[-1][0]), last[1] and looks[-1][5] is not None]
    for task, (count, answered) in ended.items():
        book.same(
            f"stopping {task}", [count, answered], [shown["tasks"][task][n] for n in ("checkpoints", "answered")]
        )
        rows = {int(c) for arm in ledger.values() if task in arm for c in arm[task]["c"]}
        book.same(f"stopping {task}: computed", sorted(order[:count]), sorted(rows))
    most = max(count for count, _ in ended.values())
    mine = [rule["null"], rule["error_rate"], len(order), counts.index(most) + 1]
    book.same("stopping.rule", mine, [shown[name] for name in ("null", "error_rate", "budget", "looks")])
    over = all(answered or count == len(order) for count, answered in ended.values())
    book.same("stopping.ended", over, shown["ended"])
    book.same("stopping.outcome", True, str(most) in shown["outcome"])


def by_rule(shown, task, arm, against=None):
    """The grade that a study's rule gives a mean, and its side; None of a study without a rule."""
    if not shown:
        return None
    sides = {"above": "helpful", "below": "harmful", None: "unresolved"}
    for one in shown["questions"]:
        if one["task"] == task and {one["arm"], one["against"]} == {arm, against}:
            return one["grade"], sides[one["answer"]]
    return None, None


def by_checkpoint(ledger, task, arm, against):
    """Mean dR of each checkpoint, or of the differences of the cells that two arms share."""
    cells = []
    for name in (arm, against):
        if name:
            f = ledger[name][task]
            cells.append(cell_means(f, f["update"] - f["hold"], np.ones(len(f["k"]), bool)))
    first, second = cells[0], cells[1] if against else None
    found = {}
    for key, mean in first.items():
        if second is None or key in second:
            found.setdefault(int(key[0]), []).append(mean - (second[key] if second else 0.0))
    return {checkpoint: np.mean(means) for checkpoint, means in found.items()}


def nominal(counts, rate):
    """Boundaries of a normal statistic: by a share t of the budget the chance to have passed one is rate t^2."""
    found, spent, grid, mass, before = [], 0.0, np.zeros(1), np.ones(1), 0
    for count in counts:
        allowed = rate * (count / counts[-1]) ** 2
        sd = math.sqrt(count - before)  # of the sum of the checkpoints in between

        def beyond(bound, count=count, grid=grid, mass=mass, sd=sd):
            return 2 * float(mass @ stats.norm.sf((bound * math.sqrt(count) - grid) / sd))

        bound = optimize.brentq(lambda at, want=allowed - spent: beyond(at) - want, 0.5, 9.0, xtol=1e-10)
        spent += beyond(bound)
        edge = bound * math.sqrt(count)
        following = np.linspace(-edge, edge, 1501)
        weights = np.full(1501, following[1] - following[0])
        weights[[0, -1]] /= 2
        mass = weights * (stats.norm.pdf((following[:, None] - grid) / sd) @ mass) / sd
        grid, before = following, count
        found.append(bound)
    return found


def both(values, centre):
    """Student's t against a centre, and Hall's."""
    n = len(values)
    ratio, g = (values.mean() - centre) / values.std(ddof=1), float(stats.skew(values, bias=False))
    return [math.sqrt(n) * t for t in (ratio, ratio + g * ratio**2 / 3 + g**2 * ratio**3 / 27 + g / (6 * n))]


def of_mean(values, bound):
    """The smaller of both t, and the outermost centres that one of them allows."""
    if np.ptp(values) <= 1e-9 * np.abs(values).max():
        return None, None
    found = both(values, 0.0)
    smaller = min(found, key=abs) if found[0] * found[1] > 0 else 0.0
    far, centre = 1e3 * values.std(), values.mean()
    ends = []
    for kind in (0, 1):
        low = optimize.brentq(lambda at, k=kind: both(values, at)[k] - bound, centre - far, centre + far)
        high = optimize.brentq(lambda at, k=kind: both(values, at)[k] + bound, centre - far, centre + far)
        ends.append((low, high))
    return smaller, (min(low for low, _ in ends), max(high for _, high in ends))


def wealth(values):
    """What bets on signs have become, mean by mean."""
    total = 0.0
    for bet in (*BETS, *(-bet for bet in BETS)):
        product, squares = 1.0, 0.0
        for count, value in enumerate(values, start=1):
            squares += value**2
            z = bet * value / math.sqrt(squares / count) if squares else 0.0
            product *= 2 / (1 + math.exp(-2 * z))
        total += product
    return total / (2 * len(BETS))


def of_symmetry(values, bound):
    """The wealth, and the outermost centres that it does not reject."""
    if np.ptp(values) <= 1e-9 * np.abs(values).max():
        return None, None
    low, high, reach = values.min(), values.max(), np.ptp(values)
    if any(wealth(values - centre) < bound for centre in (low - reach, high + reach)):
        return wealth(values), None
    ends = []
    for start, towards in ((low - reach, reach), (high + reach, -reach)):
        steps = start + towards * np.arange(3001) / 1000
        inside = next(at for at in steps if wealth(values - at) < bound)
        outside = inside - towards / 1000
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if wealth(values - middle) < bound else (inside, middle)
        ends.append(inside)
    return wealth(values), tuple(ends)
