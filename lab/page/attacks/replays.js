// Attacks that present a good token more than once.

import { NO, YES, answer } from "./bout.js";
import { TWICE, calls } from "./server.js";
import { aliases, hasSpare } from "./spellings.js";

/** @typedef {import("./bout.js").Bout} Bout */

/**
 * replay sends one request five times.
 * @param {Bout} b
 */
export async function replay(b) {
	const f = await b.begin();
	let accepted = 0;
	for (let i = 1; i <= 5; i++) {
		const reply = await b.present(f, { what: `presentation ${i}` });
		if (reply.kind === "accepted") accepted++;
		else if (reply.reason !== "replayed") return `${accepted} of 5, and then ${reply.kind}: ${reply.reason}`;
	}
	b.notes.push(`The server deleted ${f.server.acted === 1 ? "once" : `${f.server.acted} times`}.`);
	return f.server.acted === accepted ? `${accepted} of 5` : `${accepted} of 5, and it acted ${f.server.acted} times`;
}

/**
 * again presents a spent token in other spellings, to the server that spent it.
 * @param {Bout} b
 */
export async function again(b) {
	let f = await b.begin();
	for (const call of Object.values(calls())) {
		if (hasSpare(f.token)) break;
		f = await b.begin(call);
	}
	const first = await b.present(f, { what: "the honest retry" });
	if (first.kind !== "accepted") return `the honest retry: ${first.kind}`;
	const acted = f.server.acted;
	for (const t of aliases(f.token)) {
		if (t.token === f.token) continue;
		const reply = await b.present(f, t);
		if (reply.kind !== "refused") return reply.kind;
	}
	return f.server.acted === acted ? "refused" : "refused, but it acted again";
}

/**
 * declined says no, and then yes with the same token.
 * @param {Bout} b
 */
export async function declined(b) {
	const f = await b.begin();
	const no = await b.present(f, { what: "Alice declines", answers: answer(1, NO) });
	if (no.kind !== "accepted" || f.server.acted > 0) return `declining: ${no.kind}, and it acted ${f.server.acted} times`;
	const yes = await b.present(f, { what: "the same token, accepting" });
	if (yes.kind === "refused" && f.server.acted > 0) return "refused, but it acted";
	return yes.kind;
}

/**
 * fork goes back to the first round when the second has begun.
 * @param {Bout} b
 */
export async function fork(b) {
	const one = await b.begin(calls(TWICE).tool);
	const first = await b.present(one, { what: "round 1" });
	if (first.kind !== "asked-again") return `round 1: ${first.kind}`;
	const back = await b.present(one, { what: "round 1 again" });
	const second = (/** @type {string} */ token, /** @type {string} */ what) => b.present(one, { what, token, answers: answer(2, YES) });
	if (back.kind === "asked-again") {
		const end = await second(back.token, "round 2 of the fork");
		if (end.kind === "accepted") {
			await second(first.token, "round 2 of the first branch");
			b.notes.push(`Both branches reached their end: the server deleted ${one.server.acted} times.`);
		}
		return end.kind;
	}
	if (back.kind !== "refused") return back.kind;
	const end = await second(first.token, "round 2, honestly");
	return end.kind === "accepted" && one.server.acted === 1 ? "refused" : `refused, and then round 2: ${end.kind}`;
}
