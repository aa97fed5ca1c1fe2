// What columns offer for some slopes, and how a budget is best spent on it, all but: steps 3 and 4 of
// oar/plans/cards/table/response.py, for one person.

const LARGE = 0.2; // of a budget: steps that are decided one by one,
const MOST_LARGE = 3; // and how many of them
const FILLS = 8; // rounds in which columns reach their bounds

const floored = (amount, step) => (step > 0 ? Math.floor(amount / step + NEARLY) * step : amount);
const orPositive = (value) => (value > 0 ? value : 1);
const squares = (vector) => sum(vector.map((value) => value ** 2));

// Places in the order of worth, the largest first, equals as they come.
const byWorth = (places, worth) => [...places].sort((left, right) => worth[right] - worth[left]);

// For each column: gain for each unit, most units, sign of the change, or the level to switch to.
function offersOf(table, point, room, slopes) {
  return table.columns.map((column, at) => {
    const { fall, rise, takes } = room[at];
    if (column.kind === "category") {
      const worth = column.levels.map((_, level) => (takes.includes(level) ? slopes[column.start + level] : -Infinity));
      const level = firstLargest(worth);
      const gain = Math.max(worth[level] - slopes[column.start + levelOf(column, point)], 0);
      return { gain, most: gain > 0 ? 1 : 0, sign: 0, level };
    }
    const slope = slopes[column.start];
    const most = floored(slope > 0 ? rise : fall, column.step);
    return { gain: most > 0 ? Math.abs(slope) : 0, most, sign: Math.sign(slope), level: 0 };
  });
}

// Of two fills the one that gains more, of equals the first.
function better(offers, first, second) {
  const gains = offers.map(({ gain }) => gain);
  return inner(gains, second) > inner(gains, first) * (1 + EQUAL) ? second : first;
}

function filled(table, radius, offers) {
  const { columns } = table;
  const farthest = offers.map(({ gain, most }, at) =>
    gain > 0 ? floored(Math.min(most, radius / columns[at].cost), columns[at].step) : 0,
  );
  if (table.norm === "inf") return farthest;
  if (table.norm === "1") {
    const rates = offers.map(({ gain }, at) => gain / columns[at].cost);
    const totals = offers.map(({ gain }, at) => gain * farthest[at]);
    return better(offers, oneByOne(columns, radius, offers, rates), oneByOne(columns, radius, offers, totals));
  }
  return filledBall(columns, radius, offers, farthest);
}

// Spend a budget of p = 1 on one offer after the other, the worthiest first.
function oneByOne(columns, radius, offers, worth) {
  const amounts = offers.map(() => 0);
  let left = radius;
  byWorth(offers.keys(), worth).forEach((at) => {
    const { step, cost } = columns[at];
    amounts[at] = offers[at].gain > 0 ? floored(Math.min(offers[at].most, left / cost), step) : 0;
    left = Math.max(left - amounts[at] * cost, 0);
  });
  return amounts;
}

// p = 2: up to MOST_LARGE large steps are made first, in two orders; the best of these fills.
function filledBall(columns, radius, offers, farthest) {
  const paid = columns.map(({ step, cost }) => step * cost);
  const gain = offers.map((offer, at) => offer.gain * columns[at].step);
  const large = columns.map(
    ({ step, kind }, at) =>
      step > 0 &&
      farthest[at] > 0 &&
      farthest[at] >= step * (1 - NEARLY) &&
      (kind === "category" || paid[at] > LARGE * radius),
  );
  let best = ballFill(columns, radius, offers, columns.map(() => 0));
  for (const worth of [gain.map((value, at) => value / orPositive(paid[at]) ** 2), gain]) {
    let forced = columns.map(() => 0);
    const order = byWorth(columns.keys(), worth.map((value, at) => (large[at] ? value : 0)));
    for (const place of order.slice(0, MOST_LARGE)) {
      if (!large[place]) break;
      const more = forced.map((amount, at) => (at === place ? columns[at].step : amount));
      if (squares(more.map((amount, at) => amount * columns[at].cost)) <= radius ** 2 * (1 + NEARLY)) forced = more;
      best = better(offers, best, ballFill(columns, radius, offers, forced));
    }
  }
  return best;
}

// Spend what forced steps leave of a budget of p = 2 on ordered columns: in proportion to gain per cost, up to their
// bounds; then in whole steps, the costliest first, while what a column cannot use goes to those after it; at last one
// more step of each where it fits.
function ballFill(columns, radius, offers, forced) {
  const rates = offers.map(({ gain }, at) =>
    forced[at] === 0 && columns[at].kind !== "category" ? gain / columns[at].cost : 0,
  );
  const ends = offers.map(({ most }, at) => most * columns[at].cost);
  const budget = Math.max(radius ** 2 - squares(forced.map((amount, at) => amount * columns[at].cost)), 0);
  const aims = aimsWithin(rates, ends, budget);
  const paid = columns.map(({ kind, step, cost }) => (kind === "category" ? 0 : step * cost));
  const order = byWorth(columns.keys(), paid);
  const whole = columns.map(() => 0);
  let left = budget;
  // What each column and those after it would take of the budget.
  const takes = order.map(() => 0);
  order.reduceRight((total, at, place) => (takes[place] = total + aims[at] ** 2), 0);
  order.forEach((at, place) => {
    const more = Math.sqrt(left > takes[place] ? left / orPositive(takes[place]) : 1);
    whole[at] = floored(Math.min(aims[at] * more, ends[at], Math.sqrt(left)), paid[at]);
    left = Math.max(left - whole[at] ** 2, 0);
  });
  for (const at of order) {
    if (paid[at] <= 0) break;
    const more = whole[at] + paid[at];
    const price = more ** 2 - whole[at] ** 2;
    if (rates[at] > 0 && more <= ends[at] * (1 + NEARLY) && price <= left) {
      whole[at] = more;
      left -= price;
    }
  }
  return forced.map((amount, at) => amount + floored(whole[at] / columns[at].cost, columns[at].step));
}

function aimsWithin(rates, ends, budget) {
  const aims = rates.map(() => 0);
  let [left, open] = [budget, rates.map((rate) => rate > 0)];
  for (let round = 0; round < FILLS; round += 1) {
    const size = squares(rates.map((rate, at) => (open[at] ? rate : 0)));
    const further = rates.map((rate) => Math.sqrt(left / orPositive(size)) * rate);
    const ended = further.map((aim, at) => open[at] && aim > ends[at]);
    further.forEach((aim, at) => {
      if (open[at]) aims[at] = Math.min(aim, ends[at]);
    });
    if (!ended.includes(true)) break;
    open = open.map((still, at) => still && !ended[at]);
    left = Math.max(left - squares(aims.map((aim, at) => (ended[at] ? aim : 0))), 0);
  }
  return aims;
}
