// A strict reader of JSON text (RFC 8259) that never builds values. It writes the
// two canonical forms whose digests bind a token to its arguments, and it sees what
// JSON.parse hides: a key that is there twice, a number beyond a float64.

import { utf8 } from "./bytes.js";
import { NUMBER, exact, python } from "./number.js";

/**
 * A JSONError says where and why a text is refused, and holds nothing of it.
 */
export class JSONError extends Error {
	/**
	 * @param {string} what
	 * @param {number} at
	 */
	constructor(what, at) {
		super(`${what} at character ${at}`);
	}
}

/** Bounds on the work that a document can cause. */
export const LIMITS = { bytes: 4 << 20, depth: 64, digits: 4300, exponent: 6 };

/**
 * Forms are the canonical texts of one value.
 * @typedef {object} Forms
 * @property {string} python  what Python's json.dumps(…, sort_keys=True) writes
 * @property {string} exact   the same with every number as an exact decimal
 * @property {boolean} ambiguous  some object has a key twice, or two that differ in case only
 */

/**
 * forms reads the one value in text. It throws JSONError.
 * @param {string} text
 * @returns {Forms}
 */
export function forms(text) {
	const r = new Reader(text);
	r.space();
	const v = r.value(0);
	r.end();
	return { python: v.python, exact: v.exact, ambiguous: r.ambiguous };
}

/**
 * A Member is one member of an object: its key, decoded, and its value as it stands.
 * @typedef {{key: string, raw: string}} Member
 */

/**
 * members lists those of the one object in text, as they come. It throws JSONError,
 * also for a value of another kind.
 * @param {string} text
 * @returns {Member[]}
 */
export function members(text) {
	const r = new Reader(text);
	r.space();
	if (text[r.at] !== "{") throw new JSONError("not an object", r.at);
	/** @type {Member[]} */
	const list = [];
	r.top = list;
	r.writes = false;
	r.value(0);
	r.end();
	return list;
}

/**
 * string decodes raw text that must be one JSON string, else it is null.
 * @param {string | undefined} raw
 * @returns {string | null}
 */
export function string(raw) {
	if (raw === undefined || raw[0] !== '"') return null;
	try {
		return JSON.parse(raw);
	} catch {
		return null;
	}
}

/**
 * quote writes a JSON string in canonical spelling: ASCII only, everything else as
 * lower-case escapes of its UTF-16 units, so that a lone surrogate stays itself.
 * @param {string} s
 */
