// The server under attack: a few lines that delete what they are told to, after a
// person has agreed. It stands for any MCP server that keeps its state with the client.

import { principal } from "../core/claims.js";
import { Refusal } from "../core/codecs.js";
import { Guard, Opened, Unavailable } from "../core/guard.js";
import { JSONError, fold, members, quote, string } from "../core/json.js";
import { UsedSet } from "../core/used.js";

/** SERVICE is the audience of the server. */
export const SERVICE = "storage";

const ISSUER = "https://login.example";

/** Login is the principal of somebody with this name. */
export const login = (/** @type {string} */ name) => principal("desk-app", ISSUER, name);

/** The cast: a name for people, and who the login says it is. */
export const ALICE = { name: "Alice", principal: login("alice") };
export const BOB = { name: "Bob", principal: principal("phone-app", ISSUER, "bob") };

/** @typedef {{name: string, principal: string | null}} Who */

/**
 * A Call is what a client calls. Arguments are raw JSON, in their order.
 * @typedef {object} Call
 * @property {string} method
 * @property {string} target
 * @property {[string, string][]} args  raw keys and raw values
 */

/** object writes raw members. */
export const object = (/** @type {[string, string][]} */ list) => `{${list.map(([k, v]) => `${k}:${v}`).join(",")}}`;

/**
 * paramsOf are the members that make a call.
 * @param {Call} call
 * @returns {[string, string][]}
 */
export function paramsOf(call) {
	if (call.method === "resources/read") return [['"uri"', quote(call.target)]];
	return [['"name"', quote(call.target)], ['"arguments"', object(call.args)]];
}

/** What the server offers. A place that begins with TWICE is asked about twice. */
export const TWICE = "archive/";
const RESOURCE = "storage://purge/";

/** calls are those on one place. */
export const calls = (place = "logs/") => {
	/** @type {[string, string][]} */
	const args = [['"prefix"', quote(place)], ['"why"', '"quarter end"']];
	return {
		tool: { method: "tools/call", target: "purge", args },
		free: { method: "tools/call", target: "note", args: /** @type {[string, string][]} */ ([['"topic"', '"numbers"']]) },
		prompt: { method: "prompts/get", target: "purge", args },
		otherPrompt: { method: "prompts/get", target: "explain", args },
		resource: { method: "resources/read", target: RESOURCE + place, args: [] },
		otherResource: { method: "resources/read", target: "storage://look/" + place, args: [] },
	};
};

/**
 * A Reply is what the client gets, and why.
 * @typedef {object} Reply
 * @property {"accepted" | "asked-again" | "refused" | "unavailable"} kind
 * @property {string} reason  why it was refused, or asked about again; "" else
 * @property {string} token   the state of a question
 * @property {string} questions
 * @property {string} wire    the JSON-RPC response without its state
 */

/** ask is the question of a step. */
export const ask = (/** @type {number} */ step) => ({
	key: `confirm-${step}`,
	question: `{"method":"elicitation/create","params":{"mode":"form","message":"Delete it? (${step})","requestedSchema":{"type":"object","properties":{}}}}`,
});

const REFUSED = '{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}';
const AMBIGUOUS = '{"code":-32602,"message":"Invalid params","data":{"reason":"ambiguous_arguments"}}';
const INTERNAL = '{"code":-32603,"message":"Internal error","data":{"reason":"request_state_unavailable"}}';

export class Server {
	/**
	 * @param {import("../core/codecs.js").Codec} codec
	 * @param {import("../core/guard.js").Checks} checks
	 * @param {() => number} now seconds
	 */
	constructor(codec, checks, now) {
		this.used = new UsedSet();
		this.guard = new Guard(codec, checks, { audience: SERVICE, now, used: this.used });
		/** How often it has acted. */
		this.acted = 0;
	}

