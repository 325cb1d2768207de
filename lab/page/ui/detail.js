// What a row of the table opens to: its bytes, its calls and its times.

import { byId, h, plural } from "./dom.js";
import { dump } from "./tokens.js";

/** @typedef {import("../attacks/table.js").Result} Result */
/** @typedef {import("../attacks/bout.js").Form} Form */

/**
 * detail shows what was tried in one attack.
 * @param {Result} r
 * @param {() => Promise<void>} everyBit
 */
export function detail(r, everyBit) {
	const flips = r.row.name === "tamper-each-part";
	return h("div", { class: "detail" },
		r.row.why === "" ? null : h("p", {}, h("strong", {}, "If it got through: "), r.row.why),
		h("p", { class: "effort" }, `${plural(r.mints, "token")} minted, ${plural(r.opens, "token")} opened, ${r.took.toFixed(1)} ms.`),
		...r.notes.map((n) => h("p", {}, n)),
		outcomes(r),
		flips ? strip(r) : null,
		flips ? everyBitButton(everyBit) : null,
		h("h3", {}, samples(r).length < r.forms.length ? "One try of each outcome" : "Every try"),
		h("ol", { class: "tries" }, samples(r).map(form)));
}

/** @param {Result} r */
function outcomes(r) {
	/** @type {Map<string, number>} */
	const count = new Map();
	for (const f of r.forms) count.set(outcome(f), (count.get(outcome(f)) ?? 0) + 1);
	return h("ul", { class: "outcomes", "aria-label": "Outcomes" },
		[...count].sort((a, b) => b[1] - a[1]).map(([what, n]) => h("li", {}, h("strong", {}, n.toLocaleString("en")), ` ${what}`)));
}

const outcome = (/** @type {Form} */ f) => (f.reason === "" ? f.kind : `${f.kind}: ${f.reason}`);

/**
 * samples are all tries of a small attack, and the first of each outcome of a large one.
 * @param {Result} r
 */
function samples(r) {
	if (r.forms.length <= 12) return r.forms;
	const seen = new Set();
	return r.forms.filter((f) => !seen.has(outcome(f)) && seen.add(outcome(f)));
}

/** @param {Form} f */
function form(f) {
	const pre = (/** @type {string} */ label, /** @type {string} */ text) => [
		h("h4", {}, label), h("pre", { tabindex: "0", role: "group", "aria-label": label }, text),
	];
	return h("li", { class: f.kind },
		h("details", {},
			h("summary", {}, h("span", {}, f.what), h("span", { class: "came" }, ` ${outcome(f)}, ${f.took.toFixed(2)} ms`)),
			...pre(`Request, from ${f.who}, ${f.at.toFixed(1)} ms in`, f.request),
			...pre("Reply", f.wire),
			...pre("Bytes of the token", dump(f.token))));
}

/**
 * strip draws the token's characters by what refused the one with a bit flipped.
 * @param {Result} r
 */
function strip(r) {
	/** @type {Map<number, string>} an accepted flip outweighs the others */
	const at = new Map();
	for (const f of r.forms) {
		if (f.char !== undefined && (f.kind === "accepted" || !at.has(f.char))) at.set(f.char, f.kind === "accepted" ? "accepted" : f.reason);
	}
	const classes = /** @type {Record<string, string>} */ ({ accepted: "hit", malformed: "form", unknown_key: "kid", tampered: "tag" });
	const bars = [...at].sort((a, b) => a[0] - b[0]).map(([, what]) => h("i", { class: `flip flip-${classes[what] ?? "other"}` }));
	const names = { hit: "accepted", form: "refused by its form", kid: "refused by the key id", tag: "refused by the tag", other: "refused by a binding" };
	const used = new Set([...at.values()].map((w) => classes[w] ?? "other"));
	return h("figure", { class: "strip" },
		h("div", { class: "flips", "aria-hidden": "true" }, bars),
		h("figcaption", {}, "Each bar is a character of the token with a bit flipped: ",
			Object.entries(names).filter(([c]) => used.has(c)).map(([c, name]) => h("span", { class: "key" }, h("i", { class: `flip flip-${c}`, "aria-hidden": "true" }), ` ${name} `))));
}

/** @param {() => Promise<void>} everyBit */
function everyBitButton(everyBit) {
	return h("p", {}, h("button", {
		type: "button",
		onclick: async (/** @type {Event} */ e) => {
			const button = /** @type {HTMLButtonElement} */ (e.currentTarget);
			button.disabled = true;
			button.textContent = "Flipping…";
			await everyBit();
			// The row has been drawn anew.
			/** @type {HTMLElement | null} */ (byId("more-tamper-each-part").querySelector("button"))?.focus();
		},
	}, "Flip every bit of every character"));
}
