// The key of this tab and the tokens that were minted under it. All of it is in this
// object and nowhere else: nothing is stored, nothing is sent.

import { hex, random } from "../core/bytes.js";
import { codecOf } from "../core/codecs.js";
import { fromSecret, generate } from "../core/keys.js";

/**
 * A Minted is a token that this page has made.
 * @typedef {object} Minted
 * @property {string} token
 * @property {"v1" | "h1" | "plain"} format
 * @property {Date} at
 * @property {string} kid  of the key, in hex; "" without one
 */

const REMEMBERED = 5;

export class Session {
	/** @param {import("../core/keys.js").Key} key */
	constructor(key) {
		this.key = key;
		/** The secret of a demo key, in hex; null as long as nobody asked for one. @type {string | null} */
		this.demo = null;
		/** The newest first. @type {Minted[]} */
		this.minted = [];
	}

	static async start() {
		return new Session(await generate());
	}

	/** renew replaces the key. What was sealed under the old one opens no more. */
	async renew() {
		if (this.demo !== null) return this.useDemo();
		this.key = await generate();
	}

	/** useDemo replaces the key by one whose secret can be copied. */
	async useDemo() {
		const secret = random(32);
		this.key = await fromSecret(secret);
		this.demo = hex(secret);
	}

	/** endDemo goes back to a key that nobody can read. */
	async endDemo() {
		this.demo = null;
		await this.renew();
	}

	/**
	 * keep remembers a token.
	 * @param {string} token
	 * @param {Minted["format"]} format
	 */
	keep(token, format) {
		const kid = format === "plain" ? "" : hex(this.key[format].kid);
		this.minted = [{ token, format, at: new Date(), kid }, ...this.minted].slice(0, REMEMBERED);
	}

	/**
	 * opens tries a token under the key in force: "" or the reason why it does not open.
	 * @param {Minted} m
	 */
	async opens(m) {
		const payload = await codecOf(m.format, [this.key]).open(m.token);
		return payload instanceof Uint8Array ? "" : payload.reason;
	}
}
