// The chosen policy as code, for a server in Go and for one in Python.

/** @typedef {import("./state.js").Choice} Choice */

const GO = /** @type {const} */ ({
	principal: "foil.BindPrincipal", expiry: "foil.BindExpiry", request: "foil.BindRequest", audience: "foil.BindAudience", questions: "foil.BindQuestions",
});

/**
 * goCode is the policy for the middleware of the official Go SDK.
 * @param {Choice} c
 */
export function goCode({ policy, format }) {
	const without = /** @type {(keyof typeof GO)[]} */ (Object.keys(GO)).filter((n) => !policy[n]).map((n) => GO[n]);
	const lines = [];
	if (!policy.integrity) {
		lines.push("// foil has no switch for integrity: a state without it is", "// whatever the client writes.");
	}
	lines.push(
		"// keys is a keyring.Refresher, store one of store/sqlite,", "// store/postgres or store/redis that every replica shares.",
		`codec, err := ${format === "v1" ? "aesgcm" : "signed"}.New(keys, nil)`,
		"if err != nil {", "\treturn err", "}",
		"guard, err := foil.New(codec, &foil.Options{",
		"\t// The service, the same on every replica.", '\tAudience: "storage",',
	);
	if (policy.once) lines.push("\tReplay:   store.Replay(),");
	else lines.push("\t// The same state may be presented until it expires.", "\tOnce: foil.Off,");
	if (without.length > 0) lines.push("\t// Minted, and not compared.", `\tWithout: ${without.join(" |\n\t\t")},`);
	lines.push("})", "if err != nil {", "\treturn err", "}", "server.AddReceivingMiddleware(mcpsdk.Protect(guard, nil))");
	return lines.join("\n") + "\n";
}

/**
 * pythonCode is what of it the Python SDK can do, and what it cannot in comments.
 * @param {Choice} c
 */
export function pythonCode({ policy, format }) {
	const notes = [];
	if (!policy.integrity) notes.push("Integrity cannot be switched off: RequestStateSecurity always seals.");
	if (format === "h1") notes.push("It seals with AES-GCM; an HMAC format would be a codec of your own.");
	if (!policy.expiry) notes.push("Expiry cannot be switched off here; a long ttl comes near to it.");
	if (!policy.request) notes.push("Method, target and arguments are always compared.");
	if (!policy.audience) notes.push("Without an audience MCPServer takes its own name for it.");
	if (policy.questions) notes.push("It does not record the questions: compare in the handler what was asked with what you would ask now.");
	if (policy.once) notes.push("It is not single use: a good state is accepted until it expires, so the handler must redeem what it acts on.");
	const lines = notes.flatMap(comment);
	lines.push(
		"security = RequestStateSecurity(",
		"    # 32 random bytes or more; the first key seals.", '    keys=[bytes.fromhex(os.environ["REQUEST_STATE_KEY"])],',
		`    ttl=${policy.expiry ? "600.0" : "86400.0"},`,
	);
	if (policy.audience) lines.push('    audience="storage",');
	if (!policy.principal) lines.push("    bind_principal=None,");
	lines.push(")", 'mcp = MCPServer("storage", request_state_security=security)');
	return ["import os", "", "from mcp.server.mcpserver import MCPServer", "from mcp.server.request_state import RequestStateSecurity", "", ...lines].join("\n") + "\n";
}

/**
 * comment wraps a sentence.
 * @param {string} sentence
 */
function comment(sentence) {
	const lines = ["#"];
	for (const word of sentence.split(" ")) {
		if (lines[lines.length - 1].length + word.length > 62) lines.push("#");
		lines[lines.length - 1] += " " + word;
	}
	return lines;
}
