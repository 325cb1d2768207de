// The attacks, in their order. Each says what it does and carries it out; none of
// them knows what should come of it.

import { quote } from "../core/json.js";
import { TTL } from "../core/guard.js";
import { SKEW } from "../core/used.js";
import { YES, answer } from "./bout.js";
import { again, declined, fork, replay } from "./replays.js";
import { BOB, TWICE, calls, login, paramsOf } from "./server.js";
import { aliases, cuts, flips, forgeries, hasSpare, otherPrefixes, payloadOf } from "./spellings.js";

/** @typedef {import("./bout.js").Bout} Bout */
/** @typedef {import("./bout.js").Flow} Flow */
/** @typedef {import("./server.js").Call} Call */

/**
 * A Row is one attack, or something honest that must pass.
 * @typedef {object} Row
 * @property {string} name
 * @property {string} does
 * @property {string} why       what it would mean if it got through
 * @property {boolean} [honest]
 * @property {(b: Bout) => Promise<string>} run  returns the verdict
 */

/**
 * good is what the verdict must be where everything is on.
 * @param {Row} row
 * @param {string} verdict
 */
export function good(row, verdict) {
	if (row.honest) return verdict === "accepted";
	return ["refused", "asked-again", "1 of 5"].includes(verdict);
}

/** near are names that a careless comparison takes for the same. */
const near = (/** @type {string} */ s) => [s.slice(0, -1), s + "2", s.toUpperCase(), " " + s, s + " "];

/**
 * minted presents a token that was minted with a difference.
 * @param {Bout} b
 * @param {string} what
 * @param {import("./bout.js").Minting} how
 */
const minted = (b, what, how) => async () => {
	const f = await b.begin();
	return b.alone(f, { what, token: await b.mint(f, how) });
};

/**
 * changed presents the retry of one call as another, or in another form.
 * @param {Bout} b
 * @param {string} what
 * @param {Call} from
 * @param {Partial<import("./bout.js").Retry>} to
 */
const changed = (b, what, from, to) => async () => b.alone(await b.begin(from), { what, ...to });

/**
 * free is the tool that takes further arguments, with these.
 * @param {...[string, string]} more
 * @returns {Call}
 */
const free = (...more) => ({ ...calls().free, args: [...calls().free.args, ...more] });

/**
 * withArg is a call with one argument in place of another.
 * @param {Call} call
 * @param {string} key
 * @param {string} value
 * @returns {Call}
 */
const withArg = (call, key, value) => ({ ...call, args: call.args.map(([k, v]) => (k === key ? [k, value] : [k, v])) });

/** NUMBERS are pairs that some parsers take for equal. */
const NUMBERS = [
	["9007199254740992", "9007199254740993"], ["1.0", "1"], ["1", "1.0"], ["1", "1e0"], ["9007199254740992.0", "9007199254740993.0"],
	["1e400", "1e999"], ["0.1", "0.1000000000000000055511151231257827"], ["0", "-0.0"], ["1", "true"], ["1", '"1"'],
];

