// Numbers as people type them, and as they like to read them.

const PLAIN_NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const LARGEST = 1e100; // as in the people's own tables
const GROUPED = /^[+-]?\d{1,3}(,\d{3})+$/; // 1,500: a thousand and a half, or one and a half?

// Return { value } or { error }. A decimal comma, a true minus sign and spaces between thousands are understood, and so
// is a percent sign where only one of 50 and 0.5 fits.
function readNumber(typed, fits = () => true) {
  const whole = /%\s*$/.test(typed) ? readNumber(typed.replace(/%\s*$/, "")) : null;
  if (whole !== null && !whole.error) {
    const both = [whole.value, Number((whole.value / 100).toPrecision(15))];
    const fitting = both.filter(fits);
    return fitting.length === 1
      ? { value: fitting[0] }
      : { error: `Please write ${both.map((value) => shownNumber(value)).join(" or ")}, without the percent sign.` };
  }
  const text = typed.trim().replace(/\u2212/g, "-").replace(/(\d)[\s\u00a0\u2009\u202f](?=\d{3}(\D|$))/g, "$1");
  if (text === "") return { error: "Please fill this in." };
  if (GROUPED.test(text)) {
    const [whole, point] = [text.replace(/,/g, ""), text.replace(",", ".")];
    return { error: `Please write ${whole}${text.split(",").length === 2 ? ` or ${point}` : ""}, without the comma.` };
  }
  const plain = /^[^,.]*,[^,.]*$/.test(text) ? text.replace(",", ".") : text;
  const value = PLAIN_NUMBER.test(plain) ? Number(plain) : NaN;
  if (!Number.isFinite(value)) return { error: `Please write a number, such as 12 or 3.5; “${typed.trim()}” is not one.` };
  return Math.abs(value) > LARGEST ? { error: "Please write a smaller number." } : { value };
}

const decimalsOf = (number) => (/[.]/.test(String(number)) ? String(number).split(".")[1].length : 0);

// Six decimals, of large changes nine digits, and of tiny ones three.
function decimalsFor(change) {
  if (change === 0) return 0;
  const power = Math.floor(Math.log10(Math.abs(change)));
  return Math.min(Math.max(Math.min(8 - power, 6), 2 - power, 0), 15);
}

// A change as it is shown: cut off, not rounded up, because limits can end right behind it.
function readable(change) {
  const unit = 10 ** decimalsFor(change);
  return (Math.sign(change) * Math.floor(Math.abs(change) * unit + 1e-4)) / unit;
}

function shownNumber(number, decimals = decimalsFor(number)) {
  if (number !== 0 && (Math.abs(number) >= 1e15 || Math.abs(number) < 1e-9)) return signed(number.toPrecision(6));
  const text = number.toFixed(Math.min(decimals, 15));
  return signed(text.includes(".") ? text.replace(/\.?0+$/, "") : text);
}

const signed = (text) => text.replace("-", "\u2212");
const shownChange = (change) => (change > 0 ? "+" : "") + shownNumber(readable(change), decimalsFor(change));
