// The page: a form made from the card, and the move that comes of it. Nothing is sent and nothing is stored.

const page = JSON.parse(document.getElementById("card").textContent);
const rounds = page.card.rounds ?? [page.card];
let [card] = rounds;
const limitOf = ({ budget }) => budget ?? Infinity;
const widest = Math.max(...rounds.map(limitOf)); // what any round allows
const ofTable = card.columns !== undefined;
const within = (id) => document.getElementById(id);

// Whether the card's budget pays for the smallest change, as in oar/plans/cards/table/terms.py; plain features have no steps.
const affordable = ({ step = 0, cost = 0 }) => card.budget === null || step * cost <= card.budget * (1 + NEARLY);

// Plain features are columns of numbers.
function columnsOf() {
  const around = (column, place) => ({
    ...column,
    usual: card.usual?.[place] ?? null,
    asked: column.movable && widest > 0 && affordable(column),
  });
  if (ofTable) return card.columns.map(around);
  const names = card.features ?? card.directions[0].map((_, place) => `Feature ${place + 1}`);
  return names.map((name, place) => around({ name, kind: "number", levels: [], movable: true }, place));
}

function budgetError(value) {
  if (value < 0) return "Please write 0 or more.";
  if (value > widest)
    return `At most ${widest}, the plan’s own limit: going farther than planned can miss the goal.`;
  return null;
}

const COUNTED = {
  1: "added up",
  2: "taken together as a length (the root of the sum of their squares)",
  inf: "the largest of them",
};

function budgetField() {
  const limit = widest === Infinity ? "Your own limit" : `At most ${widest}, the plan’s own limit`;
  const what = ofTable ? "costs of all changes" : "sizes of all changes";
  return numberField({
    id: "budget",
    name: "How far I am willing to go",
    hint: `${limit}: the ${what}, ${COUNTED[card.norm]}.`,
    value: widest === Infinity ? "" : widest,
    accept: budgetError,
  });
}

// Of several rounds the one in which a member hands in its data, whose card it answers.
function roundField() {
  const hint = "The round in which you hand in your data; ask the organiser if you do not know.";
  const field = choiceField({ id: "round", name: "My round", hint, options: rounds.map((_, at) => String(at)) });
  const check = () => {
    const found = field.check();
    if (!found.error) card = rounds[found.value];
    return found;
  };
  return { ...field, check };
}

function outcomeFields() {
  const own = page.outcome === null ? "My own outcome" : `My own outcome (${page.outcome})`;
  if (card.classes !== null) {
    const hint = "The outcome that stands beside your values in the data.";
    return [choiceField({ id: "outcome-0", name: own, hint, options: card.classes.map(labelText) })];
  }
  const hint = "The value that stands beside your others in the data, and that the model learns to predict.";
  return Array.from({ length: card.outputs }, (_, place) => {
    const name = card.outputs === 1 ? own : `${own} ${place + 1}`;
    return numberField({ id: `outcome-${place}`, name, hint });
  });
}

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

// The change of each column, the values after it, and what it costs.
function computed(values, shares, budget, kept) {
  if (ofTable) {
    const { move, after, cost } = tableMove(card, values, shares, budget, kept);
    return { after, cost, changes: laidOut(card.columns).map(({ start }) => move[start]) };
  }
  const move = plainMove(card, values, shares, budget, kept);
  return { after: plus(values, move), cost: BALLS[card.norm].length(move), changes: move };
}

function showMove(columns, values, { after, cost, changes }, budget) {
  const moving = after.filter((value, at) => value !== values[at]).length;
  const used = shownNumber(Number(cost.toPrecision(6)));
  within("status").textContent =
    moving === 0
      ? "Stay as you are: the plan asks for no change of these values."
      : `Change ${moving} of ${columns.length} values. ` +
        `That uses ${used} of the ${shownNumber(budget)} that you are willing to go.`;
  if (moving > 0) {
    const lines = columns.map((column, at) => lineOf(column, values[at], after[at], changes[at]));
    within("move").replaceChildren(tableOf(lines));
  }
  within("print").hidden = false;
}

