// What an attacker makes of a token without a key: one bit flipped, cut short, spelt in
// another way, under another prefix, and claims that were never sealed.

import { concat, decode, encode, spare, strays, utf8 } from "../core/bytes.js";
import { gcm, hmac } from "../core/codecs.js";
import { fromSecret, ready } from "../core/keys.js";

/** @typedef {{what: string, token: string, char?: number}} Text */

/**
 * flips changes one bit of every character, or each bit of each.
 * @param {string} token
 * @param {boolean} everyBit
 * @param {number} stride  of how many characters one is tried
 * @returns {Generator<Text>}
 */
export function* flips(token, everyBit, stride) {
	for (let i = 0; i < token.length; i += stride) {
		const c = token.charCodeAt(i);
		for (let bit = 1; bit < 128; bit <<= 1) {
			const other = c ^ bit;
			// Only characters that JSON carries as they are.
			if (other < 0x20 || other >= 0x7f || other === 0x22 || other === 0x5c) continue;
			yield { what: `bit ${Math.log2(bit)} of character ${i}`, token: token.slice(0, i) + String.fromCharCode(other) + token.slice(i + 1), char: i };
			if (!everyBit) break;
		}
	}
}

/**
 * cuts shortens a token from either end. An empty one counts as none at all, which is
 * the row no-state.
 * @param {string} token
 * @param {number} stride  of how many lengths one is tried
 * @returns {Generator<Text>}
 */
export function* cuts(token, stride) {
	// From the long end, where a careless reader finds the most.
	for (let n = token.length - 1; n > 0; n -= stride) yield { what: `the first ${n} characters alone`, token: token.slice(0, n) };
	for (const n of [1, 2, 3, 4, 8, token.length >> 1, token.length - 1]) {
		yield { what: `the first ${n} characters missing`, token: token.slice(n) };
	}
}

/** bodiesOf are the base64url parts of a token. */
const bodiesOf = (/** @type {string} */ token) => token.slice(3).split(".");

/**
 * hasSpare reports whether every part of a token ends in bits that belong to no byte,
 * so that a lenient decoder would take other characters for the last one.
 * @param {string} token
 */
export function hasSpare(token) {
	return bodiesOf(token).every((body) => spare(body) > 0);
}

/**
 * aliases are spellings that a lenient decoder takes for the same token.
 * @param {string} token
 * @returns {Generator<Text>}
 */
export function* aliases(token) {
	const prefix = token.slice(0, 3);
	const body = token.slice(3);
	const half = token.length >> 1;
	const [first, mac] = body.split(".");
	const pad = (/** @type {string} */ s) => s + "=".repeat((4 - (s.length % 4)) % 4);
	/** @type {[string, string][]} */
	const list = [
		["padding", prefix + (mac === undefined ? pad(body) : first + "." + pad(mac))],
		["padding, too much of it", token + "=="],
		["the other alphabet of base64", prefix + body.replaceAll("-", "+").replaceAll("_", "/")],
		["a space in front", " " + token],
		["a space behind", token + " "],
		["a space after the prefix", prefix + " " + body],
		["a space inside", token.slice(0, half) + " " + token.slice(half)],
		["a tab behind", token + "\t"],
		["a line feed behind", token + "\n"],
		["a line feed inside", token.slice(0, half) + "\n" + token.slice(half)],
		["a carriage return inside", token.slice(0, half) + "\r" + token.slice(half)],
		["CR LF after the prefix", prefix + "\r\n" + body],
		["a NUL behind", token + "\0"],
		["a no-break space behind", token + "\u00a0"],
		["a byte order mark in front", "\ufeff" + token],
		["the dot percent-encoded", token.replaceAll(".", "%2E")],
		["a percent-encoded space in front", "%20" + token],
		["a character percent-encoded", token.slice(0, half) + "%" + token.charCodeAt(half).toString(16).toUpperCase() + token.slice(half + 1)],
		["in quotes", `"${token}"`],
		["in single quotes", `'${token}'`],
		["an upper-case prefix", prefix.toUpperCase() + body],
		["a full-width prefix", "\uff56" + token.slice(1)],
		["a leading zero in the version", prefix[0] + "01." + body],
		["a sign in the version", prefix[0] + "+1." + body],
		["a scheme in front", "Bearer " + token],
	];
	if (mac !== undefined) {
		list.push(["padding before the MAC", prefix + pad(first) + "." + mac], ["a line feed before the MAC", prefix + first + "\n." + mac]);
		for (const other of strays(first)) list.push(["stray bits before the MAC", prefix + other + "." + mac]);
	}
	const last = mac ?? first;
	for (const other of strays(last)) list.push(["stray bits in the last character", token.slice(0, token.length - last.length) + other]);
	for (const [what, spelling] of list) yield { what, token: spelling };
}

