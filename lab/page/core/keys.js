// Keys. A session key is 32 random bytes that become two CryptoKeys, which no script
// can read out, and are then wiped. It is kept nowhere but in this page's memory.

import { concat, random, sha256, utf8 } from "./bytes.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */
/** @typedef {"v1" | "h1"} Format */

/**
 * A Sealer is the key of one format, and the id that its tokens carry.
 * @typedef {{kid: Bytes, key: CryptoKey}} Sealer
 */

/**
 * A Key seals and opens in either format.
 * @typedef {Record<Format, Sealer>} Key
 */

const FORMATS = {
	v1: {
		info: "mcp/request-state/v1/aes-256-gcm", label: "mcp/request-state/v1/kid:",
		ready: (/** @type {Bytes} */ k) => crypto.subtle.importKey("raw", k, "AES-GCM", false, ["encrypt", "decrypt"]),
	},
	h1: {
		info: "foil/request-state/h1/hmac-sha-256", label: "foil/request-state/h1/kid:",
		ready: (/** @type {Bytes} */ k) => crypto.subtle.importKey("raw", k, { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]),
	},
};

/** MIN_SECRET is how many bytes a secret has at least. */
export const MIN_SECRET = 32;

/**
 * generate makes a key that nobody knows and nobody can read out.
 * @returns {Promise<Key>}
 */
export async function generate() {
	const secret = random(MIN_SECRET);
	try {
		return await fromSecret(secret);
	} finally {
		secret.fill(0);
	}
}

/**
 * fromSecret derives the keys of a secret. The id of a key is a hash of its bytes, so
 * they are seen for a moment: the key that derives them is dropped, and they are
 * wiped. What is returned can seal and open, and tells nothing.
 * @param {Bytes} secret
 * @returns {Promise<Key>}
 */
export async function fromSecret(secret) {
	const base = await crypto.subtle.importKey("raw", secret, "HKDF", false, ["deriveBits"]);
	return { v1: await derive(base, "v1"), h1: await derive(base, "h1") };
}

/**
 * @param {CryptoKey} base
 * @param {Format} format
 * @returns {Promise<Sealer>}
 */
async function derive(base, format) {
	const of = FORMATS[format];
	const params = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(0), info: utf8(of.info) };
	const k = new Uint8Array(await crypto.subtle.deriveBits(params, base, 256));
	try {
		return await ready(format, k);
	} finally {
		k.fill(0);
	}
}

/**
 * ready makes a sealer of a derived key. Attacks use it, too, for keys that no secret
 * leads to.
 * @param {Format} format
 * @param {Bytes} k 32 bytes
 * @returns {Promise<Sealer>}
 */
export async function ready(format, k) {
	const of = FORMATS[format];
	const kid = (await sha256(concat(utf8(of.label), k))).slice(0, 4);
	return { kid, key: await of.ready(k) };
}
