// Bytes and their spellings: base64url in its one form, hex, and UTF-8 that can
// hold lone surrogates. Hashing and randomness come from WebCrypto.

/** @typedef {Uint8Array<ArrayBuffer>} Bytes */

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const VALUES = new Int8Array(128).fill(-1);
for (let i = 0; i < DIGITS.length; i++) VALUES[DIGITS.charCodeAt(i)] = i;

/**
 * encode writes bytes as base64url without padding.
 * @param {Uint8Array} bytes
 */
export function encode(bytes) {
	const out = [];
	let i = 0;
	for (; i + 2 < bytes.length; i += 3) {
		const n = (bytes[i] << 16) | (bytes[i + 1] << 8) | bytes[i + 2];
		out.push(DIGITS[n >> 18], DIGITS[(n >> 12) & 63], DIGITS[(n >> 6) & 63], DIGITS[n & 63]);
	}
	if (i + 1 === bytes.length) {
		out.push(DIGITS[bytes[i] >> 2], DIGITS[(bytes[i] & 3) << 4]);
	} else if (i + 2 === bytes.length) {
		const n = (bytes[i] << 8) | bytes[i + 1];
		out.push(DIGITS[n >> 10], DIGITS[(n >> 4) & 63], DIGITS[(n & 15) << 2]);
	}
	return out.join("");
}

/**
 * decode reads what encode writes and nothing else: no padding, no other
 * alphabet, no white space, no bits that belong to no byte. Anything else is null.
 * @param {string} text
 * @returns {Bytes | null}
 */
export function decode(text) {
	const odd = text.length % 4;
	if (odd === 1) return null;
	const out = new Uint8Array(Math.floor((text.length * 3) / 4));
	let bits = 0;
	let held = 0;
	let at = 0;
	for (let i = 0; i < text.length; i++) {
		const c = text.charCodeAt(i);
		const v = c < 128 ? VALUES[c] : -1;
		if (v < 0) return null;
		held = (held << 6) | v;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			out[at++] = held >> bits;
			held &= (1 << bits) - 1;
		}
	}
	return held === 0 ? out : null;
}

/**
 * spare is how many bits of the last character of base64url text belong to no byte.
 * @param {string} text
 */
export function spare(text) {
	return [0, 0, 4, 2][text.length % 4];
}

/**
 * strays are the other characters that a lenient decoder takes for the last one.
 * @param {string} text
 */
export function strays(text) {
	const last = VALUES[text.charCodeAt(text.length - 1)];
	const all = [];
	for (let i = 1; i < 1 << spare(text); i++) all.push(text.slice(0, -1) + DIGITS[last | i]);
	return all;
}

/**
 * loose decodes as a careless server would: any alphabet of base64, anything in
 * between, whatever is left over at the end.
 * @param {string} text
 * @returns {Bytes}
 */
export function loose(text) {
	let digits = text.replaceAll("+", "-").replaceAll("/", "_").replace(/[^A-Za-z0-9_-]/g, "");
	const over = digits.length % 4;
	if (over === 1) digits = digits.slice(0, -1);
	else if (over > 1) {
		const last = VALUES[digits.charCodeAt(digits.length - 1)];
		digits = digits.slice(0, -1) + DIGITS[last & ~((1 << spare(digits)) - 1)];
	}
	return decode(digits) ?? new Uint8Array(0);
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * utf8 writes text as UTF-8, a lone surrogate as its three bytes (Python's
 * surrogatepass), so that every comparison and digest can tell one from another.
 * @param {string} text
 * @returns {Bytes}
 */
export function utf8(text) {
	if (text.isWellFormed()) return encoder.encode(text);
	const parts = [];
	for (const char of text) {
		const c = /** @type {number} */ (char.codePointAt(0));
		if (c >= 0xd800 && c <= 0xdfff) parts.push(0xe0 | (c >> 12), 0x80 | ((c >> 6) & 0x3f), 0x80 | (c & 0x3f));
		else parts.push(...encoder.encode(char));
	}
	return new Uint8Array(parts);
}

/**
 * text reads UTF-8, or is null where bytes are none.
 * @param {Uint8Array} bytes
 */
export function text(bytes) {
	try {
		return decoder.decode(bytes);
	} catch {
		return null;
	}
}

/**
 * concat joins bytes.
 * @param {...Uint8Array} parts
 * @returns {Bytes}
 */
export function concat(...parts) {
	const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
	let at = 0;
	for (const p of parts) {
		out.set(p, at);
		at += p.length;
	}
	return out;
}

/**
 * hex writes two digits for each byte.
 * @param {Uint8Array} bytes
 */
export function hex(bytes) {
	return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

/**
 * unhex reads hex, or is null.
 * @param {string} text
 * @returns {Bytes | null}
 */
export function unhex(text) {
	if (!/^(?:[0-9a-fA-F]{2})*$/.test(text)) return null;
	return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

/**
 * random draws n bytes.
 * @param {number} n
 */
export function random(n) {
	return crypto.getRandomValues(new Uint8Array(n));
}

/**
 * sha256 is the hash of bytes.
 * @param {Bytes} bytes
 */
export async function sha256(bytes) {
	return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

/**
 * same compares bytes without telling by its time where they differ.
 * @param {Uint8Array} a
 * @param {Uint8Array} b
 */
export function same(a, b) {
	if (a.length !== b.length) return false;
	let diff = 0;
	for (let i = 0; i < a.length; i++) diff |= a[i] ^ b[i];
	return diff === 0;
}
