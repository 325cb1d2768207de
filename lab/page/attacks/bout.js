// A bout is one attack being carried out: it asks the server honestly, changes the
// retry in the one way that the attack is about, and notes what came of each form.

import { codecOf } from "../core/codecs.js";
import { FLOW, Guard } from "../core/guard.js";
import { quote } from "../core/json.js";
import { UsedSet } from "../core/used.js";
import { ALICE, SERVICE, Server, acts, calls, object, paramsOf } from "./server.js";

/** @typedef {import("./server.js").Call} Call */
/** @typedef {import("./server.js").Who} Who */
/** @typedef {import("./server.js").Reply} Reply */

/**
 * A Policy is which switches are on.
 * @typedef {import("../core/guard.js").Checks & {integrity: boolean}} Policy
 */

/**
 * A Bench is what attacks are carried out with.
 * @typedef {object} Bench
 * @property {import("../core/keys.js").Key} key      the key in force
 * @property {import("../core/keys.js").Format} format  with integrity on
 * @property {() => number} now                       seconds
 * @property {boolean} [everyBit]                     flip each bit, not one of each character
 * @property {number} [stride]                        try one of so many characters and lengths; 1 in the page
 */

/**
 * A Form is one way in which the attack was tried.
 * @typedef {object} Form
 * @property {string} what
 * @property {Reply["kind"]} kind
 * @property {string} reason
 * @property {string} wire
 * @property {string} request  the JSON-RPC request
 * @property {string} token
 * @property {string} who
 * @property {number} at       milliseconds since the bout began
 * @property {number} took     milliseconds
 * @property {number} [char]   which character of the token was changed
 */

/**
 * A Flow is an honest flow after its first question.
 * @typedef {object} Flow
 * @property {Server} server
 * @property {Call} call
 * @property {Who} who
 * @property {string} token
 * @property {string} questions
 */

/**
 * A Retry is a presentation. What is left out is as in the honest one.
 * @typedef {object} Retry
 * @property {string} what
 * @property {string} [token]
 * @property {Call} [call]
 * @property {[string, string][]} [params]  the members that make the call
 * @property {string} [answers]             raw JSON
 * @property {string | null} [state]        raw JSON of requestState; null: no such member
 * @property {Who} [who]
 * @property {boolean} [reversed]           the members of params in reverse
 * @property {number} [char]
 */

/**
 * A Minting says how a token differs from one that the server would mint now.
 * @typedef {object} Minting
 * @property {number} [at]        when it is minted
 * @property {string} [audience]
 * @property {string | null} [principal]
 * @property {Call} [call]
 */

/** AT_ONCE is how many tries are on their way at a time. */
const AT_ONCE = 12;

export const YES = '{"action":"accept","content":{}}';
export const NO = '{"action":"decline"}';

/** answer is the raw inputResponses to one question. */
export const answer = (/** @type {number} */ step, /** @type {string} */ action) => `{"confirm-${step}":${action}}`;

export class Bout {
	/**
	 * @param {Bench} bench
	 * @param {Policy} policy
	 */
	constructor(bench, policy) {
		this.bench = bench;
		this.policy = policy;
		this.format = /** @type {"v1" | "h1" | "plain"} */ (policy.integrity ? bench.format : "plain");
		this.mints = 0;
		this.opens = 0;
		this.codec = this.counting(codecOf(this.format, [bench.key]));
		/** @type {Form[]} */
		this.forms = [];
		/** @type {string[]} */
		this.notes = [];
		this.began = performance.now();
	}

	/**
	 * counting is a codec that counts.
	 * @param {import("../core/codecs.js").Codec} codec
	 * @returns {import("../core/codecs.js").Codec}
	 */
	counting(codec) {
		return {
			...codec,
			seal: (payload) => {
				this.mints++;
				return codec.seal(payload);
			},
			open: (token) => {
				this.opens++;
				return codec.open(token);
			},
		};
	}

	/** server is a new one with the same keys, which has seen no token yet. */
	server() {
		return new Server(this.codec, this.policy, this.bench.now);
	}

	/**
	 * begin makes a call for the first time.
	 * @param {Call} [call]
	 * @param {Who} [who]
	 * @returns {Promise<Flow>}
	 */
	async begin(call = calls().tool, who = ALICE) {
		const server = this.server();
		const r = await server.call(call.method, object(paramsOf(call)), who);
		if (r.kind !== "asked-again") throw new Error(`an honest call was not answered by a question, but: ${r.kind}`);
		return { server, call, who, token: r.token, questions: r.questions };
	}

	/**
	 * present sends a retry, to the flow's own server or to another one, and notes what
	 * came of it.
	 * @param {Flow} f
	 * @param {Retry} r
	 * @param {Server} [server]
	 * @returns {Promise<Reply>}
	 */
	async present(f, r, server = f.server) {
		const at = performance.now();
		const { method, text, who, token } = this.request(f, r);
		const reply = await server.call(method, text, who);
		this.forms.push({
			what: r.what, kind: reply.kind, reason: reply.reason, wire: reply.wire, token, who: who.name, char: r.char,
			request: `{"jsonrpc":"2.0","id":2,"method":${quote(method)},"params":${text}}`,
			at: at - this.began, took: performance.now() - at,
		});
		return reply;
	}

