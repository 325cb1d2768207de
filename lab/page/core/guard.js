// The Guard: it binds a state to the request that it answers, and checks on the way
// back what the policy says. Every binding can be switched off; it is minted all the
// same, and not compared.

import { encode, random, concat, decode, same, sha256, text, utf8 } from "./bytes.js";
import { isPrincipal, parse, principalClaim, write } from "./claims.js";
import { Refusal } from "./codecs.js";
import { JSONError, byCodePoint, forms, members, string } from "./json.js";
import { SKEW } from "./used.js";

/** @typedef {import("./bytes.js").Bytes} Bytes */
/** @typedef {import("./claims.js").Claims} Claims */
/** @typedef {import("./codecs.js").Codec} Codec */

/**
 * A Request is what a state is bound to.
 * @typedef {object} Request
 * @property {string} method
 * @property {string} target
 * @property {string | null} args       raw JSON of params.arguments
 * @property {string | null} principal  null: nobody is logged in
 * @property {string | null} answers    raw JSON of params.inputResponses
 */

/**
 * Checks are the bindings that are compared on the way back.
 * @typedef {object} Checks
 * @property {boolean} principal
 * @property {boolean} expiry
 * @property {boolean} request
 * @property {boolean} audience
 * @property {boolean} questions
 * @property {boolean} once
 */

/**
 * Outgoing is what a handler's answer asks to be sealed.
 * @typedef {object} Outgoing
 * @property {string} state
 * @property {string} [questions]  raw JSON of inputRequests
 * @property {Opened} [prev]       the round before
 */

/**
 * Settings of a Guard beside its policy. Times are seconds.
 * @typedef {object} Settings
 * @property {string | null} audience
 * @property {() => number} now
 * @property {import("./used.js").UsedSet} used
 * @property {number} [ttl]
 * @property {number} [flow]       how long a flow may take
 * @property {number} [rounds]     how many times it may ask
 * @property {boolean} [interop]   opens tokens without foil's own claims
 * @property {boolean} [ambiguous] lets duplicate keys pass
 */

export const TTL = 600;
export const FLOW = 3600;
export const ROUNDS = 10;
const MOST = 64 << 10;

/** An Unavailable is a failure of the server's own: the state may be good. */
export class Unavailable {
	/** @param {string} what */
	constructor(what) {
		this.what = what;
	}
}

/** An Opened is a state that passed every check that is switched on. */
export class Opened {
	/**
	 * @param {Claims} claims
	 * @param {Map<string, string>} answers
	 * @param {boolean} compared
	 */
	constructor(claims, answers, compared) {
		this.claims = claims;
		this.answers = answers;
		this.compared = compared;
	}

	/**
	 * answer is the raw answer to a question, or why there is none.
	 * @param {string} key
	 * @param {string} question raw JSON
	 * @returns {Promise<{status: "answered", answer: string} | {status: "missing" | "reworded"}>}
	 */
	async answer(key, question) {
		const answer = this.answers.get(key);
		if (answer === undefined) return { status: "missing" };
		if (!this.compared) return { status: "answered", answer };
		const asked = this.claims.own?.k.get(key);
		if (asked === undefined) return { status: "missing" };
		return asked.slice(1) === (await questionDigest(question)) ? { status: "answered", answer } : { status: "reworded" };
	}
}

export class Guard {
	/**
	 * @param {Codec} codec
	 * @param {Checks} checks
	 * @param {Settings} settings
	 */
	constructor(codec, checks, settings) {
		this.codec = codec;
		this.checks = checks;
		this.o = { ttl: TTL, flow: FLOW, rounds: ROUNDS, interop: false, ambiguous: false, ...settings };
	}

	/**
	 * seal binds a state to a request and returns the token.
	 * @param {Request} req
	 * @param {Outgoing} out
	 */
	async seal(req, out) {
		return this.codec.seal(utf8(write(await this.mint(req, out))));
	}