// What is asked of a member's outcome, before what is asked of its values.
function showLabel(wanted, own) {
  const [said, status] = [(place) => `“${labelText(card.classes[place])}”`, within("status")];
  const move = card.budget === 0 || wanted === null ? "" : ` ${status.textContent}`;
  if (wanted === null) status.textContent = "Take your data away: you are asked to hand in nothing.";
  else if (wanted === own) status.textContent = `Keep your outcome ${said(own)}.${move}`;
  else status.textContent = `Hand in the outcome ${said(wanted)} in place of ${said(own)}.${move}`;
}

function forgetMove() {
  within("status").textContent = "";
  within("move").replaceChildren();
  within("print").hidden = true;
}

function openForm() {
  const columns = columnsOf();
  const [values, outcome, budget] = [columns.map(columnField), outcomeFields(), budgetField()];
  within("values").append(...values.map(({ box }) => box));
  const round = page.card.rounds === undefined ? [] : [roundField()];
  within("outcome").append(...round.map(({ box }) => box), ...outcome.map(({ box }) => box), budget.box);
  budget.box.hidden = widest === 0; // nothing is to be changed but outcomes
  const limits = ofTable ? [...new Set([...card.links, ...card.rules].map(({ text }) => text))] : [];
  within("limit-list").append(...limits.map((text) => element("li", {}, text)));
  within("limits").hidden = limits.length === 0;
  within("form").hidden = false;
  within("form").addEventListener("input", forgetMove);
  within("form").addEventListener("submit", (event) => {
    event.preventDefault();
    forgetMove();
    const found = answersOf([...round, ...values, ...outcome, budget])?.slice(round.length);
    if (found === undefined) return;
    const [own, shares] = [found.slice(0, values.length), sharesOf(found.slice(values.length, -1))];
    const kept = values.map((field) => field.kept());
    const wanted = labelWanted(card, own, shares);
    const handed = wanted === null || wanted < 0 ? shares : onlyAt(shares.length, wanted);
    const far = wanted === null ? 0 : Math.min(found.at(-1), limitOf(card));
    showMove(columns, own, computed(own, handed, far, kept), found.at(-1));
    if (card.rule !== undefined) showLabel(wanted, shares.indexOf(1));
    within("result").scrollIntoView({ block: "nearest" });
  });
  within("print").addEventListener("click", () => window.print());
}

// Where the page cannot compute: the header of the file that `oar respond` reads; the label's name must be its own.
function explainProgram() {
  const quoted = (name) => (/[",\n\r]/.test(name) ? `"${name.replace(/"/g, '""')}"` : name);
  const names = columnsOf().map(({ name }) => name);
  const label = [page.outcome ?? "label", "label", "my_label", "my_own_label"].find((name) => !names.includes(name));
  within("header-line").textContent = [...names, label].map(quoted).join(",");
  within("program").hidden = false;
}

function openPage() {
  const predicted = page.outcome === null ? "the prediction" : `the prediction of ${page.outcome}`;
  const wish = `A plan so that ${predicted} becomes “${labelText(card.goal)}”`;
  document.title = page.title ?? wish;
  within("heading").textContent = page.title ?? wish;
  within("wish").textContent = page.title === null ? "" : `${wish}.`;
  within("wish").hidden = page.title === null;
  within("note").textContent = page.note ?? "";
  within("note").hidden = page.note === null;
  within(card.participants).hidden = false;
  Object.entries(page.about).forEach(([question, said]) =>
    within(question).append(...said.map((sentence) => element("p", {}, sentence))),
  );
  if (page.supported) openForm();
  else explainProgram();
}

openPage();
globalThis.oarMember = Object.freeze({ plainMove, tableMove, labelWanted, readNumber, doubtOf });
