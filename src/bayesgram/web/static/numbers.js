// Numbers as people type them: 1,000,000 and 1 000 000, 0.5 and 0,5. What may mean two numbers is refused. In a whole
// number commas and dots stand between thousands: 100.000 is a hundred thousand.

const BETWEEN = /[\s_'’]/g; // thousands
const THOUSANDS = /^[1-9]\d{0,2}(,\d{3})+(\.\d+)?$/;
const WHOLE_THOUSANDS = /^[1-9]\d{0,2}((,\d{3})+|(\.\d{3})+)$/;
const DOTTED = /^[1-9]\d{0,2}(\.\d{3}){2,}$/; // more than one dot is no decimal point
const DOUBTFUL = /^[1-9]\d{0,2},\d{3}$/; // 1,500 is 1.5 or 1500
const DECIMAL_COMMA = /^\d*,\d+(e[+-]?\d+)?$/i;
const WHOLE = /^\d+(e\+?\d+)?$/i;
const PLAIN = /^(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

const without = (given, marks = /,/g) => Number(given.replace(marks, ""));

// The number, or an Error that names the field.
export function typedNumber(name, text, { whole = false } = {}) {
  const given = text.replaceAll("−", "-").replace(BETWEEN, "");
  if (!whole && DOUBTFUL.test(given)) {
    const decimal = Number(given.replace(",", "."));
    throw new Error(`${name}: ${given} may be ${decimal} or ${without(given)}; write it without the comma.`);
  }
  const value = read(given, whole);
  if (Number.isFinite(value) && (!whole || Number.isSafeInteger(value))) return value;
  const wanted = whole ? "a whole number, such as 10000" : "a number, such as 0.5 or 1e-7";
  throw new Error(`${name}: give ${wanted}${given ? ` (not “${text.trim()}”)` : ""}.`);
}

function read(given, whole) {
  if (WHOLE_THOUSANDS.test(given) && whole || DOTTED.test(given)) return without(given, /[,.]/g);
  if (whole) return WHOLE.test(given) ? Number(given) : NaN;
  if (THOUSANDS.test(given)) return without(given);
  if (DECIMAL_COMMA.test(given)) return Number(given.replace(",", "."));
  return PLAIN.test(given) ? Number(given) : NaN;
}
