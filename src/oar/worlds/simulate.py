"""A world, round by round: people arrive, actors act within their limits, the operator retrains, and it is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from oar.checks import check_flag, with_near_names
from oar.errors import DataError, OptionError
from oar.models import Differentiable, NearestCentroid
from oar.progress import check_interrupted, is_shown, limited_time
from oar.signals.base import check_count
from oar.solvers.registry import EffortLike, default_effort
from oar.typing import PolicyLike
from oar.worlds.collective import CollectiveActor, is_policy
from oar.worlds.deployed.predictions import WorldQuery
from oar.worlds.people.crowds import Register
from oar.worlds.people.random_streams import check_seed, stream
from oar.worlds.protocol import Crowd
from oar.worlds.records.record import Ledger, MovementLedger, Round, measured
from oar.worlds.records.table import Tables
from oar.worlds.rounds.read_only import sealed
from oar.worlds.rounds.step import SimulationRound, before_decision, deployed
from oar.worlds.world import World


@with_near_names
def simulate(
    world: World,
    policy: PolicyLike = None,
    *,
    rounds: int,
    seed: int = 0,
    critical_masses: bool = True,
    effort: EffortLike = None,
    time_limit: float | None = None,
) -> Simulation:
    """Return an iterator over the rounds of a world; a round runs when it is requested.

    Only the people of round 0, and a random history, are drawn immediately, for checks.

    Args:
        world: a `World`.
        policy: the collectives' policy: one of `oar.worlds`' policies, any function of a `CollectiveView` to a `Deed`,
            or a mapping from collectives' names to these. None where the world has no collective.
        rounds: the number of rounds, at least 1.
        seed: the seed of all random draws. The same seed gives the same bits. Every actor has a random stream of its
            own, so another actor, or another policy, meets the same people.
        critical_masses: whether to search for every acting collective's critical mass in every round, which takes some
            log₂(members) more refits.
        effort: as in `oar.collective`, for all that policies and other actors plan with solvers of this package.
        time_limit: seconds after which the search for an actor's deed begins nothing more; the best so far is done.
            None is no limit, and needed for the same bits of policies that plan.

    >>> import oar
    >>> from oar.worlds import Blobs, Operator, World
    >>> world = World(Blobs([[0.0], [2.0]], 20), Operator(oar.NearestCentroid()), labels="keep")
    >>> [len(one.crowd.codes) for one in oar.worlds.simulate(world, rounds=2)]
    [20, 20]
    """
    check_count("rounds", rounds)
    check_flag("critical_masses", critical_masses)
    reads = getattr(getattr(world.operator, "rule", None), "reads", None)
    if reads is not None and reads > rounds + 1:
        raise OptionError(
            f"rule: reads the newest {reads} batches, and there are only {rounds + 1}, history included; take a "
            "shorter window, more rounds, or FullRefit()."
        )
    for collective in world.collectives:
        for number in (0, rounds - 1):  # adoption is linear: its ends tell
            collective.adoption(number)
    found = Simulation(world, _policies(world, policy), int(rounds), check_seed(seed), critical_masses)
    found.bounds = effort, time_limit
    with found.planning():  # which refuses what is none
        return found


class Simulation:
    """An iterator over a world's rounds; `table()` runs the remaining rounds, and returns all of them as a table."""

    def __init__(
        self, world: World, policies: Mapping[str, Any], rounds: int, seed: int, critical_masses: bool
    ) -> None:
        """Check the queries; `simulate` checks the rest."""
        self.world, self.rounds, self.seed = world, rounds, seed
        self._critical_masses = critical_masses
        first = world.arrivals.draw(0, stream(seed, "arrivals", 0))
        self.register = Register(tuple(world.arrivals.classes), first.features.shape[1], first.names)
        self._first = self.register.check(first, 0)
        past = self._drawn("history", 0) if world.history is None else self.register.read(world.history, "history")
        self._history = sealed(self.register.of_crowd(past))
        self._holdout = None if world.holdout is None else self.register.read(world.holdout, "holdout")
        # Goals are read by a model that problems know; whatever is deployed has the same classes.
        given, every_class = world.operator.model, self.register.every_class
        model = given if isinstance(given, Differentiable) else NearestCentroid()
        asked: dict[str | None, Any] = {one.name: one.query for one in world.collectives}
        asked = asked or {None: world.query}
        self.questions: dict[str | None, WorldQuery] = {
            name: WorldQuery(query, model, every_class) for name, query in asked.items() if query is not None
        }
        setting = {"arrivals": world.arrivals, "labels": world.labels, "rounds": rounds}
        together = [CollectiveActor(one, policies[one.name], setting) for one in world.collectives]
        # Some actors ask what kind of a world it is.
        others = [one.in_world(setting) if hasattr(one, "in_world") else one for one in world.others]
        self.actors = tuple(sorted((*together, *others), key=before_decision, reverse=True))
        self.caps = {actor.name: actor.caps for actor in self.actors}  # whatever actors say of them later
        self._tables, self.ledger = Tables(), Ledger()
        self.bounds: tuple[EffortLike, float | None] = None, None  # effort and seconds of every deed
        self._running = self._run()
        self._failed: Exception | None = None

    def __iter__(self) -> Iterator[Round]:
        return self

    def __next__(self) -> Round:
        """Run the next round; after a failed one raise its error again."""
        if self._failed is not None:
            raise self._failed
        try:
            return next(self._running)
        except StopIteration:
            raise
        except Exception as error:
            self._failed = error
            raise
        except BaseException:
            self._failed = DataError(
                f"simulation: was interrupted in round {self._tables.seen} of {self.rounds}; call simulate again."
            )
            raise

    def table(self, progress: bool | None = None) -> Any:
        """Run the remaining rounds, and return one row for each round and collective as a DataFrame.

        Args:
            progress: whether to show progress on stderr; None means "on a terminal".
        """
        return self._table("collective", progress)

    def by_group(self, progress: bool | None = None) -> Any:
        """Run the remaining rounds, and return one row for each round and group of the holdout."""
        return self._table("group", progress)

    def by_actor(self, progress: bool | None = None) -> Any:
        """Run the remaining rounds, and return one row for each round and actor."""
        return self._table("actor", progress)

    def by_advice(self, progress: bool | None = None) -> Any:
        """Run the remaining rounds, and return one row for each round and earlier round with advice."""
        return self._table("advice", progress)

    def _table(self, name: str, progress: bool | None) -> Any:
        with round_line(self.rounds, self._tables.seen, progress) as on_round:
            for one in self:
                on_round(one.number)
        return self._tables.frame(name)

    @contextmanager
    def planning(self) -> Iterator[None]:
        """Let an actor search with the effort and the time that it may take."""
        effort, seconds = self.bounds
        with default_effort(effort), limited_time(seconds):
            yield

    def lots(self, actor: Any) -> np.random.Generator:
        """Return the random numbers that draw an actor's members: the same in every round."""
        return stream(self.seed, "members", actor.name)

    def _drawn(self, name: str, number: int) -> Crowd:
        rng = stream(self.seed, name, number)
        return self.register.check(self.world.arrivals.draw(number, rng), number)

    def _run(self) -> Iterator[Round]:
        operator = self.world.operator
        state = deployed(operator, "before round 0", lambda: operator.begin(self._history))
        known, past, shadow = {0: state}, [self._history], state
        longest = max((getattr(actor, "stale", 0) for actor in self.actors), default=0)
        spent = {actor.name: MovementLedger() for actor in self.actors}
        for number in range(self.rounds):
            check_interrupted()
            crowd = self._drawn("arrivals", number) if number else self._first
            step = SimulationRound(self, number, crowd, known, tuple(past), spent)
            first = step.done(state)
            after, answers = step.retrained(state, first)
            done = next((one for one in answers if one.people is after.learned_from), first)
            acting = set().union(*(one.acting for one in (first, *answers)))
            if shadow is state and not acting:
                later = after  # nobody has acted so far: there is but one world
            else:
                later, _ = step.retrained(shadow, step.handed_in((), shadow))
            masses = step.critical_masses(state, first, after, acting) if self._critical_masses else {}
            for act in done.acts:
                shared = self.caps[act.name].total < np.inf
                spent[act.name].add(crowd.persons[act.mine], act.lengths, rows_add_up=shared)
                self.ledger.note(act, number)
            holdout = self._holdout or self._drawn("holdout", number)
            one = measured(step, done, holdout, masses, state, after, later)
            state, shadow = after, later
            known[number + 1] = state
            known.pop(number - longest, None)  # nobody acts on anything older
            if self.actors:
                past.append(done.people)
            self._tables.add(one)
            yield one


