// Ties the parts of the page together: a change of a switch mints a new token, runs
// every attack again, and rewrites what is to be taken away.

import { Table } from "./ui/attacks.js";
import * as check from "./ui/check.js";
import { byId } from "./ui/dom.js";
import { Session } from "./ui/session.js";
import * as switches from "./ui/switches.js";
import * as take from "./ui/take.js";
import * as timeline from "./ui/timeline.js";
import * as tokens from "./ui/tokens.js";

/** The key of this tab. Tests look at it. @type {Session} */
export let session;

/** Resolves with how long the first full table took, in milliseconds. */
export const ready = start();

async function start() {
	theme();
	session = await Session.start();
	const table = new Table();

	const bench = () => ({ key: session.key, format: switches.read().format, now: () => Date.now() / 1000 });
	const update = async (/** @type {string} */ why) => {
		const c = switches.read();
		take.show(c);
		const token = await tokens.mint(session, c);
		check.show(session, c, token);
		const took = await table.update(bench(), c.policy, why);
		await replay();
		return took;
	};
	const replay = async () => {
		const { policy } = switches.read();
		timeline.show(await timeline.replay(bench(), policy), policy);
	};

	switches.start((_, why) => update(why));
	take.start();
	check.start(() => session, switches.read, async (on) => {
		await (on ? session.useDemo() : session.endDemo());
		await update(on ? "A demo key is in force, and can be copied." : "The demo key is gone, and a key that nobody can read is in force.");
	});
	byId("mint").addEventListener("click", () => update("A new token."));
	byId("new-key").addEventListener("click", async () => {
		await session.renew();
		await tokens.list(session);
		byId("key-said").textContent = "A new key is in force. No sealed token from before opens any more.";
		await update("A new key.");
	});
	byId("replay").addEventListener("click", replay);
	return update("");
}

/** theme follows the system until somebody chooses. The choice is not stored. */
function theme() {
	const select = /** @type {HTMLSelectElement} */ (byId("theme"));
	select.value = "system";
	select.addEventListener("change", () => {
		if (select.value === "system") delete document.documentElement.dataset.theme;
		else document.documentElement.dataset.theme = select.value;
	});
}
