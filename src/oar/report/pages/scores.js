// A member's score s(x) = vᵀ∇_θ ℓ(θ; x, y) and its gradient in x: as in oar/models/linear/losses.py.
//
// For linear models z = W x + b, u = V x + c, a = ∂φ/∂z, B = ∂²φ/∂z²:   s = aᵀu,   ∇_x s = Vᵀa + WᵀBu.
// Models that need automatic differentiation are not here; the page then says what to do instead.

const AT_MARGIN = 1e-12; // nearer to a margin than this share of the output is at it

// A single logit is measured against a second one that is 0.
function softmax(outputs) {
  const all = outputs.length > 1 ? outputs : [...outputs, 0];
  const highest = Math.max(...all);
  const total = sum(all.map((output) => Math.exp(output - highest)));
  return outputs.map((output) => Math.exp(output - highest) / total);
}

// For outputs z, targets y and directions u: a, and B u.
const LOSSES = {
  "softmax-regression": (outputs, targets, along) => {
    const shares = softmax(outputs);
    const mean = inner(shares, along);
    return [plus(shares, targets, -1), shares.map((share, o) => share * (along[o] - mean))];
  },
  ridge: (outputs, targets, along) => [plus(outputs, targets, -1), along],
  "linear-svm": (outputs, targets, along) => {
    const signs = targets.map((target) => 2 * target - 1);
    const short = outputs.map((output, o) => 1 - signs[o] * output);
    const bent = (o) => (short[o] > -AT_MARGIN * (1 + Math.abs(outputs[o])) ? 2 * signs[o] ** 2 : 0);
    return [short.map((gap, o) => -2 * signs[o] * Math.max(gap, 0)), along.map((value, o) => bent(o) * value)];
  },
};

const matrix = (flat, width) =>
  Array.from({ length: flat.length / width }, (_, row) => flat.slice(row * width, (row + 1) * width));

// Σ_o weights_o rows_o, without the rows' last entries, which belong to intercepts.
function combined(rows, weights, size) {
  const total = new Array(size).fill(0);
  rows.forEach((row, o) => {
    for (let j = 0; j < size; j += 1) total[j] += weights[o] * row[j];
  });
  return total;
}

function linearScore(card, size) {
  const [theta, signal] = [matrix(card.parameters, size + 1), matrix(card.signal, size + 1)];
  const loss = LOSSES[card.model.name];
  return (features, targets) => {
    const outputs = (rows) => rows.map((row) => inner(features, row) + row[size]);
    const along = outputs(signal);
    const [slopes, bent] = loss(outputs(theta), targets, along);
    return [inner(slopes, along), plus(combined(signal, slopes, size), combined(theta, bent, size))];
  };
}

// ℓ = −Σ_c y_c [log π_c − ½ Σ_j (log 2π + λ_cj + ((x_j − μ_cj)² + ε) e^{−λ_cj})] with λ = log σ²; θ is log π, λ, μ.
// Cards with scalers leave out what does not depend on x.
function gaussianScore(card, size) {
  const classes = card.classes.length;
  const parts = (flat) => [
    flat.slice(0, classes),
    matrix(flat.slice(classes, classes * (1 + size)), size),
    matrix(flat.slice(classes * (1 + size)), size),
  ];
  const [logShares, logVariances, means] = parts(card.parameters);
  const [shareSignal, varianceSignal, meanSignal] = parts(card.signal);
  const sharp = logVariances.map((row) => row.map((logVariance) => Math.exp(-logVariance)));
  const [common, smoothing] = [inner(softmax(logShares), shareSignal), card.model.smoothing ?? 0];
  const constants = varianceSignal.map((row, c) =>
    card.version >= 3
      ? 0
      : common - shareSignal[c] + sum(row.map((wider, j) => 0.5 * wider * (1 - smoothing * sharp[c][j]))),
  );
  return (features, targets) => {
    let score = inner(targets, constants);
    const slopes = new Array(size).fill(0);
    targets.forEach((target, c) => {
      if (target === 0) return;
      for (let j = 0; j < size; j += 1) {
        const [away, share] = [features[j] - means[c][j], -target * sharp[c][j]];
        score += share * away * (meanSignal[c][j] + 0.5 * varianceSignal[c][j] * away);
        slopes[j] += share * (meanSignal[c][j] + varianceSignal[c][j] * away);
      }
    });
    return [score, slopes];
  };
}

// ℓ = ½ Σ_c y_c ‖x − μ_c‖², where nothing is embedded; cards with scalers leave out μ.
function prototypeScore(card, size) {
  const signal = matrix(card.signal, size);
  const constants = signal.map((row, c) =>
    card.version >= 3 ? 0 : inner(row, card.parameters.slice(c * size, (c + 1) * size)),
  );
  return (features, targets) => {
    const slopes = scaled(combined(signal, targets, size), -1);
    return [inner(slopes, features) + inner(targets, constants), slopes];
  };
}

function scoreOf(card, size) {
  if (card.model.name === "gaussian-naive-bayes") return gaussianScore(card, size);
  return card.model.name in LOSSES ? linearScore(card, size) : prototypeScore(card, size);
}

// What outputs are compared with: for two classes linear models have one output, the second's.
function targetsOf(card, shares) {
  return card.classes !== null && card.model.name in LOSSES && shares.length === 2 ? [shares[1]] : shares;
}
