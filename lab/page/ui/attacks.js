// The table of attacks. Each verdict is computed when it is shown.

import { ROWS } from "../attacks/rows.js";
import { fight, run } from "../attacks/table.js";
import { detail } from "./detail.js";
import { byId, h, plural } from "./dom.js";

/** @typedef {import("../attacks/table.js").Result} Result */
/** @typedef {import("../attacks/bout.js").Bench} Bench */
/** @typedef {import("../attacks/bout.js").Policy} Policy */

/**
 * A Line is a row of the table on the page.
 * @typedef {object} Line
 * @property {HTMLTableRowElement} row
 * @property {HTMLTableRowElement} more
 * @property {HTMLTableCellElement} verdict
 * @property {HTMLTableCellElement} stopped
 * @property {HTMLTableCellElement} forms
 * @property {HTMLButtonElement} button
 * @property {Result | null} result
 */

export class Table {
	constructor() {
		/** @type {Line[]} */
		this.lines = ROWS.map((row) => this.line(row));
		this.turn = 0;
		/** @type {{bench: Bench, policy: Policy} | null} */
		this.last = null;
		byId("attacks").replaceChildren(...this.lines.flatMap((l) => [l.row, l.more]));
	}

	/**
	 * @param {import("../attacks/rows.js").Row} row
	 * @returns {Line}
	 */
	line(row) {
		const cell = (/** @type {string} */ name) => h("td", { role: "cell", class: name });
		const [verdict, stopped, forms] = [cell("verdict"), cell("stopped"), cell("forms")];
		const id = `more-${row.name}`;
		const button = h("button", { type: "button", class: "open", "aria-expanded": "false", "aria-controls": id, onclick: () => this.toggle(line) }, row.name);
		const line = {
			row: h("tr", { role: "row", class: row.honest ? "honest" : "attack", "data-row": row.name },
				h("th", { scope: "row", role: "rowheader" }, button, h("span", { class: "does" }, row.does)), verdict, stopped, forms),
			more: h("tr", { role: "row", class: "more", id, hidden: true }, h("td", { role: "cell", colspan: "4" })),
			verdict, stopped, forms, button, result: /** @type {Result | null} */ (null),
		};
		return line;
	}

	/** @param {Line} line */
	toggle(line) {
		const open = line.more.hidden;
		line.more.hidden = !open;
		line.button.setAttribute("aria-expanded", String(open));
		if (open) this.fill(line);
	}

	/** @param {Line} line */
	fill(line) {
		const cell = /** @type {HTMLElement} */ (line.more.firstElementChild);
		if (line.result === null) cell.replaceChildren("Running…");
		else cell.replaceChildren(detail(line.result, () => this.everyBit(line)));
	}

	/**
	 * everyBit runs one attack again with each bit of each character.
	 * @param {Line} line
	 */
	async everyBit(line) {
		if (this.last === null) return;
		const { bench, policy } = this.last;
		line.result = await fight({ ...bench, everyBit: true }, policy, ROWS[this.lines.indexOf(line)]);
		this.show(line, line.result);
	}

	/**
	 * update runs everything, and says in a sentence what came of it. It returns how
	 * long it took in milliseconds, or null if another run overtook it.
	 * @param {Bench} bench
	 * @param {Policy} policy
	 * @param {string} why  what has changed, for the sentence
	 */
	async update(bench, policy, why) {
		const turn = ++this.turn;
		this.last = { bench, policy };
		const began = performance.now();
		const results = await run(bench, policy, (r, i) => this.show(this.lines[i], r), () => turn === this.turn);
		if (results === null) return null;
		const took = performance.now() - began;
		this.say(results, took, why);
		return took;
	}

	/**
	 * @param {Line} line
	 * @param {Result} r
	 */
	show(line, r) {
		line.result = r;
		line.row.dataset.good = String(r.good);
		line.row.dataset.verdict = r.verdict;
		line.verdict.replaceChildren(h("span", { class: `chip ${r.good ? "good" : "bad"}` },
			h("span", { class: "mark", "aria-hidden": "true" }, r.good ? "✓" : "✗"), r.good ? "" : h("span", { class: "hidden" }, "gets through: "), r.verdict));
		line.stopped.textContent = r.row.honest ? "–" : r.good ? r.stoppedBy.join(", ") : "nothing";
		for (const name of document.querySelectorAll(`[data-attack="${r.row.name}"]`)) name.classList.toggle("through", !r.good);
		line.forms.textContent = plural(r.forms.length, "try", "tries");
		if (!line.more.hidden) this.fill(line);
	}

	/**
	 * @param {Result[]} results
	 * @param {number} took
	 * @param {string} why
	 */
	say(results, took, why) {
		const attacks = results.filter((r) => !r.row.honest);
		const through = attacks.filter((r) => !r.good).map((r) => r.row.name);
		const broken = results.filter((r) => r.row.honest && !r.good).map((r) => r.row.name);
		const parts = [
			through.length === 0 ? `All ${attacks.length} attacks are stopped.` : `${through.length} of ${attacks.length} attacks get through: ${through.join(", ")}.`,
			broken.length === 0 ? "" : ` What is honest fails: ${broken.join(", ")}.`,
		];
		byId("summary").replaceChildren(h("span", { class: "why" }, why), " ", h("strong", { class: through.length + broken.length === 0 ? "good" : "bad" }, parts.join("")));
		const sum = (/** @type {(r: Result) => number} */ of) => results.reduce((n, r) => n + of(r), 0);
		byId("effort").textContent = `${plural(sum((r) => r.mints), "token")} minted and ${plural(sum((r) => r.opens), "presentation")} verified in ${Math.round(took)} ms, just now.`;
	}
}
