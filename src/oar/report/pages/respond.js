// A member's own move: max s(x + δ) − κ/2 ‖δ − m‖² over ‖δ‖_p ≤ r, as in oar/plans/response.py, for one person.
//
// The same three starts, the same steps and the same rule among equals, so that both find the same move.

const TOLERANCE = 1e-10; // the first-order gain that may be left, as a share of that of a full move
const MOST_STEPS = 500;
const MOST_HALVINGS = 40;
const SUFFICIENT = 1e-4;
const FAR = 1e8; // budgets: a step so long that its projection is the full response
const EQUAL = 1e-9; // ends whose values differ by a smaller share are equals

// Return the move for features (d), class shares or values, and a radius; `kept` says which features stay.
function plainMove(card, features, shares, radius, kept) {
  const free = (vector) => vector.map((value, j) => (kept[j] ? 0 : value));
  const [ball, size] = [BALLS[card.norm], features.length];
  const usual = free(scaled(combined(card.directions, card.classes === null ? [1] : shares, size), radius));
  if (card.version === 1) return usual;
  const [score, targets] = [scoreOf(card, size), targetsOf(card, shares)];
  const value = (move) => {
    const [reached, slopes] = score(plus(features, move), targets);
    const away = plus(move, usual, -1);
    return [reached - 0.5 * card.pull * inner(away, away), free(plus(slopes, away, -card.pull))];
  };
  const stay = new Array(size).fill(0);
  const full = ball.maximise(value(stay)[1], radius);
  let [move, best] = ascend(value, ball, radius, ball.project(usual, radius));
  for (const start of [stay, full]) {
    const [other, reached] = ascend(value, ball, radius, start);
    if (reached > best + EQUAL * Math.abs(best)) [move, best] = [other, reached];
  }
  return move;
}

// Climb until the certificate closes; return the move and its value.
function ascend(value, ball, radius, start) {
  const dual = BALLS[ball.dual].length;
  const far = (slopes) => (FAR * radius) / (largest(sizesOf(slopes)) || 1);
  let move = start;
  let [reached, slopes] = value(move);
  let length = far(slopes);
  const scale = radius * dual(slopes);
  for (let step = 0; radius > 0 && step < MOST_STEPS; step += 1) {
    const full = radius * dual(slopes);
    if (!(full - inner(slopes, move) > TOLERANCE * Math.max(scale, full))) break;
    const towards = plus(ball.project(plus(move, slopes, length), radius), move, -1);
    const found = search(value, move, towards, reached, inner(slopes, towards));
    if (found === null) break; // at the limit of rounding, or on a kink
    const change = plus(found.move, move, -1);
    const bend = -inner(change, plus(found.slopes, slopes, -1));
    ({ move, reached, slopes } = found);
    if (!change.some((part) => part !== 0)) break;
    // Where curvature is not that of a maximum the model says "as far as possible".
    length = bend > 0 ? Math.min(inner(change, change) / bend, far(slopes)) : far(slopes);
  }
  return [ball.project(move, radius), reached];
}

// Shorten the way until the value rises enough; null where it never does.
function search(value, from, towards, before, gain) {
  for (let [halving, share] = [0, 1]; gain > 0 && halving < MOST_HALVINGS; halving += 1, share *= 0.5) {
    const move = plus(from, towards, share);
    const [reached, slopes] = value(move);
    if (reached >= before + SUFFICIENT * share * gain) return { move, reached, slopes };
  }
  return null;
}
