// The payload that every format protects: a compact JSON object. Its first part is
// the format of the MCP Python SDK, its second part is foil's own (docs/wire.md).

import { concat, decode, encode, random, same, sha256, utf8 } from "./bytes.js";
import { JSONError, members, quote, string } from "./json.js";
import { repr } from "./number.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */

/**
 * Claims are what a token says. Times are seconds since the Unix epoch.
 * @typedef {object} Claims
 * @property {number} iat
 * @property {number} exp
 * @property {string} m    method
 * @property {string} t    target
 * @property {Bytes} a     python-v1 digest of the arguments, 16 bytes
 * @property {string} s    the handler's state
 * @property {string | null} aud
 * @property {Bytes | null} p    salt[8] and tag[16] of the principal
 * @property {Own | null} own    null in a token that another implementation minted
 */

/**
 * Own are foil's claims.
 * @typedef {object} Own
 * @property {Bytes} ax    exact digest of the arguments, 32 bytes
 * @property {Bytes} jti   identity of the token, 16 bytes
 * @property {Bytes} fid   identity of the flow, 16 bytes
 * @property {number} rnd  round, from 1
 * @property {number} dl   deadline of the flow
 * @property {Map<string, string>} k  question's key to kind letter and digest
 */

/**
 * write makes the payload.
 * @param {Claims} c
 */
export function write(c) {
	let out = `{"v":1,"iat":${repr(c.iat)},"exp":${repr(c.exp)},"m":${quote(c.m)},"t":${quote(c.t)},"a":"${encode(c.a)}","s":${quote(c.s)}`;
	if (c.aud !== null) out += `,"aud":${quote(c.aud)}`;
	if (c.p !== null) out += `,"p":"${encode(c.p)}"`;
	if (c.own !== null) {
		const o = c.own;
		const k = [...o.k].map(([key, digest]) => `${quote(key)}:"${digest}"`).join(",");
		out += `,"ax":"${encode(o.ax)}","jti":"${encode(o.jti)}","fid":"${encode(o.fid)}","rnd":${o.rnd},"dl":${repr(o.dl)},"k":{${k}}`;
	}
	return out + "}";
}

const OWN = ["ax", "jti", "fid", "rnd", "dl", "k"];

/**
 * parse reads a payload. Claims that it does not know are ignored; one that is given
 * twice, is missing or of another type makes it null, and so do only some of foil's.
 * @param {string} payload
 * @returns {Claims | null}
 */
export function parse(payload) {
	/** @type {Map<string, string>} */
	const raw = new Map();
	try {
		for (const m of members(payload)) {
			if (raw.has(m.key) && KNOWN.has(m.key)) return null;
			raw.set(m.key, m.raw);
		}
	} catch (err) {
		if (err instanceof JSONError) return null;
		throw err;
	}
	const own = OWN.filter((name) => raw.has(name)).length;
	if (raw.get("v") !== "1" || (own !== 0 && own !== OWN.length)) return null;
	const c = {
		iat: number(raw.get("iat")), exp: number(raw.get("exp")),
		m: string(raw.get("m")), t: string(raw.get("t")), a: fixed(raw.get("a"), 16), s: string(raw.get("s")),
		aud: raw.has("aud") ? string(raw.get("aud")) : undefined,
		p: raw.has("p") ? fixed(raw.get("p"), 24) : undefined,
		own: own === 0 ? undefined : ownOf(raw),
	};
	if (Object.values(c).includes(null)) return null;
	return /** @type {Claims} */ ({ ...c, aud: c.aud ?? null, p: c.p ?? null, own: c.own ?? null });
}

const KNOWN = new Set(["v", "iat", "exp", "m", "t", "a", "s", "aud", "p", ...OWN]);

/**
 * @param {Map<string, string>} raw
 * @returns {Own | null}
 */
function ownOf(raw) {
	const o = {
		ax: fixed(raw.get("ax"), 32), jti: fixed(raw.get("jti"), 16), fid: fixed(raw.get("fid"), 16),
		rnd: /^[1-9][0-9]{0,8}$/.test(raw.get("rnd") ?? "") ? Number(raw.get("rnd")) : null,
		dl: number(raw.get("dl")), k: questions(raw.get("k") ?? ""),
	};
	return Object.values(o).includes(null) ? null : /** @type {Own} */ (o);
}

/** @param {string | undefined} raw */
function number(raw) {
	if (raw === undefined || !/^[-0-9]/.test(raw)) return null;
	const f = Number(raw);
	return Number.isFinite(f) ? f : null;
}

/**
 * fixed decodes base64url of exactly n bytes. No character of it may be an escape.
 * @param {string | undefined} raw
 * @param {number} n
 */
function fixed(raw, n) {
	const m = /^"([A-Za-z0-9_-]*)"$/.exec(raw ?? "");
	const bytes = m === null ? null : decode(m[1]);
	return bytes !== null && bytes.length === n ? bytes : null;
}

/** @param {string} raw */
function questions(raw) {
	if (raw[0] !== "{") return null;
	/** @type {Map<string, string>} */
	const k = new Map();
	for (const m of members(raw)) {
		const of = /^"([esr])([A-Za-z0-9_-]*)"$/.exec(m.raw);
		if (of === null || k.has(m.key) || fixed(`"${of[2]}"`, 32) === null) return null;
		k.set(m.key, of[1] + of[2]);
	}
	return k;
}

const TAG_LABEL = "mcp/request-state/principal:";

/**
 * principalClaim is the claim p: a salt, and the principal's tag under it.
 * @param {string} principal
 * @param {Uint8Array} [salt] 8 bytes; random if left out
 */
export async function principalClaim(principal, salt = random(8)) {
	const sum = await sha256(concat(utf8(TAG_LABEL), salt, utf8(principal)));
	return concat(salt, sum.subarray(0, 16));
}

/**
 * isPrincipal reports whether a claim p is that of a principal. A token without the
 * claim is that of nobody, whom null stands for.
 * @param {Bytes | null} claim
 * @param {string | null} principal
 */
export async function isPrincipal(claim, principal) {
	if (claim === null || principal === null) return claim === null && principal === null;
	return same(claim, await principalClaim(principal, claim.subarray(0, 8)));
}

/**
 * principal is the string of a login: client, issuer and subject, "" where unknown.
 * @param {string} client
 * @param {string} issuer
 * @param {string} subject
 */
export function principal(client, issuer, subject) {
	const or = (/** @type {string} */ s) => (s === "" ? "null" : quote(s));
	return `[${quote(client)},${or(issuer)},${or(subject)}]`;
}
