// The switches: what each binding does, what it costs and what it stops. They are in
// the page's markup; here they come to life.

import { NAMES, fromLink, toLink } from "./state.js";
import { byId } from "./dom.js";

/** @typedef {import("./state.js").Choice} Choice */

/** @param {string} name */
const box = (name) => /** @type {HTMLInputElement} */ (byId(`bind-${name}`));

/** read is what the switches say. */
export function read() {
	/** @type {Choice} */
	const c = fromLink("");
	for (const name of NAMES) c.policy[name] = box(name).checked;
	c.format = /** @type {HTMLInputElement} */ (byId("codec-h1")).checked ? "h1" : "v1";
	return c;
}

/** @param {Choice} c */
function show(c) {
	for (const name of NAMES) box(name).checked = c.policy[name];
	/** @type {HTMLInputElement} */ (byId(`codec-${c.format}`)).checked = true;
	byId("codec").toggleAttribute("disabled", !c.policy.integrity);
}

/**
 * start restores the switches from the link and tells of each change. The link
 * follows.
 * @param {(c: Choice, changed: string) => void} changed
 */
export function start(changed) {
	show(fromLink(location.hash));
	const tell = (/** @type {string} */ what) => {
		const c = read();
		show(c);
		history.replaceState(null, "", location.pathname + location.search + toLink(c));
		changed(c, what);
	};
	for (const name of NAMES) {
		const label = box(name).labels?.[0]?.textContent?.trim() ?? name;
		box(name).addEventListener("change", () => tell(`${label} is ${box(name).checked ? "on" : "off"}.`));
	}
	for (const format of ["v1", "h1"]) {
		byId(`codec-${format}`).addEventListener("change", () => tell(format === "v1" ? "Tokens are encrypted." : "Tokens are signed, and can be read."));
	}
	const all = (/** @type {boolean} */ on) => {
		for (const name of NAMES) box(name).checked = on;
		tell(on ? "Everything is on." : "Everything is off.");
	};
	byId("all-on").addEventListener("click", () => all(true));
	byId("all-off").addEventListener("click", () => all(false));
	addEventListener("hashchange", () => {
		show(fromLink(location.hash));
		changed(read(), "The switches are as the link says.");
	});
}

/** BYTES are which claims belong to a switch. */
const BYTES = /** @type {Record<string, string[]>} */ ({
	principal: ["p"], expiry: ["iat", "exp", "rnd", "dl"], request: ["m", "t", "a", "ax"], audience: ["aud"], questions: ["k"], once: ["jti", "fid"],
});

/**
 * weigh shows what each binding costs in the token that was just minted.
 * @param {{key: string, raw: string}[]} claims  members of the payload
 * @param {number} sealing  bytes of the seal itself
 */
export function weigh(claims, sealing) {
	for (const name of NAMES) {
		const own = claims.filter((m) => BYTES[name]?.includes(m.key));
		// Name in quotes, colon, comma.
		const n = name === "integrity" ? sealing : own.reduce((sum, m) => sum + m.key.length + m.raw.length + 4, 0);
		byId(`bytes-${name}`).textContent = `${n} bytes`;
	}
}