	/**
	 * call answers a request.
	 * @param {string} method
	 * @param {string} params raw JSON
	 * @param {Who} who
	 * @returns {Promise<Reply>}
	 */
	async call(method, params, who) {
		const p = membersOf(params);
		const target = string(p?.get(method === "resources/read" ? "uri" : "name"));
		const state = p?.get("requestState");
		const token = state === undefined || state === "null" ? "" : string(state);
		if (p === null || target === null) return failed("ambiguous_arguments");
		if (token === null) return failed("malformed");
		const req = {
			method, target, args: p.get("arguments") ?? null, principal: who.principal, answers: p.get("inputResponses") ?? null,
		};
		if (token === "") {
			if (this.guard.readable(req) instanceof Refusal) return failed("ambiguous_arguments");
			return this.asks(req, 1);
		}
		const opened = await this.guard.open(req, token);
		if (opened instanceof Refusal) return failed(opened.reason);
		if (opened instanceof Unavailable) return { kind: "unavailable", reason: opened.what, token: "", questions: "", wire: `{"jsonrpc":"2.0","id":1,"error":${INTERNAL}}` };
		return this.handle(req, opened);
	}

	/**
	 * handle is the server's own code: it acts when every question was answered by yes.
	 * @param {import("../core/guard.js").Request} req
	 * @param {Opened} opened
	 * @returns {Promise<Reply>}
	 */
	async handle(req, opened) {
		const state = /^\{"step":([1-9])\}$/.exec(opened.claims.s);
		if (state === null) return { kind: "unavailable", reason: "its own state makes no sense to the server", token: "", questions: "", wire: `{"jsonrpc":"2.0","id":1,"error":${INTERNAL}}` };
		const place = placeOf(req);
		const last = place.startsWith(TWICE) ? 2 : 1;
		for (let step = Number(state[1]); ; step++) {
			const { key, question } = ask(step);
			const a = await opened.answer(key, question);
			if (a.status !== "answered") return this.asks(req, step, opened);
			if (!accepts(a.answer)) return complete("nothing was deleted");
			if (step >= last) break;
		}
		if (acts(req)) this.acted++;
		return complete("deleted");
	}

	/**
	 * asks answers with a question, and leaves the state with the client.
	 * @param {import("../core/guard.js").Request} req
	 * @param {number} step
	 * @param {Opened} [prev]
	 * @returns {Promise<Reply>}
	 */
	async asks(req, step, prev) {
		const { key, question } = ask(step);
		const questions = `{${quote(key)}:${question}}`;
		const token = await this.guard.seal(req, { state: `{"step":${step}}`, questions, prev });
		const reason = prev === undefined ? "no_state" : "not_answered";
		return { kind: "asked-again", reason, token, questions, wire: `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":${questions},"requestState":"…"}}` };
	}
}

/** @param {string} params */
function membersOf(params) {
	try {
		const list = members(params);
		const keys = new Set(list.map((m) => fold(m.key)));
		return keys.size < list.length ? null : new Map(list.map((m) => [m.key, m.raw]));
	} catch (err) {
		if (err instanceof JSONError) return null;
		throw err;
	}
}

/**
 * acts says whether a call deletes something, or only asks.
 * @param {{method: string, target: string}} call
 */
export function acts(call) {
	return call.method === "resources/read" ? call.target.startsWith(RESOURCE) : call.target === "purge";
}

/** @param {import("../core/guard.js").Request} req */
function placeOf(req) {
	if (req.method === "resources/read") return req.target.slice(RESOURCE.length);
	return string(members(req.args ?? "{}").findLast((m) => m.key === "prefix")?.raw) ?? "";
}

/** @param {string} answer raw JSON */
function accepts(answer) {
	return answer[0] === "{" && string(members(answer).findLast((m) => m.key === "action")?.raw) === "accept";
}

/**
 * failed is the one error for every refusal; what was wrong stays with the server.
 * @param {import("../core/codecs.js").Reason} reason
 * @returns {Reply}
 */
function failed(reason) {
	const error = reason === "ambiguous_arguments" ? AMBIGUOUS : REFUSED;
	return { kind: "refused", reason, token: "", questions: "", wire: `{"jsonrpc":"2.0","id":1,"error":${error}}` };
}

/**
 * @param {string} what
 * @returns {Reply}
 */
function complete(what) {
	return { kind: "accepted", reason: "", token: "", questions: "", wire: `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"${what}"}]}}` };
}
