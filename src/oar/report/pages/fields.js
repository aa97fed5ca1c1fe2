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

// A field around an input or a select. `read` turns what was typed into { value } or { error }.
function fieldOf({ id, name, control, hint, read, keepable }) {
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
  box.append(answers, error);
  const check = () => {
    const found = read(control);
    error.textContent = found.error ?? "";
    error.hidden = !found.error;
    if (found.error) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
    return found;
  };
  // Mistakes are named when the move is asked for (earlier, and the button would slip away from under the pointer), and
  // go away as soon as they are mended.
  control.addEventListener("input", () => control.hasAttribute("aria-invalid") && check());
  return { id, name, box, control, keep, check, kept: () => Boolean(keep?.checked) };
}

// A tick box with its "yes"; its name is above.
const ticked = (control) => element("div", { class: "tick" }, control, element("label", { for: control.id }, "yes"));

const numberControl = (value = "") =>
  element("input", { type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false", value });

function numberField({ id, name, hint, value, keepable, accept = () => null }) {
  const read = (control) => {
    const found = readNumber(control.value);
    const error = found.error ?? accept(found.value);
    return error ? { error } : found;
  };
  return fieldOf({ id, name, hint, keepable, read, control: numberControl(value) });
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
  return kind === "ordinal" ? `One level costs ${price}.` : `A change by 1 costs ${price}.`;
}

// The field of one column of the card.
function columnField(column, place) {
  const { name, kind, movable } = column;
  const hint = movable ? priceOf(column) : "The plan leaves this as it is.";
  const given = { id: `value-${place}`, name, hint, keepable: movable };
  if (kind === "boolean") return tickField(given);
  if (kind === "ordinal" || kind === "category") return choiceField({ ...given, options: column.levels.map(labelText) });
  const whole = (value) => (Number.isInteger(value) ? null : "Please write a whole number.");
  return numberField({ ...given, accept: kind === "integer" ? whole : () => null });
}
