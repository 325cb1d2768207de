// What the switches say, and the link that restores them. Only the fragment of the
// address is used, which no browser sends to a server.

/** @typedef {import("../attacks/bout.js").Policy} Policy */
/** @typedef {import("../core/keys.js").Format} Format */

/** NAMES are the switches, in their order. */
export const NAMES = /** @type {const} */ (["integrity", "principal", "expiry", "request", "audience", "questions", "once"]);

/** CODECS are foil's names of the formats. */
export const CODECS = /** @type {Record<Format, string>} */ ({ v1: "aesgcm", h1: "signed" });

/**
 * A Choice is a policy and the format of tokens.
 * @typedef {{policy: Policy, format: Format}} Choice
 */

/** everything is the policy with all switches on. */
export const everything = () => /** @type {Policy} */ (Object.fromEntries(NAMES.map((n) => [n, true])));

/**
 * fromLink reads a fragment. What it does not know it passes over.
 * @param {string} fragment
 * @returns {Choice}
 */
export function fromLink(fragment) {
	const p = new URLSearchParams(fragment.replace(/^#/, ""));
	const policy = everything();
	for (const name of (p.get("off") ?? "").split(",")) {
		const known = NAMES.find((n) => n === name);
		if (known !== undefined) policy[known] = false;
	}
	return { policy, format: p.get("codec") === CODECS.h1 ? "h1" : "v1" };
}

/**
 * toLink writes the fragment; it is "" where everything is as at first.
 * @param {Choice} c
 */
export function toLink(c) {
	const off = NAMES.filter((n) => !c.policy[n]);
	const parts = [];
	if (off.length > 0) parts.push(`off=${off.join(",")}`);
	if (c.format === "h1") parts.push(`codec=${CODECS.h1}`);
	return parts.length > 0 ? "#" + parts.join("&") : "";
}
