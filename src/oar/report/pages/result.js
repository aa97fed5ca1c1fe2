// The move as a table: column, now, change, then. The numbers themselves are in <data>, unrounded.

function labelText(label) {
  if (typeof label !== "object") return String(label);
  return "wanted" in label ? label.wanted : `(${label.tuple.map(labelText).join(", ")})`;
}

function valueText(column, value, decimals) {
  if (column.kind === "boolean") return value ? "yes" : "no";
  return column.levels.length > 0 ? labelText(column.levels[value]) : shownNumber(value, decimals);
}

function changeText(column, now, then, change) {
  if (now === then) return "no change";
  if (column.kind === "category" || column.kind === "boolean") return "switch";
  if (column.kind !== "ordinal") return shownChange(change);
  const levels = Math.abs(then - now);
  return `${levels} level${levels === 1 ? "" : "s"} ${then > now ? "up" : "down"}`;
}

function lineOf(column, now, then, change) {
  const decimals = Math.max(decimalsFor(change), decimalsOf(now));
  const reads = column.kind === "number" ? now + readable(change) : then;
  const cell = (value, text) => element("td", {}, element("data", { value: String(value) }, text));
  return element(
    "tr",
    now === then ? { class: "same" } : {},
    element("th", { scope: "row" }, column.name),
    cell(now, valueText(column, now, decimalsOf(now))),
    cell(change, changeText(column, now, then, change)),
    cell(then, valueText(column, reads, decimals)),
  );
}

function tableOf(lines) {
  const heads = ["What", "Now", "Change", "Then"].map((text) => element("th", { scope: "col" }, text));
  return element(
    "table",
    {},
    element("caption", {}, "Your move, in the units of your own values"),
    element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...lines),
  );
}
