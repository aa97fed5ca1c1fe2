// The page: a form made from the card, and the move that comes of it. Nothing is sent and nothing is stored.

const page = JSON.parse(document.getElementById("card").textContent);
const card = page.card;
const within = (id) => document.getElementById(id);

const labelText = (label) =>
  typeof label === "object" ? `(${label.tuple.map(labelText).join(", ")})` : String(label);

const COUNTED = {
  1: "the sizes of all changes added up",
  2: "the length of all changes taken together (the root of the sum of their squares)",
  inf: "the largest single change",
};

function budgetError(value) {
  if (value < 0) return "Please write 0 or more.";
  if (card.budget !== null && value > card.budget)
    return `At most ${card.budget}, the plan’s own limit: going farther than planned can miss the goal.`;
  return null;
}

function budgetField() {
  const limit = card.budget === null ? "Your own limit" : `At most ${card.budget}, the plan’s own limit`;
  return numberField({
    id: "budget",
    name: "How far I am willing to go",
    hint: `${limit}, counted as ${COUNTED[card.norm]}.`,
    value: card.budget ?? "",
    accept: budgetError,
  });
}

function labelFields() {
  if (card.classes !== null) {
    const hint = "The outcome that stands beside your values in the data.";
    return [choiceField({ id: "label", name: "My own outcome", hint, options: card.classes.map(labelText) })];
  }
  const hint = "The value that stands beside your others in the data, and that the model learns to predict.";
  return Array.from({ length: card.outputs }, (_, place) => {
    const name = card.outputs === 1 ? "My own outcome" : `My own outcome ${place + 1}`;
    return numberField({ id: `label-${place}`, name, hint });
  });
}

const featureNames = () => card.features ?? card.directions[0].map((_, place) => `Feature ${place + 1}`);

const valueFields = () =>
  featureNames().map((name, place) => numberField({ id: `value-${place}`, name, keepable: true }));

const sharesOf = (found) =>
  card.classes === null ? found : card.classes.map((_, place) => (place === found[0] ? 1 : 0));

// Read all fields, naming every mistake; return their values, or null after moving to the first that is wrong.
function answersOf(fields) {
  const found = fields.map((field) => field.check());
  const wrong = fields.filter((_, place) => found[place].error);
  if (wrong.length === 0) return found.map(({ value }) => value);
  const many = wrong.length === 1 ? "One answer needs" : `${wrong.length} answers need`;
  within("status").textContent = `${many} another look: ${wrong.map(({ name }) => name).join(", ")}.`;
  wrong[0].control.focus();
  return null;
}

function lineOf(name, now, change) {
  const decimals = Math.max(decimalsFor(change), decimalsOf(now));
  const cell = (value, text) => element("td", {}, element("data", { value }, text));
  return element(
    "tr",
    change === 0 ? { class: "same" } : {},
    element("th", { scope: "row" }, name),
    cell(now, shownNumber(now, decimalsOf(now))),
    cell(change, change === 0 ? "no change" : shownChange(change)),
    cell(now + change, shownNumber(now + change, decimals)),
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

function showMove(names, values, move, budget) {
  const moving = move.filter((change) => change !== 0).length;
  const used = shownNumber(Number(BALLS[card.norm].length(move).toPrecision(6)));
  within("status").textContent =
    moving === 0
      ? "Stay as you are: the plan asks for no change of these values."
      : `Change ${moving} of ${move.length} values. That uses ${used} of the ${shownNumber(budget)} that you are willing to go.`;
  within("move").replaceChildren(
    ...(moving === 0 ? [] : [tableOf(names.map((name, j) => lineOf(name, values[j], move[j])))]),
  );
  within("print").hidden = false;
}

function forgetMove() {
  within("status").textContent = "";
  within("move").replaceChildren();
  within("print").hidden = true;
}

function openForm() {
  const [values, labels, budget] = [valueFields(), labelFields(), budgetField()];
  within("values").append(...values.map(({ box }) => box));
  within("outcome").append(...labels.map(({ box }) => box), budget.box);
  within("form").hidden = false;
  within("form").addEventListener("input", forgetMove);
  within("form").addEventListener("submit", (event) => {
    event.preventDefault();
    forgetMove();
    const found = answersOf([...values, ...labels, budget]);
    if (found === null) return;
    const [own, label] = [found.slice(0, values.length), found.slice(values.length, -1)];
    const move = plainMove(card, own, sharesOf(label), found.at(-1), values.map((field) => field.kept()));
    showMove(values.map(({ name }) => name), own, move, found.at(-1));
    within("result").scrollIntoView({ block: "nearest" });
  });
  within("print").addEventListener("click", () => window.print());
}

const quoted = (name) => (/[",\n\r]/.test(name) ? `"${name.replace(/"/g, '""')}"` : name);

function explainProgram() {
  within("header-line").textContent = [...featureNames(), "label"].map(quoted).join(",");
  within("program").hidden = false;
}

function openPage() {
  const goal = labelText(card.goal);
  const wish = `A plan so that the prediction becomes “${goal}”`;
  document.title = page.title ?? wish;
  within("heading").textContent = page.title ?? wish;
  within("wish").textContent = page.title === null ? "" : `${wish}.`;
  within("wish").hidden = page.title === null;
  within(card.participants).hidden = false;
  if (page.supported) openForm();
  else explainProgram();
}

openPage();
globalThis.oarMember = Object.freeze({ plainMove, readNumber });