/**
 * otherPrefixes name another version or another format.
 * @param {string} token
 * @returns {Generator<Text>}
 */
export function* otherPrefixes(token) {
	for (const p of ["v0.", "v1.", "v2.", "v11.", "v1", "v1:", "V1.", "h1.", "h2.", "r1.", "vault:v1:", "vault:v2:", ".", ""]) {
		yield { what: `the prefix "${p}"`, token: p + token.slice(3) };
	}
}

/**
 * forgeries are what somebody makes who knows the format and every claim, and has no
 * key: the claims as they are, with nothing or zeros for a tag, and under weak keys.
 * @param {string} token
 * @param {string} claims  the payload, as JSON
 * @returns {Promise<Text[]>}
 */
export async function forgeries(token, claims) {
	const payload = utf8(claims);
	const prefix = token.slice(0, 3);
	const kid = (decode(bodiesOf(token)[0]) ?? new Uint8Array(16)).subarray(0, 4);
	const zeros = (/** @type {number} */ n) => new Uint8Array(n);
	const none = encode(utf8('{"alg":"none","typ":"JWT"}')) + "." + encode(payload) + ".";
	const signed = encode(concat(kid, payload));
	/** @type {Text[]} */
	const all = [
		{ what: "the claims as they are", token: claims },
		{ what: "the claims in base64url", token: encode(payload) },
		{ what: "the claims behind the prefix", token: prefix + encode(payload) },
		{ what: "the claims with a nonce and a tag of zeros", token: prefix + encode(concat(kid, zeros(12), payload, zeros(16))) },
		{ what: 'as a JWT with "alg":"none"', token: none },
		{ what: 'the same behind the prefix', token: prefix + none },
		{ what: "a MAC of zeros", token: `h1.${signed}.${encode(zeros(32))}` },
		{ what: "an empty MAC", token: `h1.${signed}.` },
	];
	const asKey = zeros(32);
	asKey.set(utf8(prefix));
	for (const format of /** @type {const} */ (["v1", "h1"])) {
		const make = format === "v1" ? gcm : hmac;
		const weak = [
			{ what: "an all-zero key", sealer: await ready(format, zeros(32)) },
			{ what: "the prefix as key", sealer: await ready(format, asKey) },
			{ what: "an all-zero secret", sealer: (await fromSecret(zeros(32)))[format] },
		];
		for (const { what, sealer } of weak) {
			all.push({ what: `${what} (${format})`, token: await make([sealer]).seal(payload) });
			all.push({ what: `${what}, under the good key id (${format})`, token: await make([{ ...sealer, kid: kid.slice() }]).seal(payload) });
		}
	}
	return all;
}

/**
 * payloadOf is what the server sees in its own token.
 * @param {import("../core/codecs.js").Codec} codec
 * @param {string} token
 */
export async function payloadOf(codec, token) {
	const payload = await codec.open(token);
	if (!(payload instanceof Uint8Array)) throw new Error("the honest token does not open");
	return new TextDecoder().decode(payload);
}