export function quote(s) {
	if (/^[ !#-[\]-~]*$/.test(s)) return `"${s}"`;
	let out = '"';
	for (let i = 0; i < s.length; i++) {
		const c = s[i];
		const short = SHORT.get(c);
		if (short !== undefined) out += short;
		else if (c >= " " && c <= "~") out += c;
		else out += "\\u" + s.charCodeAt(i).toString(16).padStart(4, "0");
	}
	return out + '"';
}

const SHORT = new Map([
	['"', '\\"'], ["\\", "\\\\"], ["\n", "\\n"], ["\r", "\\r"], ["\t", "\\t"], ["\b", "\\b"], ["\f", "\\f"],
]);

/**
 * byCodePoint orders keys as the bytes of their UTF-8 do, which UTF-16 does not.
 * @param {string} a
 * @param {string} b
 */
export function byCodePoint(a, b) {
	const n = Math.min(a.length, b.length);
	for (let i = 0; i < n; i++) {
		const x = a.charCodeAt(i);
		const y = b.charCodeAt(i);
		if (x === y) continue;
		// Halves of a pair stand for code points beyond all others; a lone one does not.
		return beyond(a, i, x) - beyond(b, i, y);
	}
	return a.length - b.length;
}

/**
 * beyond is the code point that the unit at i belongs to.
 * @param {string} s
 * @param {number} i
 * @param {number} unit
 */
function beyond(s, i, unit) {
	if (unit < 0xd800 || unit > 0xdfff) return unit;
	const low = unit >= 0xdc00 && i > 0 && s.charCodeAt(i - 1) >= 0xd800 && s.charCodeAt(i - 1) < 0xdc00;
	return /** @type {number} */ (s.codePointAt(low ? i - 1 : i));
}

/**
 * fold is the same for keys that are equal but for case: simple case folding, by the
 * browser's version of Unicode.
 * @param {string} key
 */
export function fold(key) {
	let out = "";
	for (const c of key) {
		// Go reads every lone surrogate as this one character.
		if (!c.isWellFormed()) out += "\ufffd";
		else if (c <= "~") out += c.toLowerCase();
		else out += folded(c);
	}
	return out;
}

/** @param {string} c one character */
function folded(c) {
	const single = (/** @type {string} */ s) => [...s].length === 1;
	for (const to of [c.toUpperCase().toLowerCase(), c.toLowerCase()]) {
		// The language's own simple folding has the last word: a dotless i is no i.
		if (single(to) && single(c.toUpperCase()) && equalButForCase(c, to)) return to;
	}
	return single(c.toLowerCase()) && equalButForCase(c, c.toLowerCase()) ? c.toLowerCase() : c;
}

/**
 * @param {string} a
 * @param {string} b
 */
function equalButForCase(a, b) {
	return a === b || new RegExp(`^\\u{${/** @type {number} */ (a.codePointAt(0)).toString(16)}}$`, "iu").test(b);
}

/** @typedef {{python: string, exact: string}} Value */

/** @type {Value} */
const NOTHING = { python: "", exact: "" };

const PLAIN = /[^"\\\u0000-\u001f]*/y;

class Reader {
	/** @param {string} text */
	constructor(text) {
		this.text = text;
		this.at = 0;
		this.ambiguous = false;
		/** @type {Member[] | null} members of the outermost object, if they are wanted */
		this.top = null;
		/** Whether the forms are wanted, or the text is only checked. */
		this.writes = true;
		if (text.length > LIMITS.bytes || (text.length * 3 > LIMITS.bytes && utf8(text).length > LIMITS.bytes)) {
			throw new JSONError("too long", 0);
		}
		if (!text.isWellFormed()) throw new JSONError("not UTF-8", 0);
	}

	space() {
		for (;;) {
			const c = this.text.charCodeAt(this.at);
			if (c !== 0x20 && c !== 0x09 && c !== 0x0a && c !== 0x0d) return;
			this.at++;
		}
	}

	end() {
		this.space();
		if (this.at < this.text.length) throw new JSONError("trailing data", this.at);
	}

	/** @param {string} c */
	take(c) {
		if (this.text[this.at] !== c) throw new JSONError("unexpected character", this.at);
		this.at++;
	}

	/**
	 * @param {number} depth how many arrays and objects it stands in
	 * @returns {Value}
	 */
	value(depth) {
		const c = this.text[this.at];
		if (c === "{") return this.object(depth + 1);
		if (c === "[") return this.array(depth + 1);
		if (c === '"') {
			const text = this.string();
			if (!this.writes) return NOTHING;
			const s = quote(text);
			return { python: s, exact: s };
		}
		if (c === "-" || (c >= "0" && c <= "9")) return this.number();
		for (const word of ["true", "false", "null"]) {
			if (this.text.startsWith(word, this.at)) {
				this.at += word.length;
				return { python: word, exact: word };
			}
		}
		throw new JSONError("unexpected character", this.at);
	}

	number() {
		NUMBER.lastIndex = this.at;
		const m = NUMBER.exec(this.text);
		const next = m === null ? "" : this.text[this.at + m[0].length];
		// "01", "1." and "1e" match only in part.
		if (m === null || /^[0-9.eE]$/.test(next)) throw new JSONError("bad number", this.at);
		if ((m[5] ?? "").length > LIMITS.exponent) throw new JSONError("exponent too long", this.at);
		const isInt = m[3] === undefined && m[5] === undefined;
		if (isInt && m[2].length > LIMITS.digits) throw new JSONError("integer too long", this.at);
		this.at += m[0].length;
		if (!this.writes) return NOTHING;
		return { python: python(m), exact: exact(m) };
	}

	string() {
		const from = this.at;
		this.take('"');
		// Most strings have nothing in them that stands for something else.
		PLAIN.lastIndex = this.at;
		PLAIN.test(this.text);
		if (this.text[PLAIN.lastIndex] === '"') {
			this.at = PLAIN.lastIndex + 1;
			return this.text.slice(from + 1, this.at - 1);
		}
		for (;;) {
			const c = this.text[this.at];
			if (c === undefined) throw new JSONError("unexpected end", this.at);
			if (c < " ") throw new JSONError("control character", this.at);
			this.at += c === "\\" ? 2 : 1;
			if (c === '"') break;
		}
		try {
			return /** @type {string} */ (JSON.parse(this.text.slice(from, this.at)));
		} catch {
			throw new JSONError("bad escape", from);
		}
	}

	/**
	 * @param {number} depth
	 * @returns {Value}
	 */
	array(depth) {
		if (depth > LIMITS.depth) throw new JSONError("too deep", this.at);
		this.take("[");
		this.space();
		/** @type {Value[]} */
		const items = [];
		if (this.text[this.at] === "]") this.at++;
		else {
			for (;;) {
				items.push(this.value(depth));
				this.space();
				if (this.text[this.at] === "]") break;
				this.take(",");
				this.space();
			}
			this.at++;
		}
		if (!this.writes) return NOTHING;
		return {
			python: `[${items.map((v) => v.python).join(",")}]`,
			exact: `[${items.map((v) => v.exact).join(",")}]`,
		};
	}

	/**
	 * @param {number} depth
	 * @returns {Value}
	 */
	object(depth) {
		if (depth > LIMITS.depth) throw new JSONError("too deep", this.at);
		this.take("{");
		this.space();
		/** @type {Map<string, Value>} of members with one key the last wins */
		const all = new Map();
		if (this.text[this.at] === "}") this.at++;
		else {
			for (;;) {
				if (this.text[this.at] !== '"') throw new JSONError("unexpected character", this.at);
				const key = this.string();
				this.space();
				this.take(":");
				this.space();
				const from = this.at;
				const value = this.value(depth);
				if (depth === 1 && this.top) this.top.push({ key, raw: this.text.slice(from, this.at) });
				this.ambiguous ||= all.has(key);
				all.set(key, value);
				this.space();
				if (this.text[this.at] === "}") break;
				this.take(",");
				this.space();
			}
			this.at++;
		}
		if (!this.writes) return NOTHING;
		const keys = [...all.keys()].sort(byCodePoint);
		this.ambiguous ||= new Set(keys.map(fold)).size < keys.length;
		/** @param {"python" | "exact"} form */
		const write = (form) => `{${keys.map((k) => quote(k) + ":" + /** @type {Value} */ (all.get(k))[form]).join(",")}}`;
		return { python: write("python"), exact: write("exact") };
	}
}
