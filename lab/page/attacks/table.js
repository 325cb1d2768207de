// Runs the attacks and says what stopped each: the checks that refused it, as they
// were seen, and not as a table says that they should.

import { Bout } from "./bout.js";
import { ROWS, good } from "./rows.js";

/** @typedef {import("./bout.js").Bench} Bench */
/** @typedef {import("./bout.js").Policy} Policy */

/**
 * A Result is what came of one attack.
 * @typedef {object} Result
 * @property {import("./rows.js").Row} row
 * @property {string} verdict
 * @property {boolean} good       as it must be
 * @property {string[]} stoppedBy  layers that refused it
 * @property {import("./bout.js").Form[]} forms
 * @property {string[]} notes
 * @property {number} mints
 * @property {number} opens
 * @property {number} took  milliseconds
 */

/** LAYER is what a reason speaks for. */
const LAYER = /** @type {Record<string, string>} */ ({
	malformed: "strict decoding", too_large: "limits", unknown_key: "integrity", tampered: "integrity",
	expired: "expiry", not_yet_valid: "expiry", round: "expiry", flow_expired: "expiry",
	method: "request", target: "request", arguments: "request", audience: "audience", principal: "principal",
	replayed: "single use", ambiguous_arguments: "strict parsing", no_state: "bare answers", not_answered: "questions",
});

/**
 * stoppedBy lists the layers that refused forms of an attack, the busiest first.
 * @param {Result} r
 */
function stoppedBy(r) {
	/** @type {Map<string, number>} */
	const count = new Map();
	for (const f of r.forms) {
		const layer = LAYER[f.reason];
		// In a flow of two rounds a question is no refusal.
		const stopped = f.kind === "asked-again" ? r.verdict === "asked-again" : f.kind !== "accepted";
		if (stopped && layer !== undefined) count.set(layer, (count.get(layer) ?? 0) + 1);
	}
	return [...count].sort((a, b) => b[1] - a[1]).map(([layer]) => layer);
}

/**
 * fight carries out one attack.
 * @param {Bench} bench
 * @param {Policy} policy
 * @param {import("./rows.js").Row} row
 * @returns {Promise<Result>}
 */
export async function fight(bench, policy, row) {
	const b = new Bout(bench, policy);
	const verdict = await row.run(b);
	const r = {
		row, verdict, good: good(row, verdict), stoppedBy: /** @type {string[]} */ ([]), forms: b.forms, notes: b.notes,
		mints: b.mints, opens: b.opens, took: performance.now() - b.began,
	};
	if (r.good && !row.honest) r.stoppedBy = stoppedBy(r);
	return r;
}

/**
 * run carries out all of them, one after the other, and tells of each when it is over.
 * It stops where alive says so.
 * @param {Bench} bench
 * @param {Policy} policy
 * @param {(r: Result, index: number) => void} [tell]
 * @param {() => boolean} [alive]
 */
export async function run(bench, policy, tell = () => {}, alive = () => true) {
	/** @type {Result[]} */
	const results = [];
	for (const row of ROWS) {
		const r = await fight(bench, policy, row);
		if (!alive()) return null;
		results.push(r);
		tell(r, results.length - 1);
	}
	return results;
}
