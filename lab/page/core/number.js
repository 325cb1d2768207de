// Numbers as text, in the two forms that bind a token to its arguments. A JSON
// number never becomes a JavaScript number unless the form asks for a float64.

/**
 * repr writes a float64 as Python's repr does: the shortest digits that read back
 * as the same number, in fixed notation with at least ".0" while it is at least
 * 1e-4 and below 1e16, else with an exponent of a sign and two digits or more.
 * @param {number} f
 */
export function repr(f) {
	if (Number.isNaN(f)) return "NaN";
	const sign = f < 0 || Object.is(f, -0) ? "-" : "";
	const abs = Math.abs(f);
	if (abs === Infinity) return sign + "Infinity";
	if (abs === 0) return sign + "0.0";
	const [mantissa, power] = abs.toExponential().split("e");
	const digits = mantissa.replace(".", "");
	const e = Number(power);
	if (abs < 1e-4 || abs >= 1e16) {
		const frac = digits.length > 1 ? "." + digits.slice(1) : "";
		return `${sign}${digits[0]}${frac}e${e < 0 ? "-" : "+"}${String(Math.abs(e)).padStart(2, "0")}`;
	}
	const point = e + 1;
	if (point <= 0) return sign + "0." + "0".repeat(-point) + digits;
	if (point >= digits.length) return sign + digits + "0".repeat(point - digits.length) + ".0";
	return sign + digits.slice(0, point) + "." + digits.slice(point);
}

/** The grammar of RFC 8259, section 6, at a place in a text. */
export const NUMBER = /(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]+))?/y;

/**
 * python is a number in the form python-v1: an integer keeps all its digits,
 * everything else is the repr of its float64.
 * @param {RegExpExecArray} m a match of NUMBER
 */
export function python(m) {
	const isInt = m[3] === undefined && m[5] === undefined;
	if (isInt) return m[2] === "0" ? "0" : m[0];
	return repr(Number(m[0]));
}

/**
 * exact is a number as an exact decimal: sign, digits without outer zeros, "e", and
 * a power of ten. Zero has no sign, since it carries no value.
 * @param {RegExpExecArray} m a match of NUMBER
 */
export function exact(m) {
	const frac = m[3] ?? "";
	let digits = (m[2] + frac).replace(/^0+/, "");
	if (digits === "") return "0e0";
	let e = Number((m[4] ?? "") + (m[5] ?? "0")) - frac.length;
	const kept = digits.replace(/0+$/, "");
	e += digits.length - kept.length;
	digits = kept;
	return `${m[1]}${digits}e${e}`;
}