def _policies(world: World, policy: Any) -> dict[str, Any]:
    """Return a policy for each collective."""
    names = [one.name for one in world.collectives]
    if not names:
        if policy is not None:
            raise OptionError("policy: is for collectives, and this world has none; leave it out, or add one.")
        return {}
    given = dict(policy) if isinstance(policy, Mapping) else dict.fromkeys(names, policy)
    if set(given) != set(names):
        raise OptionError(f"policy: must be one for each of the collectives {names}, got {list(given)}.")
    for name, one in given.items():
        if not is_policy(one):
            call = f"; call it: {one.__name__}()" if isinstance(one, type) else ""
            raise OptionError(
                f"policy: must be one of oar.worlds' policies, such as DoNothing(), or a function of a view, got "
                f"{one!r} for {name!r}{call}."
            )
    return given


@contextmanager
def round_line(rounds: int, done: int, shown: bool | None) -> Iterator[Callable[[int], None]]:
    """Yield what is called with the number of every finished round: a bar on a terminal, lines elsewhere, on stderr."""
    if not is_shown(shown) or done >= rounds:
        yield lambda number: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda number: console.print(f"round {number + 1} of {rounds}")
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("rounds", total=rounds, completed=done)
        yield lambda number: bar.update(task, completed=number + 1)