/** @type {Row[]} */
export const ROWS = [
	{
		name: "honest", does: "Nothing: Alice agrees, and her client sends the retry as it should.", why: "", honest: true,
		run: async (b) => b.honestly([{ what: "the honest retry" }]),
	},
	{
		name: "key-order", does: "Nothing: the same arguments, their members in another order.", why: "", honest: true,
		run: async (b) => {
			const { tool } = calls();
			const nested = free(['"nested"', '{"y":1,"x":[{"q":2,"p":null}]}']);
			return b.honestly([
				{ what: "the arguments reversed", call: { ...tool, args: tool.args.toReversed() } },
				{ what: "the params reversed", reversed: true },
				{ what: "nested objects reversed", from: nested, call: free(['"nested"', '{"x":[{"p":null,"q":2}],"y":1}']) },
			]);
		},
	},
	{
		name: "tamper-each-part", does: "Flips a bit of each character: prefix, key id, nonce, body, tag.", why: "Whatever the server wrote into its state, the client could have written.",
		run: async (b) => {
			const f = await b.begin();
			return b.tokens(f, flips(f.token, b.bench.everyBit ?? false, b.bench.stride ?? 1));
		},
	},
	{
		name: "truncate", does: "Cuts the token at every length, from either end.", why: "A server that reads what is left reads another state.",
		run: async (b) => {
			const f = await b.begin();
			return b.tokens(f, cuts(f.token, b.bench.stride ?? 1));
		},
	},
	{
		name: "alias-spelling", does: "Spells the same token in another way: padding, white space, stray bits, escapes.", why: "One token with two spellings is two tokens to whoever remembers texts.",
		run: async (b) => {
			const f = await loose(b);
			return b.tokens(f, aliases(f.token));
		},
	},
	{
		name: "forge-unkeyed", does: "Makes a token of its own without the key: plain, alg none, zeros, weak keys.", why: "The client says what was agreed to, and by whom.",
		run: async (b) => {
			const f = await b.begin();
			return b.tokens(f, await forgeries(f.token, await payloadOf(b.codec, f.token)));
		},
	},
	{
		name: "version-swap", does: "Puts another version or format in front of the token.", why: "Old and weaker formats come back to life.",
		run: async (b) => {
			const f = await b.begin();
			return b.tokens(f, otherPrefixes(f.token));
		},
	},
	{
		name: "other-user", does: "Bob presents Alice's token; Alice one of somebody of nearly her name.", why: "Bob acts on what Alice agreed to.",
		run: async (b) => b.each([
			changed(b, "Bob, with Alice's token", calls().tool, { who: BOB }),
			changed(b, "nobody, with Alice's token", calls().tool, { who: { name: "nobody", principal: null } }),
			minted(b, "Alice, with nobody's token", { principal: null }),
			...near("alice").map((name) => minted(b, `Alice, with the token of "${name}"`, { principal: login(name) })),
		]),
	},
	{
		name: "late", does: "Presents the token at the very moment it expires, and after.", why: "An old yes counts for ever.",
		run: async (b) => {
			const aged = (/** @type {number} */ s) => ({ at: b.bench.now() - TTL - s });
			const before = await minted(b, "half a minute before it expires", aged(-30))();
			if (before !== "accepted") return `before it expires: ${before}`;
			return b.each([minted(b, "at that very moment", aged(0)), minted(b, "a second after", aged(1)), minted(b, "a day after", aged(86400))]);
		},
	},
	{
		name: "from-the-future", does: "Presents a token that says it was minted later than clocks may differ.", why: "A broken clock, or a key used elsewhere, mints tokens that outlive the rule.",
		run: async (b) => {
			const ahead = (/** @type {number} */ s) => ({ at: b.bench.now() + s });
			const near = await minted(b, "59 seconds ahead", ahead(SKEW - 1))();
			if (near !== "accepted") return `within the skew: ${near}`;
			return b.each([minted(b, "61 seconds ahead", ahead(SKEW + 1)), minted(b, "a day ahead", ahead(86400))]);
		},
	},
	{
		name: "other-method", does: "Takes the tool's token to the prompt or resource of the same name.", why: "A yes to one kind of request counts for another.",
		run: async (b) => {
			const c = calls();
			return b.each([
				changed(b, "the tool's token on the prompt of its name", c.tool, { call: c.prompt }),
				changed(b, "the prompt's token on the tool of its name", c.prompt, { call: c.tool }),
				changed(b, "the tool's token on a resource", c.tool, { call: c.resource }),
				changed(b, "a resource's token on a tool", c.resource, { call: c.free }),
			]);
		},
	},
	{
		name: "other-target", does: "Takes the token to another tool, prompt or resource.", why: "A yes to looking counts for deleting.",
		run: async (b) => {
			const c = calls();
			const other = { ...c.free, args: c.tool.args };
			return b.each([
				changed(b, "another tool with the same arguments", c.tool, { call: other }),
				changed(b, "another prompt", c.prompt, { call: c.otherPrompt }),
				changed(b, "another uri", c.resource, { call: c.otherResource }),
				changed(b, "another uri, the right one as a stray name", c.resource, { call: c.otherResource, params: [...paramsOf(c.otherResource), ['"name"', quote(c.resource.target)]] }),
				changed(b, "another tool, the right one as a stray uri", c.tool, { call: other, params: [...paramsOf(other), ['"uri"', '"purge"']] }),
			]);
		},
	},
	{
		name: "changed-argument", does: "Changes one argument after Alice has agreed.", why: "She agreed to logs/, and secrets/ is gone.",
		run: async (b) => {
			const { tool } = calls();
			const x = (/** @type {string} */ v) => free(['"x"', v]);
			return b.each([
				changed(b, "another prefix", tool, { call: withArg(tool, '"prefix"', '"secrets/"') }),
				changed(b, "one argument more", tool, { call: { ...tool, args: [...tool.args, ['"also"', '"secrets/"']] } }),
				changed(b, "a nested value", x('{"a":[1,{"b":true}]}'), { call: x('{"a":[1,{"b":false}]}') }),
				changed(b, "the order of an array", x("[1,2]"), { call: x("[2,1]") }),
				changed(b, "the case of a string", x('"logs"'), { call: x('"Logs"') }),
			]);
		},
	},
	{
		name: "number-games", does: "Changes a number to one that many parsers take for the same.", why: "A parser that counts in floats cannot tell 9007199254740993 from …992, and deletes the wrong record.",
		run: async (b) => b.each(NUMBERS.map(([was, is]) => changed(b, `${is} for ${was}`, free(['"n"', was]), { call: free(['"n"', is]) }))),
	},
	{
		name: "other-service", does: "Presents a token that another service minted under the same keys.", why: "A yes to a harmless service counts at this one.",
		run: async (b) => b.each(["another-service", "storage-2", "Storage"].map((audience) => minted(b, `a token of "${audience}"`, { audience }))),
	},
	{
		name: "pre-answered", does: "Answers the second question along with the first, before it was asked.", why: "Alice never saw the question that she is said to have answered.",
		run: preAnswered,
	},
	{ name: "replay-5", does: "Sends the same good request five times, unchanged.", why: "Every check is right each time. A right signature does not say that it is the first time.", run: replay },
	{ name: "replay-alias", does: "Presents a spent token again in other spellings.", why: "Whoever remembers texts of tokens, and not what is inside, can be made to forget.", run: again },
	{ name: "decline-then-accept", does: "Alice declines; then her client presents the same token, accepting.", why: "A no is only worth something if it ends the matter.", run: declined },
	{ name: "fork", does: "Presents the first round again after the second has begun.", why: "One approval, two branches, two deletions.", run: fork },
	{
		name: "no-state", does: "Sends answers and no state at all.", why: "The server believes in a question that it never asked.",
		run: async (b) => b.each([null, '""', "null"].map((state) => async () => {
			const f = await b.begin();
			const kind = await b.alone(f, { what: state === null ? "no requestState" : `requestState is ${state}`, state });
			return f.server.acted > 0 ? "accepted" : kind;
		})),
	},
];

/**
 * loose is a flow whose token ends in stray bits.
 * @param {Bout} b
 */
async function loose(b) {
	let f = await b.begin();
	for (const call of Object.values(calls())) {
		if (hasSpare(f.token)) break;
		f = await b.begin(call);
	}
	return f;
}

/** @param {Bout} b */
async function preAnswered(b) {
	const f = await b.begin(calls(TWICE).tool);
	const both = `{"confirm-1":${YES},"confirm-2":${YES}}`;
	const reply = await b.present(f, { what: "both answers at once", answers: both });
	if (reply.kind !== "asked-again") return reply.kind;
	if (f.server.acted > 0) return "asked-again, but it acted";
	const end = await b.present(f, { what: "then the second answer, to the second question", token: reply.token, answers: answer(2, YES) });
	return end.kind === "accepted" && f.server.acted === 1 ? "asked-again" : `asked-again, and then: ${end.kind}`;
}

