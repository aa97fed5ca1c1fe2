// A table's columns as coordinates, how far a member may go in each, and which links and rules hold: as in
// oar/plans/cards/table/terms.py and oar/actions/limits/rules.py. Values are numbers, true or false, and positions of levels.

const NEARLY = 1e-10; // of values that a rule compares, and of a step that counts as a whole one
const OVER = 5e-10; // of a budget, and of what links compare: rounding

const firstLargest = (numbers) => numbers.indexOf(Math.max(...numbers));

// Columns with their places: `start` and `size`; a category has one coordinate for each level.
function laidOut(columns) {
  let start = 0;
  return columns.map((column) => {
    const size = column.kind === "category" ? column.levels.length : 1;
    start += size;
    return { ...column, start: start - size, size, cost: column.movable ? column.cost : 1 };
  });
}

function tableOfCard(card) {
  const columns = laidOut(card.columns);
  const place = Object.fromEntries(columns.map((column) => [column.name, column]));
  const names = new Set([
    ...card.links.flatMap((link) => [...Object.keys(link.values), ...Object.keys(link.changes)]),
    ...card.rules.flatMap((rule) => rule.columns),
  ]);
  const bound = columns.flatMap((column, at) => (column.movable && names.has(column.name) ? [at] : []));
  return { columns, place, bound, links: card.links, rules: card.rules, norm: card.norm };
}

const encoded = (columns, values) =>
  columns.flatMap((column, at) =>
    column.kind === "category" ? column.levels.map((_, level) => Number(level === values[at])) : [Number(values[at])],
  );

const levelOf = (column, point) => firstLargest(point.slice(column.start, column.start + column.size));

// A person's values after a move, whole where they are whole.
function decoded(columns, point) {
  return columns.map((column) => {
    if (column.kind === "category") return levelOf(column, point);
    const number = point[column.start];
    if (column.kind === "boolean") return number !== 0;
    return column.kind === "number" ? number : Math.round(number);
  });
}

// How far down and up, and which levels may be taken.
function roomOf(columns, point, kept) {
  return columns.map((column, at) => {
    const { lower, upper, direction } = column;
    const value = point[column.start];
    const still = !column.movable || kept[at] || column.missing?.includes(value);
    if (still) return { fall: 0, rise: 0, takes: [] };
    const fall = lower === null ? Infinity : Math.max(value - lower, 0);
    const rise = upper === null ? Infinity : Math.max(upper - value, 0);
    return { fall: direction === "up" ? 0 : fall, rise: direction === "down" ? 0 : rise, takes: column.choices };
  });
}

// What a move costs, in the card's norm.
function costOf(table, move) {
  const paid = table.columns.map(
    ({ cost, start, size }) => cost * peak(move.slice(start, start + size)),
  );
  return BALLS[table.norm].length(paid);
}

function linkKept(table, link, before, after) {
  let [stood, stands, size] = [link.constant, link.constant, Math.abs(link.constant)];
  const each = (factors, use) =>
    Object.entries(factors).forEach(([name, factor]) => {
      const { start } = table.place[name];
      size += Math.abs(factor) * (Math.abs(before[start]) + Math.abs(after[start]));
      use(factor, before[start], after[start]);
    });
  each(link.values, (factor, was, now) => {
    stood += factor * was;
    stands += factor * now;
  });
  each(link.changes, (factor, was, now) => {
    stands += factor * (now - was);
  });
  return stands <= Math.max(stood, 0) + OVER * size;
}

function linkHolds(table, link, before, after) {
  let [total, size] = [link.constant, Math.abs(link.constant)];
  Object.entries(link.values).forEach(([name, factor]) => {
    const value = factor * after[table.place[name].start];
    total += value;
    size += Math.abs(value);
  });
  Object.entries(link.changes).forEach(([name, factor]) => {
    const { start } = table.place[name];
    total += factor * (after[start] - before[start]);
    size += Math.abs(factor) * (Math.abs(after[start]) + Math.abs(before[start]));
  });
  return total <= 1e-9 * size;
}

function partHolds(table, part, before, after) {
  if (!("column" in part)) return linkHolds(table, part, before, after);
  const column = table.place[part.column];
  if (part.levels !== null) return part.levels.includes(levelOf(column, after));
  const [value, low, high] = [after[column.start], part.low ?? -Infinity, part.high ?? Infinity];
  if (part.open) return value > low && value < high;
  const slack = part.whole ? 0.5 : NEARLY * (Math.abs(value) + Math.abs(before[column.start]));
  return value >= low - slack && value <= high + slack;
}

function ruleKept(table, rule, before, after) {
  const same = rule.columns.every((name) => {
    const { start, size } = table.place[name];
    return before.slice(start, start + size).every((value, j) => value === after[start + j]);
  });
  return same || rule.ways.some((way) => way.every((part) => partHolds(table, part, before, after)));
}

function allKept(table, before, after) {
  return (
    table.links.every((link) => linkKept(table, link, before, after)) &&
    table.rules.every((rule) => ruleKept(table, rule, before, after))
  );
}