	/**
	 * mint makes the claims of a token.
	 * @param {Request} req
	 * @param {Outgoing} out
	 * @returns {Promise<Claims>}
	 */
	async mint(req, out) {
		const ms = Math.floor(this.o.now() * 1000); // more would be read by nobody
		const read = this.readable(req);
		if (read instanceof Refusal) throw new Error("arguments that can be read in two ways are not sealed");
		const { python, exact } = await sums(read);
		const prev = out.prev?.claims.own;
		return {
			iat: ms / 1000, exp: (ms + this.o.ttl * 1000) / 1000,
			m: req.method, t: req.target, a: python.slice(0, 16), s: out.state,
			aud: this.o.audience, p: req.principal === null ? null : await principalClaim(req.principal),
			own: {
				ax: exact, jti: timed(ms / 1000), fid: prev?.fid ?? random(16), rnd: (prev?.rnd ?? 0) + 1,
				dl: prev?.dl ?? (ms + this.o.flow * 1000) / 1000, k: await asked(out.questions ?? "{}"),
			},
		};
	}

	/**
	 * open accepts a token that is presented with a request, spends it if the policy
	 * says so, and returns what it holds. Spending comes last, so that nothing that is
	 * refused spends anything.
	 * @param {Request} req
	 * @param {string} token
	 * @returns {Promise<Opened | Refusal | Unavailable>}
	 */
	async open(req, token) {
		const opened = await this.verify(req, token);
		if (opened instanceof Refusal || !this.checks.once || opened.claims.own === null) return opened;
		const { own, exp } = opened.claims;
		switch (this.o.used.use(encode(own.jti), exp, this.o.now())) {
			case "first": return opened;
			case "spent": return new Refusal("replayed");
			case "swept": return new Unavailable("the used-set may have forgotten so old a token");
			case "full": return new Unavailable("the used-set is full");
		}
	}

	/**
	 * verify makes every check but single use, in foil's order.
	 * @param {Request} req
	 * @param {string} token
	 * @returns {Promise<Opened | Refusal>}
	 */
	async verify(req, token) {
		if (token.length > MOST || (token.length * 3 > MOST && utf8(token).length > MOST)) return new Refusal("too_large");
		const read = this.readable(req);
		const answers = readAnswers(req.answers);
		if (read instanceof Refusal || answers instanceof Refusal) return new Refusal("ambiguous_arguments");
		const payload = await this.codec.open(token);
		if (payload instanceof Refusal) return payload;
		const json = text(payload);
		let claims = json === null ? null : parse(json);
		if (claims === null || (claims.own === null && !this.o.interop)) return new Refusal("malformed");
		const foreign = claims.own === null;
		if (foreign) claims = await adopt(claims, token, this.o.flow);
		const refused = await this.compare(claims, foreign, req, read);
		if (refused !== null) return refused;
		const compared = this.checks.questions && !foreign;
		return new Opened(claims, compared ? wanted(answers, claims) : new Map(answers.map((a) => [a.key, a.raw])), compared);
	}

	/**
	 * compare returns the first reason why a token does not fit a request. Each line
	 * states what is accepted, so that a number that is none refuses.
	 * @param {Claims} c
	 * @param {boolean} foreign
	 * @param {Request} req
	 * @param {import("./json.js").Forms} read  the arguments
	 */
	async compare(c, foreign, req, read) {
		const now = this.o.now();
		const { checks } = this;
		const own = /** @type {import("./claims.js").Own} */ (c.own);
		/** @type {[import("./codecs.js").Reason, boolean, () => boolean | Promise<boolean>][]} */
		const accept = [
			["not_yet_valid", checks.expiry, () => c.iat <= now + SKEW],
			["expired", checks.expiry, () => now < c.exp],
			["method", checks.request, () => c.m === req.method],
			["target", checks.request, () => c.t === req.target],
			["arguments", checks.request, () => fits(c, foreign, read)],
			["audience", checks.audience, () => c.aud === this.o.audience],
			["principal", checks.principal, () => isPrincipal(c.p, req.principal)],
			["round", checks.expiry, () => own.rnd <= this.o.rounds],
			["flow_expired", checks.expiry, () => now < own.dl],
		];
		for (const [reason, on, holds] of accept) {
			if (on && !(await holds())) return new Refusal(reason);
		}
		return null;
	}

