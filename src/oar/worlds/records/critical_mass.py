"""Critical mass: how large a share of a collective's members would have been enough in a round."""

from __future__ import annotations

from oar.worlds.protocol import Crowd, State
from oar.worlds.rounds.contributions import Act, RoundContributions
from oar.worlds.rounds.step import SimulationRound


def critical_mass(
    step: SimulationRound, state: State, done: RoundContributions, after: State, acting: set[str]
) -> dict[str, float]:
    """Return the smallest share that was found for each collective that acted: that is among `acting`.

    Members are put in a random order; the first m of them act as they did, the others stay as they are, everybody
    else acts as before, and the operator retrains. A number m is found by bisection with which the goal is reached, and
    with m − 1 it is not. It is the least of all where more members never do harm.
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
            return act.only(step.order(name, act.mine.size)[:first], crowd)

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
