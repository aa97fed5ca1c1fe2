"""Critical mass: the share of a collective's members that would have sufficed in a round."""

from __future__ import annotations

from oar.worlds.people.random_streams import stream
from oar.worlds.protocol import Crowd, State
from oar.worlds.rounds.contributions import Act, RoundContributions
from oar.worlds.rounds.step import SimulationRound


def critical_mass(
    step: SimulationRound, state: State, done: RoundContributions, after: State, acting: set[str]
) -> dict[str, float]:
    """Return the smallest share that was found for each collective in `acting`.

    Members are put in a random order; the first m of them act as recorded, the other members do not, everybody else
    acts as recorded, and the operator retrains. Bisection finds an m that reaches the goal although m − 1 does not. It
    is the smallest one if more members never do harm.
    """
    found = {}
    for act in done.acts:
        if act.name in step.simulation.questions and act.name in acting:
            found[act.name] = _share(step, state, done, act, after)
    return found


def _share(step: SimulationRound, state: State, done: RoundContributions, whose: Act, after: State) -> float:
    name, size = whose.name, whose.mine.size

    def enough(count: int) -> bool:
        def some(act: Act, crowd: Crowd) -> Act:
            if act.name != name:
                return act
            # Under another model, which an operator may ask about, there may be other members: as large a share then.
            first = -(-count * act.mine.size // max(size, 1))
            order = stream(step.simulation.seed, "order", name, step.number).permutation(act.mine.size)
            return act.only(order[:first], crowd)

        chosen = tuple(some(act, done.on_record) for act in done.acts)
        fewer = RoundContributions(chosen, done.on_record, step.handed_in(chosen, state))
        return step.reached(name, step.retrained(state, fewer, some)[0])

    if enough(0):
        return 0.0
    if not step.reached(name, after):
        return float("nan")
    too_few, sufficient = 0, size
    while sufficient - too_few > 1:
        middle = (too_few + sufficient) // 2
        if enough(middle):
            sufficient = middle
        else:
            too_few = middle
    return sufficient / size
