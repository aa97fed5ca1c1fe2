// The form's fields: each knows how to show itself, what was typed, and how to say what is wrong beside it.
// Names and labels come from the card, so they only ever become text, never markup.

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  Object.entries(attributes).forEach(([name, value]) => {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, value);
  });
  made.append(...children);
  return made;
}

const hidden = (text) => element("span", { class: "hidden" }, text);

// A field around an input or a select. `read` turns what was typed into { value } or { error }; `doubt` asks back about
// a value that may be a mistake, until that is said to be right.
function fieldOf({ id, name, control, hint, read, keepable, doubt }) {
  const error = element("p", { id: `${id}-error`, class: "error", hidden: true });
  const described = [hint ? `${id}-hint` : "", `${id}-error`].join(" ").trim();
  control.id = id;
  control.setAttribute("aria-describedby", described);
  const box = element("div", { class: "field" }, element("label", { for: id, class: "name" }, name));
  if (hint) box.append(element("p", { id: `${id}-hint`, class: "hint" }, hint));
  const keep = keepable ? element("input", { type: "checkbox", id: `${id}-keep` }) : null;
  const answers = element("div", { class: "answers" }, control.type === "checkbox" ? ticked(control) : control);
  if (keep) {
    const words = element("label", { for: keep.id }, "I can’t change this ", hidden(`(${name})`));
    answers.append(element("div", { class: "keep" }, keep, words));
  }
  const right = element("input", { type: "checkbox", id: `${id}-right` });
  const words = element("label", { for: right.id }, "Yes, this is right ", hidden(`(${name})`));
  const sure = element("div", { class: "sure", hidden: true }, right, words);
  box.append(answers, error, ...(doubt ? [sure] : []));
  const check = () => {
    let found = read(control);
    const asked = found.error || !doubt ? null : doubt(found.value);
    sure.hidden = asked === null;
    if (asked !== null && !right.checked) found = { error: asked };
    error.textContent = found.error ?? "";
    error.hidden = !found.error;
    if (found.error) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
    return found;
  };
  // Mistakes are named when the move is asked for (earlier, and the button would slip away from under the pointer), and
  // go away as soon as they are mended.
  control.addEventListener("input", () => {
    right.checked = false;
    if (control.hasAttribute("aria-invalid") || !sure.hidden) check();
  });
  right.addEventListener("input", check);
  return { id, name, box, control, keep, check, kept: () => Boolean(keep?.checked) };
}

// A tick box with its "yes"; its name is above.
const ticked = (control) => element("div", { class: "tick" }, control, element("label", { for: control.id }, "yes"));

const numberControl = (value = "") =>
  element("input", { type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false", value });

function numberField({ id, name, hint, value, keepable, doubt, fits, unknown, accept = () => null }) {
  const read = (control) => {
    const found = readNumber(control.value, fits);
    const gap = unknown && control.value.trim() === "" ? ` ${unknown}` : "";
    const error = found.error ? found.error + gap : accept(found.value);
    return error ? { error } : found;
  };
  return fieldOf({ id, name, hint, keepable, read, doubt, control: numberControl(value) });
}

// A choice among texts; its value is a position.
function choiceField({ id, name, hint, options, keepable }) {
  const control = element("select", { autocomplete: "off" }, element("option", { value: "" }, "Choose…"));
  options.forEach((text, position) => control.append(element("option", { value: position }, text)));
  const read = () => (control.value === "" ? { error: "Please choose one." } : { value: Number(control.value) });
  return fieldOf({ id, name, hint, keepable, read, control });
}

// Yes or no: a box that is ticked or not.
function tickField({ id, name, hint, keepable }) {
  const control = element("input", { type: "checkbox", autocomplete: "off" });
  return fieldOf({ id, name, hint, keepable, control, read: () => ({ value: control.checked }) });
}

// What a change costs, where the card is of a table.
function priceOf({ kind, cost }) {
  if (!cost) return null;
  const price = shownNumber(Number(cost.toPrecision(3)));
  if (kind === "category") return `A switch costs ${price}.`;
  if (kind === "boolean") return `A change costs ${price}.`;
  if (kind === "ordinal") return `One level costs ${price}.`;
  return `A change by ${shownNumber(Number((1 / cost).toPrecision(3)))} costs 1.`;
}

// A range in words.
function rangeText(low, high) {
  if (low === null) return `up to ${shownNumber(high)}`;
  return high === null ? `from ${shownNumber(low)} on` : `between ${shownNumber(low)} and ${shownNumber(high)}`;
}

const isNumber = ({ kind }) => kind === "number" || kind === "integer";

// Where the plan goes, which way, and in which steps.
function termsOf(column) {
  const { kind, direction, step, levels, choices } = column;
  const [low, high] = [column.lower ?? null, column.upper ?? null];
  const said = [];
  if (isNumber(column) && (low !== null || high !== null)) said.push(`The plan goes ${rangeText(low, high)} only.`);
  if (direction === "up" || direction === "down") said.push(`It only goes ${direction}.`);
  if (isNumber(column) && step > (kind === "integer" ? 1 : 0)) said.push(`In steps of ${shownNumber(step)}.`);
  if (kind === "category" && choices.length < levels.length)
    said.push(`It may become ${choices.map((place) => labelText(levels[place])).join(", ") || "nothing else"}.`);
  return said;
}

// In which range a value is expected, as in oar/plans/cards/usual_values.py: the usual one, and what the plan allows beyond it.
function expectedOf(column) {
  if (!isNumber(column)) return [null, null];
  const [lower, upper] = [column.lower ?? null, column.upper ?? null];
  if (!column.usual) return [lower, upper];
  const [least, most] = column.usual;
  return [lower === null ? least : Math.min(lower, least), upper === null ? most : Math.max(upper, most)];
}

function hintOf(column) {
  const said = column.asked ? [priceOf(column), ...termsOf(column)] : ["You are not asked to change this."];
  const [low, high] = expectedOf(column);
  const known = low === (column.lower ?? null) && high === (column.upper ?? null); // it has been said
  if (isNumber(column) && !known) said.push(`Nearly everyone is ${rangeText(low, high)}.`);
  if (column.missing?.length) said.push(`${column.missing.map((code) => shownNumber(code)).join(" or ")}: no value; stays.`);
  return said.filter(Boolean).join(" ");
}

function doubtOf(column, value) {
  if (column.missing?.includes(value)) return null; // a code that the card names is expected
  const [low, high] = expectedOf(column);
  if ((low === null || value >= low) && (high === null || value <= high)) return null;
  return `Expected is ${rangeText(low, high)}. Is this right?`;
}

const UNKNOWN = "Where you have no such value, this page has no move for you: stay as you are, or ask the organiser.";

// The field of one column of the card.
function columnField(column, place) {
  const { name, kind, asked } = column;
  const hint = hintOf(column);
  const given = { id: `value-${place}`, name, hint, keepable: asked };
  if (kind === "boolean") return tickField(given);
  if (kind === "ordinal" || kind === "category") return choiceField({ ...given, options: column.levels.map(labelText) });
  const whole = (value) => (Number.isInteger(value) ? null : "Please write a whole number.");
  const doubt = (value) => doubtOf(column, value);
  const accept = kind === "integer" ? whole : () => null;
  const fits = (value) => accept(value) === null && doubtOf(column, value) === null;
  return numberField({ ...given, doubt, accept, fits, unknown: UNKNOWN });
}
