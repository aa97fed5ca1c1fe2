// A member's answer to a card of a table: steps 1, 2, 5 and 6 of oar/plans/cards/table/response.py, for one person.

const ROUNDS = 20;
const SHARES = [0.5, 0.25, 0.125];
const HALVINGS = 40;
const TRIFLE = 0.01; // of a budget: smaller changes of a column without steps are left out
const INSIDE = 1e-6; // of a change that a link or rule ends: how far it stays from the edge

// s and ∇s behind the scaler: see oar/plans/cards/table/score.py.
function tableScore(card, size) {
  const { centres, scales, shift, spread } = card.scaler;
  const score = scoreOf(card, size);
  return (point, targets) => {
    const seen = point.map((value, j) => (value - centres[j]) / scales[j]);
    const [value, slopes] = score(seen, targets);
    return [
      value - sum(seen.map((each, j) => each * (shift[j] + spread[j] * each))),
      slopes.map((slope, j) => (slope - shift[j] - 2 * spread[j] * seen[j]) / scales[j]),
    ];
  };
}

// Return the change of each coordinate, and the values after it; `kept` says which columns stay.
function tableMove(card, values, shares, radius, kept) {
  const table = tableOfCard(card);
  const point = encoded(table.columns, values);
  const member = { point, radius, room: roomOf(table.columns, point, kept) };
  const [score, targets] = [tableScore(card, point.length), targetsOf(card, shares)];
  const scored = (move) => score(plus(point, move), targets);
  let move = point.map(() => 0);
  let [top, slopes] = scored(move);
  for (let round = 0; radius > 0 && round < ROUNDS; round += 1) {
    const before = top;
    for (const [trial, [reached, steep]] of tries(table, member, move, slopes, scored)) {
      if (reached > top + EQUAL * (Math.abs(reached) + Math.abs(top))) [move, top, slopes] = [trial, reached, steep];
    }
    if (!(top > before)) break;
  }
  return { move, after: decoded(table.columns, plus(point, move)), cost: costOf(table, move) };
}

function tries(table, member, here, slopes, scored) {
  const first = response(table, member, slopes);
  const there = scored(first);
  if (first.every((value, j) => value === here[j])) return []; // there is nothing else to try
  const ways = SHARES.map((share) => between(table, member, here, first, share));
  const second = response(table, member, scaled(plus(slopes, there[1]), 0.5));
  return [[first, there], ...[...ways, second].map((trial) => [trial, scored(trial)])];
}

// A point on the way, or `there` itself where that breaks anything; levels are there's.
function between(table, member, here, there, share) {
  const found = [...there];
  table.columns.forEach(({ kind, start, step }) => {
    if (kind === "category") return;
    const way = here[start] + share * (there[start] - here[start]);
    found[start] = Math.sign(way) * floored(Math.abs(way), step);
  });
  const fine = costOf(table, found) <= member.radius * (1 + OVER);
  return fine && allKept(table, member.point, plus(member.point, found)) ? found : there;
}

// The move that gains most by the slopes, all but.
function response(table, member, slopes) {
  const offers = offersOf(table, member.point, member.room, slopes);
  let amounts = filled(table, member.radius, offers);
  if (table.bound.length > 0) {
    const first = withinLimits(table, member, offers, amounts);
    const shorter = offers.map((offer, at) => (first[at] < amounts[at] ? { ...offer, most: first[at] } : offer));
    const second = withinLimits(table, member, shorter, filled(table, member.radius, shorter));
    amounts = better(offers, first, second);
  }
  if (table.columns.some(({ step }) => step > 0)) {
    amounts = amounts.map((amount, at) => {
      const { step, cost } = table.columns[at];
      const trifle = !(step > 0) && !table.bound.includes(at) && amount * cost < TRIFLE * member.radius;
      return trifle ? 0 : amount;
    });
  }
  return moveOf(table, member.point, offers, amounts);
}

function moveOf(table, point, offers, amounts) {
  const move = point.map(() => 0);
  table.columns.forEach((column, at) => {
    if (column.kind !== "category") move[column.start] = offers[at].sign * amounts[at] + 0;
    else if (amounts[at] > 0) {
      move[column.start + levelOf(column, point)] -= 1;
      move[column.start + offers[at].level] += 1;
    }
  });
  return move;
}

// As many of these units as links and rules let a member make, one column after the other, twice over.
function withinLimits(table, member, offers, amounts) {
  const taken = amounts.map((amount, at) => (table.bound.includes(at) ? 0 : amount));
  const order = byWorth(table.bound, offers.map(({ gain }, at) => gain / table.columns[at].cost));
  [...order, ...order].forEach((at) => {
    if (taken[at] < amounts[at]) taken[at] = farthest(table, member, offers, taken, amounts[at], at);
  });
  return taken;
}

// How many units of one column can be made, the others' being made: all, or by halving.
function farthest(table, { point }, offers, taken, wanted, at) {
  const { step } = table.columns[at];
  const kept = (units) => {
    const trial = taken.map((amount, place) => (place === at ? units : amount));
    return allKept(table, point, plus(point, moveOf(table, point, offers, trial)));
  };
  if (kept(wanted)) return wanted;
  let [low, high] = [taken[at], wanted];
  for (let halving = 0; halving < HALVINGS; halving += 1) {
    const middle = floored(0.5 * (low + high), step);
    if (!(middle > low)) break;
    if (kept(middle)) low = middle;
    else high = middle;
  }
  const inside = (1 - INSIDE) * low;
  return step > 0 || !kept(inside) ? low : inside;
}
