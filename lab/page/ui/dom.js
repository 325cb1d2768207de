// A few helpers to build the page without markup in strings, which the content
// security policy would not let through anyway.

/** @typedef {Node | string | null | undefined | false} Child */

/**
 * h makes an element. Attributes that are false or null are left out, true ones are
 * empty; "on…" are listeners.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, unknown>} [attrs]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, attrs = {}, ...children) {
	const el = document.createElement(tag);
	apply(el, attrs);
	append(el, children.flat());
	return el;
}

/**
 * svg makes an SVG element.
 * @param {string} tag
 * @param {Record<string, unknown>} [attrs]
 * @param {...(Child | Child[])} children
 */
export function svg(tag, attrs = {}, ...children) {
	const el = document.createElementNS("http://www.w3.org/2000/svg", tag);
	apply(el, attrs);
	append(el, children.flat());
	return el;
}

/**
 * @param {Element} el
 * @param {Record<string, unknown>} attrs
 */
function apply(el, attrs) {
	for (const [name, value] of Object.entries(attrs)) {
		if (name.startsWith("on")) el.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
		else if (value !== false && value !== null && value !== undefined) el.setAttribute(name, value === true ? "" : String(value));
	}
}

/**
 * @param {Element} el
 * @param {Child[]} children
 */
function append(el, children) {
	for (const c of children) if (c !== null && c !== undefined && c !== false) el.append(c);
}

/**
 * byId is an element of the page that is known to be there.
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 */
export function byId(id) {
	const el = document.getElementById(id);
	if (el === null) throw new Error(`the page has no #${id}`);
	return /** @type {T} */ (el);
}

/**
 * copyButton copies what text gives, and says that it has.
 * @param {string} what  what is copied, for the label
 * @param {() => string} text
 */
export function copyButton(what, text) {
	const said = h("span", { class: "copied", role: "status" });
	const button = h("button", {
		type: "button", class: "quiet",
		onclick: async () => {
			try {
				await navigator.clipboard.writeText(text());
				said.textContent = "Copied.";
			} catch {
				said.textContent = "The browser did not allow it: select the text and copy it.";
			}
			setTimeout(() => (said.textContent = ""), 4000);
		},
	}, `Copy ${what}`);
	return h("span", { class: "copy" }, button, said);
}

/** plural counts things in words. */
export const plural = (/** @type {number} */ n, /** @type {string} */ one, many = one + "s") => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