	/**
	 * readable reads the arguments in both forms, or refuses what can be read in two ways.
	 * @param {Request} req
	 */
	readable(req) {
		const raw = req.method === "resources/read" ? "" : (req.args ?? "").trim();
		if (raw === "" || raw === "null") return forms("{}");
		if (raw[0] !== "{") return new Refusal("ambiguous_arguments");
		try {
			const f = forms(raw);
			return f.ambiguous && !this.o.ambiguous ? new Refusal("ambiguous_arguments") : f;
		} catch (err) {
			if (err instanceof JSONError) return new Refusal("ambiguous_arguments");
			throw err;
		}
	}
}

/**
 * sums are the digests of the arguments.
 * @param {import("./json.js").Forms} f
 */
async function sums(f) {
	const python = await sha256(utf8(f.python));
	return { python, exact: f.exact === f.python ? python : await sha256(utf8(f.exact)) };
}

/**
 * fits reports whether a token was minted for these arguments.
 * @param {Claims} c
 * @param {boolean} foreign
 * @param {import("./json.js").Forms} read
 */
async function fits(c, foreign, read) {
	const { python, exact } = await sums(read);
	if (!same(c.a, python.subarray(0, 16))) return false;
	return foreign || same(/** @type {import("./claims.js").Own} */ (c.own).ax, exact);
}

/**
 * timed is an identity that begins with the time in milliseconds, so that stores
 * insert nearly in order.
 * @param {number} seconds
 */
function timed(seconds) {
	const id = random(16);
	let ms = Math.round(seconds * 1000);
	for (let i = 5; i >= 0; i--) {
		id[i] = ms % 256;
		ms = Math.floor(ms / 256);
	}
	return id;
}

/**
 * adopt gives a token without foil's claims an identity and a flow.
 * @param {Claims} c
 * @param {string} token
 * @param {number} flow
 */
async function adopt(c, token, flow) {
	const bytes = decode(token.slice(token.indexOf(".") + 1)) ?? utf8(token);
	const id = concat(timed(c.iat).subarray(0, 6), (await sha256(bytes)).subarray(0, 10));
	return { ...c, own: { ax: new Uint8Array(32), jti: id, fid: id, rnd: 1, dl: c.iat + flow, k: new Map() } };
}

/** @param {string} question raw JSON */
async function questionDigest(question) {
	return encode(await sha256(utf8(forms(question).python)));
}

/** @type {Record<string, string>} */
const KINDS = { "elicitation/create": "e", "sampling/createMessage": "s", "roots/list": "r" };

/**
 * asked is the claim k: what each question was, in the order of their keys.
 * @param {string} questions raw JSON
 */
async function asked(questions) {
	/** @type {[string, string][]} */
	const all = [];
	for (const q of members(questions)) {
		const kind = KINDS[string(members(q.raw).find((m) => m.key === "method")?.raw) ?? ""];
		if (kind === undefined) throw new Error("a question has no method that is known");
		all.push([q.key, kind + (await questionDigest(q.raw))]);
	}
	return new Map(all.sort((a, b) => byCodePoint(a[0], b[0])));
}

/**
 * readAnswers lists the answers, or refuses what can be read in two ways.
 * @param {string | null} raw
 */
function readAnswers(raw) {
	if (raw === null || raw === "" || raw === "null") return [];
	try {
		const list = members(raw);
		const keys = new Set(list.map((a) => a.key));
		if (keys.size < list.length || list.some((a) => forms(a.raw).ambiguous)) return new Refusal("ambiguous_arguments");
		return list;
	} catch (err) {
		if (err instanceof JSONError) return new Refusal("ambiguous_arguments");
		throw err;
	}
}

/** @type {Record<string, string>} members that tell what an answer is (MCP 2026-07-28) */
const MARKS = { action: "e", role: "s", roots: "r" };

/**
 * wanted keeps the answers to what was asked, of the kind that was asked for.
 * @param {import("./json.js").Member[]} answers
 * @param {Claims} c
 */
function wanted(answers, c) {
	const kept = answers.filter(({ key, raw }) => {
		const kinds = raw[0] === "{" ? members(raw).flatMap((m) => MARKS[m.key] ?? []) : [];
		return kinds.length === 1 && c.own?.k.get(key)?.[0] === kinds[0];
	});
	return new Map(kept.map((a) => [a.key, a.raw]));
}
