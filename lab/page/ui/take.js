// The policy to take away: as code, and as a link.

import { goCode, pythonCode } from "./code.js";
import { toLink } from "./state.js";
import { byId, copyButton } from "./dom.js";

/** start puts the buttons that copy into the page. */
export function start() {
	for (const [id, what] of [["go", "the Go code"], ["python", "the Python code"], ["link", "the link"]]) {
		byId(`${id}-copy`).replaceChildren(copyButton(what, () => byId(`${id}-text`).textContent ?? ""));
	}
}

/**
 * show writes them.
 * @param {import("./state.js").Choice} c
 */
export function show(c) {
	byId("go-text").textContent = goCode(c);
	byId("python-text").textContent = pythonCode(c);
	byId("link-text").textContent = location.origin + location.pathname + toLink(c);
}
