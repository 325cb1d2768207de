// The cross-check with foil's command line. It needs a key that both sides have, so it
// works under a demo key only, which is made when somebody asks for it.

import { ALICE, SERVICE, object } from "../attacks/server.js";
import { Opened, Unavailable } from "../core/guard.js";
import { byId, copyButton } from "./dom.js";
import { CODECS } from "./state.js";
import { CALL, guardOf, request } from "./tokens.js";

/** @typedef {import("./session.js").Session} Session */
/** @typedef {import("./state.js").Choice} Choice */

const PARAMS = `{"name":"${CALL.target}","arguments":${object(CALL.args)}}`;

/**
 * input is what foil token reads: the request that the token is bound to.
 * @param {string} more  raw JSON members
 */
const input = (more) => `{"method":"${CALL.method}","params":${PARAMS},
 "principal":${JSON.stringify(ALICE.principal)},"audience":"${SERVICE}",${more}}`;

/**
 * commands are what to type to open a token of this page, and to seal one for it.
 * @param {string} secret
 * @param {Choice} c
 * @param {string} token
 */
export function commands(secret, c, token) {
	const keys = `--codec ${CODECS[c.format]} --secret-hex ${secret}`;
	return {
		open: `foil token open ${keys} <<'END'\n${input(`"token":"${token}"`)}\nEND\n`,
		seal: `foil token seal ${keys} <<'END'\n${input('"state":"{\\"step\\":1}"')}\nEND\n`,
	};
}

/**
 * start wires the buttons.
 * @param {() => Session} session
 * @param {() => Choice} choice
 * @param {(on: boolean) => Promise<void>} demo
 */
export function start(session, choice, demo) {
	const box = /** @type {HTMLInputElement} */ (byId("demo"));
	box.checked = false;
	box.addEventListener("change", () => demo(box.checked));
	for (const id of ["open", "seal"]) byId(`${id}-copy`).replaceChildren(copyButton(`the command that ${id}s`, () => byId(`${id}-text`).textContent ?? ""));
	byId("paste-form").addEventListener("submit", async (e) => {
		e.preventDefault();
		const text = /** @type {HTMLTextAreaElement} */ (byId("paste")).value;
		byId("paste-result").textContent = await open(session(), choice(), text);
	});
}

/**
 * open tries what was pasted: a token, or what foil token seal prints.
 * @param {Session} session
 * @param {Choice} c
 * @param {string} text
 */
export async function open(session, c, text) {
	const token = /"token"\s*:\s*"([^"\\]*)"/.exec(text)?.[1] ?? text.trim();
	if (token === "") return "Paste a token first.";
	const opened = await guardOf(session, c).guard.open(request(), token);
	if (opened instanceof Opened) return `It opens. Its state is ${opened.claims.s}`;
	return opened instanceof Unavailable ? `It cannot be decided: ${opened.what}.` : `It is refused: ${opened.reason}.`;
}

/**
 * show writes the commands, or hides them.
 * @param {Session} session
 * @param {Choice} c
 * @param {string} token
 */
export function show(session, c, token) {
	const on = session.demo !== null;
	byId("demo-off").hidden = on;
	byId("demo-on").hidden = !on || !c.policy.integrity;
	byId("demo-plain").hidden = !on || c.policy.integrity;
	if (session.demo === null) return;
	const { open: opens, seal } = commands(session.demo, c, token);
	byId("open-text").textContent = opens;
	byId("seal-text").textContent = seal;
}
