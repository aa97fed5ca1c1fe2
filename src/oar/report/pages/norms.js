// The p-balls that bound a move (p = 1, 2 or ∞), for one vector: as in oar/actions/sets/norms.py.

// Plain loops: this is where the time goes.
function sum(numbers) {
  let total = 0;
  for (let j = 0; j < numbers.length; j += 1) total += numbers[j];
  return total;
}

function inner(left, right) {
  let total = 0;
  for (let j = 0; j < left.length; j += 1) total += left[j] * right[j];
  return total;
}

// left + times · right
function plus(left, right, times = 1) {
  const total = new Array(left.length);
  for (let j = 0; j < left.length; j += 1) total[j] = left[j] + times * right[j];
  return total;
}

// The largest size of any entry.
function peak(vector) {
  let most = 0;
  for (let j = 0; j < vector.length; j += 1) most = Math.max(most, Math.abs(vector[j]));
  return most;
}

const scaled = (vector, times) => vector.map((value) => value * times);
const sizesOf = (vector) => vector.map(Math.abs);

// Divided by the largest size where squares would overflow or vanish.
function euclidean(vector) {
  const square = inner(vector, vector);
  if (square > 1e-290 && square < 1e290) return Math.sqrt(square);
  const unit = peak(vector);
  return unit > 0 ? unit * Math.sqrt(sum(vector.map((value) => (value / unit) ** 2))) : 0;
}

const BALLS = {
  1: {
    dual: "inf",
    length: (vector) => sum(sizesOf(vector)),
    project(vector, radius) {
      const sizes = sizesOf(vector);
      if (sum(sizes) <= radius) return vector;
      return softThreshold(sizes, radius).map((size, j) => Math.sign(vector[j]) * size);
    },
    maximise(gradient, radius) {
      const sizes = sizesOf(gradient);
      const place = sizes.indexOf(peak(sizes));
      return gradient.map((value, j) => (j === place ? radius * Math.sign(value) : 0));
    },
  },
  2: {
    dual: "2",
    length: euclidean,
    project(vector, radius) {
      const length = euclidean(vector);
      return length > radius ? scaled(vector, radius / length) : vector;
    },
    maximise(gradient, radius) {
      const length = euclidean(gradient);
      return gradient.map((value) => radius * (length > 0 ? value / length : 0));
    },
  },
  inf: {
    dual: "1",
    length: peak,
    project: (vector, radius) => vector.map((value) => Math.min(Math.max(value, -radius), radius)),
    maximise: (gradient, radius) => gradient.map((value) => radius * Math.sign(value)),
  },
};

// Return max(|v_j| − τ, 0) with the τ that makes them add up to r, measured from the largest size so that nothing
// cancels: see _soft_threshold in norms.py.
function softThreshold(sizes, radius) {
  const top = peak(sizes);
  const below = sizes.map((size) => size - top);
  const ordered = [...below].sort((left, right) => right - left);
  let [total, threshold] = [0, radius];
  ordered.forEach((value, j) => {
    total += value;
    const candidate = (radius - total) / (j + 1);
    if (j === 0 || candidate + value > 0) threshold = candidate;
  });
  return below.map((value) => Math.max(threshold + value, 0));
}
