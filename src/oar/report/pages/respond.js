// A member's own move: max s(x + δ) − κ/2 ‖δ − m‖² over ‖δ‖_p ≤ r, as in oar/plans/cards/response.py, for one person.
//
// The same three starts, the same steps and the same rule among equals; the best end is then settled, so that both
// find the same move: response.py says why.

const TOLERANCE = 1e-10; // the first-order gain that may be left, as a share of that of a full move
const MOST_STEPS = 500;
const MOST_HALVINGS = 40;
const SUFFICIENT = 1e-4;
const FAR = 1e8; // budgets: a step so long that its projection is the full response
const EQUAL = 1e-9; // ends whose values differ by a smaller share are equals
const SETTLED = 1e-9; // of a budget: how far a settled move may be from its own answer
const MOST_SETTLING = 2000;
const CREEPING = 1e-12; // of a budget: steps that lead nowhere
const KINK = 1e-12; // of 1/κ: a step so short says that slopes jump there
const ROUNDING = 1e-13; // of a value, and of what a full move gains: what is not told apart

// Return the move for features (d), class shares or values, and a radius; `kept` says which features stay.
function plainMove(card, features, shares, radius, kept) {
  const free = (vector) => vector.map((value, j) => (kept[j] ? 0 : value));
  const [ball, size] = [BALLS[card.norm], features.length];
  const usual = free(scaled(combined(card.directions, card.classes === null ? [1] : shares, size), radius));
  if (card.signal === undefined) return usual;
  const score = card.scaler === undefined ? scoreOf(card, size) : tableScore(card, size);
  const targets = targetsOf(card, shares);
  const value = (move) => {
    const [reached, slopes] = score(plus(features, move), targets);
    const away = plus(move, usual, -1);
    return [reached - 0.5 * card.pull * inner(away, away), free(plus(slopes, away, -card.pull))];
  };
  const stay = new Array(size).fill(0);
  const full = ball.maximise(value(stay)[1], radius);
  let [move, best] = ascend(value, ball, radius, card.pull, ball.project(usual, radius));
  for (const start of [stay, full]) {
    const [other, reached] = ascend(value, ball, radius, card.pull, start);
    if (reached > best + EQUAL * Math.abs(best)) [move, best] = [other, reached];
  }
  return card.pull > 0 ? settle(value, ball, radius, card.pull, move) : move;
}

// The label that is wanted of a member, by its place, or null where it leaves: as in oar/plans/cards/levers/rule.py.
function labelWanted(card, values, shares) {
  const own = shares.indexOf(1);
  if (card.rule === undefined) return own;
  const point = card.columns === undefined ? values : encoded(tableOfCard(card).columns, values);
  const score = tableScore(card, point.length);
  const scores = card.classes.map((_, at) => score(point, targetsOf(card, onlyAt(card.classes.length, at)))[0]);
  let [found, best] = [own, -1];
  for (const { label, to, least } of card.rule.thresholds) {
    const above = (to === null ? 0 : scores[to]) - scores[own] - least;
    if (label === own && above >= 0 && above > best) [found, best] = [to, above];
  }
  return found;
}

const onlyAt = (size, place) => Array.from({ length: size }, (_, at) => (at === place ? 1 : 0));

// Climb until almost nothing is left to gain; return the move and its value.
function ascend(value, ball, radius, pull, start) {
  const dual = BALLS[ball.dual].length;
  const scale = radius * dual(value(start)[1]);
  const far = (move, slopes) => {
    const full = radius * dual(slopes);
    return full - inner(slopes, move) > TOLERANCE * Math.max(scale, full);
  };
  const longest = (slopes) => (FAR * radius) / (peak(slopes) || 1);
  return climb(value, ball, radius, start, { far, longest, most: MOST_STEPS, pull });
}

// Climb on until a move is its own answer.
function settle(value, ball, radius, pull, start) {
  const far = (move, slopes) => {
    const answer = ball.project(plus(move, slopes, 1 / pull), radius);
    return peak(plus(answer, move, -1)) > SETTLED * radius;
  };
  const longest = () => 1 / pull; // longer steps could leap to another hill
  return climb(value, ball, radius, start, { far, longest, most: MOST_SETTLING, pull })[0];
}

function climb(value, ball, radius, start, rules) {
  let move = start;
  let [reached, slopes] = value(move);
  let length = rules.longest(slopes);
  const blur = ROUNDING * (Math.abs(reached) + radius * BALLS[ball.dual].length(slopes));
  for (let step = 0; radius > 0 && step < rules.most && rules.far(move, slopes); step += 1) {
    const towards = plus(ball.project(plus(move, slopes, length), radius), move, -1);
    // A projection's way gains at least ‖way‖²/length; inner products can lose that in rounding.
    const gain = Math.max(inner(slopes, towards), inner(towards, towards) / length);
    const found = search(value, { move, towards, reached, slopes, gain }, blur);
    if (found === null) break; // at the limit of rounding, or on a kink
    const change = plus(found.move, move, -1);
    const bend = -inner(change, plus(found.slopes, slopes, -1));
    ({ move, reached, slopes } = found);
    if (!(peak(change) > CREEPING * radius)) break;
    // Where curvature is not that of a maximum the model says "as far as possible".
    const longest = rules.longest(slopes);
    length = bend > 0 ? Math.min(inner(change, change) / bend, longest) : longest;
    if (rules.pull > 0 && !(rules.pull * length > KINK)) break;
  }
  return [ball.project(move, radius), reached];
}

// Shorten the way until the value rises enough, or within the blur its slope has not turned; null where it never does.
function search(value, way, blur) {
  const { towards, gain } = way;
  for (let [halving, share] = [0, 1]; gain > 0 && halving < MOST_HALVINGS; halving += 1, share *= 0.5) {
    const move = plus(way.move, towards, share);
    const [reached, slopes] = value(move);
    const found = { move, reached, slopes };
    if (reached >= way.reached + SUFFICIENT * share * gain) return found;
    const turned = gain + inner(plus(slopes, way.slopes, -1), towards) < -(1 - 2 * SUFFICIENT) * gain;
    if (reached >= way.reached - blur && !turned) return found;
  }
  return null;
}
