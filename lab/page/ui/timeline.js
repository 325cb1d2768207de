// "Replay 5 times": one good request, presented five times in ten minutes, drawn on a
// line of time with what the server remembers. The clock is moved; the tokens are real.

import { Bout } from "../attacks/bout.js";
import { TTL } from "../core/guard.js";
import { SKEW } from "../core/used.js";
import { byId, h, svg } from "./dom.js";

/** @typedef {import("../attacks/bout.js").Bench} Bench */
/** @typedef {import("../attacks/bout.js").Policy} Policy */

/** A Moment is one presentation: minutes after minting, and what came of it. */
/** @typedef {{minute: number, kind: string, reason: string, acted: number, used: number}} Moment */

const MINUTES = [1, 2.5, 4, 5.5, 7];

/**
 * replay presents a token five times.
 * @param {Bench} bench
 * @param {Policy} policy
 */
export async function replay(bench, policy) {
	const start = bench.now();
	let now = start;
	const b = new Bout({ ...bench, now: () => now }, policy);
	const f = await b.begin();
	/** @type {Moment[]} */
	const moments = [];
	for (const minute of MINUTES) {
		now = start + minute * 60;
		const r = await b.present(f, { what: `after ${minute} minutes` });
		moments.push({ minute, kind: r.kind, reason: r.reason, acted: f.server.acted, used: f.server.used.size });
	}
	return { moments, most: f.server.used.most };
}

const W = 720;
const LEFT = 16;
const END = 12; // minutes on the line
const x = (/** @type {number} */ minute) => LEFT + (minute / END) * (W - 2 * LEFT);

/**
 * show draws them, and lists them for who does not look at drawings.
 * @param {{moments: Moment[], most: number}} run
 * @param {Policy} policy
 */
export function show({ moments, most }, policy) {
	const passes = moments.filter((m) => m.kind === "accepted").length;
	const first = moments.find((m) => m.used > 0);
	const until = (TTL + SKEW) / 60;
	const text = (/** @type {number} */ at, /** @type {number} */ y, /** @type {string} */ s, attrs = {}) => svg("text", { x: at, y, ...attrs }, s);
	const drawing = svg("svg", { viewBox: `0 0 ${W} 180`, class: "timeline", role: "img", "aria-label": `${passes} of 5 presentations pass. The list below says the same in words.` },
		// The token's life.
		svg("rect", { class: "life", x: x(0), y: 40, width: x(policy.expiry ? TTL / 60 : END) - x(0), height: 8, rx: 4 }),
		text(x(0), 26, "minted", { class: "note" }),
		policy.expiry ? text(x(TTL / 60), 26, "expires", { class: "note", "text-anchor": "middle" }) : text(x(END), 26, "never expires", { class: "note", "text-anchor": "end" }),
		...moments.map((m, i) => svg("g", { class: m.kind === "accepted" ? "pass" : "stop" },
			svg("circle", { cx: x(m.minute), cy: 44, r: 13 }),
			text(x(m.minute), 49, m.kind === "accepted" ? "✓" : "✗", { class: "glyph", "text-anchor": "middle" }),
			text(x(m.minute), 78, `${i + 1}`, { class: "note", "text-anchor": "middle" }))),
		// What the server remembers.
		text(x(0), 142, first ? `used-set: ${first.used} of ${most.toLocaleString("en")} places taken` : "used-set: nothing is remembered", { class: "note" }),
		svg("rect", { class: "memory", x: x(0), y: 108, width: x(END) - x(0), height: 14, rx: 3 }),
		first ? svg("rect", { class: "held", x: x(first.minute), y: 108, width: x(until) - x(first.minute), height: 14, rx: 3 }) : null,
		first ? svg("line", { class: "join", x1: x(first.minute), y1: 84, x2: x(first.minute), y2: 108 }) : null,
		first ? text(x(until), 142, "may be forgotten", { class: "note", "text-anchor": "end" }) : null,
		...[0, 2, 4, 6, 8, 10, 12].map((m) => text(x(m), 172, `${m} min`, { class: "tick", "text-anchor": m === 0 ? "start" : m === END ? "end" : "middle" })));
	const said = passes === 5
		? h("p", {}, h("strong", { class: "bad" }, "Five passes."), ` Same person, same request, same bytes, in time: every check of the token is right five times over, and the server deletes ${moments.at(-1)?.acted} times. Binding and expiry do not make a token single-use.`)
		: h("p", {}, h("strong", { class: "good" }, `${passes === 1 ? "One pass" : `${passes} passes`} and ${["no", "one", "two", "three", "four", "five"][5 - passes]} refusals.`),
			` The server remembers the token's identity, which lies inside the seal, until a minute after the token has expired. Then no clock can bring the token back, and the place is free again: ${most.toLocaleString("en")} places are all it needs, and when they are full it refuses.`);
	byId("replay-said").replaceChildren(said);
	byId("replay-drawing").replaceChildren(h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Timeline of the five presentations" }, drawing),
		h("ol", { class: "moments" }, moments.map((m) => h("li", {}, `After ${m.minute} min: `,
			h("strong", { class: m.kind === "accepted" ? "pass" : "stop" }, m.kind === "accepted" ? "PASS" : `refused (${m.reason})`), `; the server has acted ${m.acted === 1 ? "once" : `${m.acted} times`}.`))));
}
