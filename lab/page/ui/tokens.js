// Mints a token, draws its parts, and shows what became of the ones before.

import { ask, calls, ALICE, SERVICE } from "../attacks/server.js";
import { concat, decode, hex } from "../core/bytes.js";
import { codecOf, parts } from "../core/codecs.js";
import { Guard } from "../core/guard.js";
import { members, quote, string } from "../core/json.js";
import { UsedSet } from "../core/used.js";
import { object } from "../attacks/server.js";
import { byId, copyButton, h } from "./dom.js";
import { weigh } from "./switches.js";

/** @typedef {import("./session.js").Session} Session */
/** @typedef {import("./state.js").Choice} Choice */

/** What each part of a token is for. */
const PARTS = /** @type {Record<string, [string, string]>} */ ({
	prefix: ["prefix", "Names the format. It never names an algorithm that the server would then obey."],
	"key id": ["kid", "Four bytes of a hash of the key, so that the server need not try all it has. No secret."],
	nonce: ["nonce", "Twelve random bytes. AES-GCM must never see one twice under one key."],
	ciphertext: ["body", "The claims, encrypted. The client can carry them and learn their length."],
	payload: ["body", "The claims, in base64url. Whoever holds the token can read them."],
	tag: ["tag", "Sixteen bytes that only the key can make. One bit anywhere, and they no longer fit."],
	mac: ["tag", "HMAC-SHA-256 over everything before the dot. One bit anywhere, and it no longer fits."],
	zeros: ["none", "Zeros, where key id, nonce and tag would be. There is nothing to check."],
	dot: ["none", "A dot between what is signed and the signature."],
});

/** What each claim says, and the switch that compares it. */
const CLAIMS = /** @type {Record<string, string>} */ ({
	v: "version of this list", iat: "when it was minted (expiry)", exp: "when it ends (expiry)", m: "the method (request)",
	t: "the tool, prompt or uri (request)", a: "digest of the arguments, as the Python SDK makes it (request)", s: "the server's own state",
	aud: "the service (audience)", p: "salted hash of who asked (principal)", ax: "exact digest of the arguments (request)",
	jti: "identity of this token (single use)", fid: "identity of the flow", rnd: "round, from 1 (expiry)", dl: "when the flow ends (expiry)",
	k: "hash of each question (questions)",
});

/** The request that the tokens of this page are bound to. */
export const CALL = calls().tool;

/**
 * guardOf is a Guard with the session's key and every binding that is on.
 * @param {Session} session
 * @param {Choice} c
 */
export function guardOf(session, c) {
	const format = /** @type {"v1" | "h1" | "plain"} */ (c.policy.integrity ? c.format : "plain");
	const codec = codecOf(format, [session.key]);
	const guard = new Guard(codec, c.policy, { audience: SERVICE, now: () => Date.now() / 1000, used: new UsedSet(), interop: session.demo !== null });
	return { guard, codec, format };
}

/** request is the call of this page as the Guard sees it. */
export const request = () => ({ method: CALL.method, target: CALL.target, args: object(CALL.args), principal: ALICE.principal, answers: null });

/**
 * mint makes a token and shows it.
 * @param {Session} session
 * @param {Choice} c
 */
export async function mint(session, c) {
	const { guard, codec, format } = guardOf(session, c);
	const { key, question } = ask(1);
	const token = await guard.seal(request(), { state: '{"step":1}', questions: `{${quote(key)}:${question}}` });
	session.keep(token, format);
	const payload = await codec.open(token);
	const text = payload instanceof Uint8Array ? new TextDecoder().decode(payload) : "";
	weigh(members(text), token.length - Math.ceil((text.length * 4) / 3));
	draw(token, format);
	claims(text, codec.encrypts);
	await list(session);
	return token;
}

/**
 * draw shows the parts of a token.
 * @param {string} token
 * @param {"v1" | "h1" | "plain"} format
 */
function draw(token, format) {
	const all = parts(token, format);
	byId("token-text").replaceChildren(...all.map((p) => h("span", { class: `part part-${PARTS[p.name][0]}`, title: p.name }, p.text)));
	byId("token-copy").replaceChildren(copyButton("the token", () => token));
	byId("token-parts").replaceChildren(...all.filter((p) => p.name !== "dot").map((p) => h("div", { class: "legend" },
		h("dt", {}, h("span", { class: `swatch part-${PARTS[p.name][0]}`, "aria-hidden": "true" }), p.name, h("span", { class: "count" }, ` ${p.bytes} bytes`)),
		h("dd", {}, PARTS[p.name][1]))));
	byId("token-length").textContent = `${token.length} characters`;
	byId("token-bytes").textContent = dump(token);
}

/**
 * dump writes the decoded bytes of a token, sixteen a line.
 * @param {string} token
 */
export function dump(token) {
	const bodies = token.slice(token.indexOf(".") + 1).split(".").map((b) => decode(b));
	if (bodies.includes(null)) return "This is no base64url in its one form, so it has no bytes to show.";
	const raw = concat(.../** @type {Uint8Array[]} */ (bodies));
	const lines = [];
	for (let i = 0; i < raw.length; i += 16) {
		const row = raw.subarray(i, i + 16);
		const digits = hex(row).replace(/../g, "$& ").padEnd(48);
		lines.push(`${i.toString(16).padStart(4, "0")}  ${digits} ${String.fromCharCode(...row.map((b) => (b >= 0x20 && b < 0x7f ? b : 0x2e)))}`);
	}
	return lines.join("\n");
}

/**
 * claims shows what is inside: to everybody, or behind a button where the client
 * could not see it.
 * @param {string} payload
 * @param {boolean} sealed
 */
function claims(payload, sealed) {
	const rows = members(payload).map((m) => h("tr", {},
		h("th", { scope: "row" }, h("code", {}, m.key)),
		h("td", {}, h("code", {}, m.key === "s" ? (string(m.raw) ?? "") : m.raw)),
		h("td", {}, CLAIMS[m.key] ?? "")));
	const table = h("table", { class: "claims" },
		h("caption", {}, sealed ? "What the server reads" : "What anybody reads who holds the token"),
		h("thead", {}, h("tr", {}, ...["Claim", "Value", "Meaning (and what compares it)"].map((t) => h("th", { scope: "col" }, t)))),
		h("tbody", {}, rows));
	const box = byId("token-claims");
	const was = /** @type {HTMLDetailsElement | null} */ (box.querySelector("details"))?.open ?? false;
	box.replaceChildren(sealed
		? h("details", { open: was }, h("summary", {}, "Sealed: the client sees none of the claims. Open them as the server does"), h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Claims" }, table))
		: h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Claims" }, table));
}

/**
 * list shows the last tokens, and whether each opens under the key in force.
 * @param {Session} session
 */
export async function list(session) {
	const now = await Promise.all(session.minted.map(async (m) => ({ m, reason: await session.opens(m) })));
	byId("minted").replaceChildren(...now.map(({ m, reason }) => h("li", { class: reason === "" && m.format !== "plain" ? "good" : "bad" },
		h("span", { class: "mark", "aria-hidden": "true" }, reason === "" ? "✓" : "✗"),
		h("code", {}, `${m.token.slice(0, 14)}…`),
		h("span", {}, ` ${m.at.toLocaleTimeString()}, ${m.kid === "" ? "no key" : `key ${m.kid}`}: `),
		h("strong", {}, reason !== "" ? `opens no more (${reason})` : m.format === "plain" ? "opens, whatever the key" : "opens"))));
}