	/**
	 * request is a retry as it travels.
	 * @param {Flow} f
	 * @param {Retry} r
	 */
	request(f, r) {
		const call = r.call ?? f.call;
		const token = r.token ?? f.token;
		const params = [...(r.params ?? paramsOf(call)), ['"inputResponses"', r.answers ?? answer(1, YES)]];
		if (r.state !== null) params.push(['"requestState"', r.state ?? JSON.stringify(token)]);
		if (r.reversed) params.reverse();
		return { method: call.method, text: object(/** @type {[string, string][]} */ (params)), who: r.who ?? f.who, token };
	}

	/**
	 * mint is a token for a flow, with what an honest server would not do.
	 * @param {Flow} f
	 * @param {Minting} how
	 */
	async mint(f, how) {
		const call = how.call ?? f.call;
		const guard = new Guard(this.codec, this.policy, {
			audience: how.audience ?? SERVICE, now: () => how.at ?? this.bench.now(), used: new UsedSet(), flow: FLOW,
		});
		const principal = how.principal === undefined ? f.who.principal : how.principal;
		const req = { method: call.method, target: call.target, args: object(call.args), principal, answers: null };
		return guard.seal(req, { state: '{"step":1}', questions: f.questions });
	}

	/**
	 * honest is the retry as it should be. It must be accepted and act once.
	 * @param {Flow} f
	 */
	async honest(f) {
		const { method, text, who } = this.request(f, { what: "the honest retry" });
		const reply = await f.server.call(method, text, who);
		if (reply.kind !== "accepted") return reply.kind;
		return f.server.acted === (acts(f.call) ? 1 : 0) ? "accepted" : `accepted, but it acted ${f.server.acted} times`;
	}

	/**
	 * honestly plays retries that must pass, each on a flow of its own.
	 * @param {(Retry & {from?: Call})[]} retries
	 */
	async honestly(retries) {
		for (const r of retries) {
			const f = await this.begin(r.from);
			const reply = await this.present(f, r);
			if (reply.kind !== "accepted") return reply.kind;
			if (f.server.acted !== (acts(f.call) ? 1 : 0)) return `accepted, but it acted ${f.server.acted} times`;
		}
		return "accepted";
	}

	/**
	 * alone plays a variant on a flow of its own. What is refused must have done
	 * nothing and spent nothing.
	 * @param {Flow} f
	 * @param {Retry} r
	 */
	async alone(f, r) {
		const acted = f.server.acted;
		const reply = await this.present(f, r);
		if (reply.kind === "accepted" || r.state === null) return reply.kind;
		if (f.server.acted !== acted) return `${reply.kind}, but it acted`;
		if (reply.kind === "refused") {
			const after = await this.honest(f);
			if (after !== "accepted") return `refused, but then the honest retry: ${after}`;
		}
		return reply.kind;
	}

	/**
	 * each plays variants at once. One that gets through decides.
	 * @param {(() => Promise<string>)[]} variants
	 */
	async each(variants) {
		return worst(await Promise.all(variants.map((play) => play())));
	}

	/**
	 * tokens presents other texts for a flow's token, each to a server that has not
	 * seen the token, so that none of them is refused only since another was accepted.
	 * @param {Flow} f
	 * @param {Iterable<{what: string, token: string, char?: number}>} texts
	 */
	async tokens(f, texts) {
		const left = [...texts].filter((t) => t.token !== f.token);
		const last = left.at(-1) ?? null;
		/** @type {string[]} */
		const kinds = [];
		let next = 0;
		const work = async () => {
			while (next < left.length) kinds.push((await this.present(f, left[next++], this.server())).kind);
		};
		await Promise.all(Array.from({ length: AT_ONCE }, work));
		const verdict = worst(kinds);
		if (verdict !== "refused" || last === null) return verdict;
		// Refused by the very server that waits for the honest retry, it spends nothing.
		const { method, text, who } = this.request(f, last);
		await f.server.call(method, text, who);
		const after = await this.honest(f);
		return after === "accepted" ? verdict : `refused, but then the honest retry: ${after}`;
	}
}

/**
 * worst is the verdict that counts where forms of an attack ended differently.
 * @param {string[]} verdicts
 */
export function worst(verdicts) {
	if (verdicts.length === 0) return "nothing was tried";
	const odd = verdicts.find((v) => !["accepted", "asked-again", "refused", "unavailable"].includes(v));
	if (odd !== undefined) return odd;
	for (const v of ["accepted", "asked-again", "unavailable"]) if (verdicts.includes(v)) return v;
	return "refused";
}
