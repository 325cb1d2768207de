// Token formats: v1 (AES-256-GCM, sealed), h1 (HMAC-SHA-256, readable), and plain,
// which has no integrity at all and stands for a server that forgot it.

import { concat, decode, encode, loose, random, utf8 } from "./bytes.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */
/** @typedef {import("./keys.js").Sealer} Sealer */

/** A Reason is why a state is refused, as foil's logs name it. */
/** @typedef {"malformed" | "too_large" | "unknown_key" | "tampered" | "expired" | "not_yet_valid" | "principal" | "method" | "target" | "arguments" | "audience" | "round" | "flow_expired" | "replayed" | "ambiguous_arguments"} Reason */

/**
 * A Refusal is returned instead of what was asked for. A client learns of none of
 * the reasons; they are for the log, and for this page.
 */
export class Refusal {
	/** @param {Reason} reason */
	constructor(reason) {
		this.reason = reason;
	}
}

/**
 * A Codec protects a payload. Whatever seal did not return, open refuses.
 * @typedef {object} Codec
 * @property {string} prefix
 * @property {boolean} encrypts
 * @property {(payload: Bytes) => Promise<string>} seal
 * @property {(token: string) => Promise<Bytes | Refusal>} open
 */

const KID = 4;
const NONCE = 12;
const TAG = 16;
const MAC = 32;

/**
 * gcm seals under the first of the keys and opens under each of them.
 * @param {Sealer[]} ring
 * @returns {Codec}
 */
export function gcm(ring) {
	const prefix = "v1.";
	return {
		prefix,
		encrypts: true,
		async seal(payload) {
			const { kid, key } = ring[0];
			const nonce = random(NONCE);
			return prefix + encode(concat(kid, nonce, await encrypt(key, prefix, kid, nonce, payload)));
		},
		async open(token) {
			if (!token.startsWith(prefix)) return new Refusal("malformed");
			const raw = decode(token.slice(prefix.length));
			if (raw === null || raw.length < KID + NONCE + TAG) return new Refusal("malformed");
			const kid = raw.subarray(0, KID);
			const sealer = named(ring, kid);
			if (sealer === undefined) return new Refusal("unknown_key");
			const params = { name: "AES-GCM", iv: raw.subarray(KID, KID + NONCE), additionalData: concat(utf8(prefix), kid) };
			try {
				return new Uint8Array(await crypto.subtle.decrypt(params, sealer.key, raw.subarray(KID + NONCE)));
			} catch (err) {
				// The one way in which it fails for a key that may decrypt.
				if (err instanceof DOMException && err.name === "OperationError") return new Refusal("tampered");
				throw err;
			}
		},
	};
}

/**
 * @param {CryptoKey} key
 * @param {string} prefix
 * @param {Uint8Array} kid
 * @param {Bytes} nonce
 * @param {Bytes} payload
 */
async function encrypt(key, prefix, kid, nonce, payload) {
	const params = { name: "AES-GCM", iv: nonce, additionalData: concat(utf8(prefix), kid) };
	return new Uint8Array(await crypto.subtle.encrypt(params, key, payload));
}

/**
 * hmac signs under the first of the keys and verifies under each of them. The MAC is
 * verified before the payload is looked at.
 * @param {Sealer[]} ring
 * @returns {Codec}
 */
export function hmac(ring) {
	const prefix = "h1.";
	return {
		prefix,
		encrypts: false,
		async seal(payload) {
			const { kid, key } = ring[0];
			const signed = prefix + encode(concat(kid, payload));
			return signed + "." + encode(new Uint8Array(await crypto.subtle.sign("HMAC", key, utf8(signed))));
		},
		async open(token) {
			const [body, mac, more] = token.startsWith(prefix) ? token.slice(prefix.length).split(".") : [];
			if (mac === undefined || more !== undefined) return new Refusal("malformed");
			const raw = decode(body);
			const tag = decode(mac);
			if (raw === null || raw.length < KID || tag === null || tag.length !== MAC) return new Refusal("malformed");
			const sealer = named(ring, raw.subarray(0, KID));
			if (sealer === undefined) return new Refusal("unknown_key");
			const good = await crypto.subtle.verify("HMAC", sealer.key, tag, utf8(prefix + body));
			return good ? raw.subarray(KID) : new Refusal("tampered");
		},
	};
}

/**
 * named finds a key by the id that a token carries, which is no secret.
 * @param {Sealer[]} ring
 * @param {Uint8Array} kid
 */
function named(ring, kid) {
	return ring.find((s) => s.kid.every((b, i) => b === kid[i]));
}

/**
 * plain writes the payload as it is, in base64url, between zeros where key id, nonce
 * and tag would be. It opens whatever still has a payload in it, however it is spelt.
 * @returns {Codec}
 */
export function plain() {
	const prefix = "v1.";
	return {
		prefix,
		encrypts: false,
		seal: async (payload) => prefix + encode(concat(new Uint8Array(KID + NONCE), payload, new Uint8Array(TAG))),
		async open(token) {
			const raw = loose(token.slice(token.lastIndexOf(".") + 1));
			const from = raw.indexOf(0x7b); // {
			const to = raw.lastIndexOf(0x7d); // }
			return from < 0 || to < from ? new Refusal("malformed") : raw.subarray(from, to + 1);
		},
	};
}

/**
 * codecOf is the codec of a format with these keys.
 * @param {"v1" | "h1" | "plain"} format
 * @param {import("./keys.js").Key[]} ring
 */
export function codecOf(format, ring) {
	if (format === "plain") return plain();
	const sealers = ring.map((key) => key[format]);
	return format === "v1" ? gcm(sealers) : hmac(sealers);
}

/**
 * A Part is a piece of a token's text.
 * @typedef {object} Part
 * @property {"prefix" | "key id" | "nonce" | "ciphertext" | "payload" | "tag" | "mac" | "zeros" | "dot"} name
 * @property {string} text
 * @property {number} bytes
 */

/**
 * parts takes a good token apart. A character of base64url may belong to two parts;
 * it is counted to the one that has most of its bits.
 * @param {string} token
 * @param {"v1" | "h1" | "plain"} format
 * @returns {Part[]}
 */
export function parts(token, format) {
	const prefix = token.slice(0, 3);
	const [body, mac] = token.slice(3).split(".");
	const raw = decode(body) ?? new Uint8Array(0);
	/** @type {[Part["name"], number][]} */
	const sizes = {
		v1: /** @type {[Part["name"], number][]} */ ([["key id", KID], ["nonce", NONCE], ["ciphertext", raw.length - KID - NONCE - TAG], ["tag", TAG]]),
		h1: /** @type {[Part["name"], number][]} */ ([["key id", KID], ["payload", raw.length - KID]]),
		plain: /** @type {[Part["name"], number][]} */ ([["zeros", KID + NONCE], ["payload", raw.length - KID - NONCE - TAG], ["zeros", TAG]]),
	}[format];
	/** @type {Part[]} */
	const out = [{ name: "prefix", text: prefix, bytes: prefix.length }];
	let byte = 0;
	let char = 0;
	for (const [name, n] of sizes) {
		byte += n;
		const to = byte === raw.length ? body.length : Math.round((byte * 8) / 6);
		out.push({ name, text: body.slice(char, to), bytes: n });
		char = to;
	}
	if (mac !== undefined) out.push({ name: "dot", text: ".", bytes: 1 }, { name: "mac", text: mac, bytes: MAC });
	return out;
}
