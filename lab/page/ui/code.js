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
		lines.push("// foil has no switch for this one: a state without integrity is the client's to write.");
	}
	lines.push(
		`codec, err := ${format === "v1" ? "aesgcm" : "signed"}.New(keys, nil) // keys: a keyring.Refresher`,
		"if err != nil {", "\treturn err", "}",
		"guard, err := foil.New(codec, &foil.Options{",
		'\tAudience: "storage", // the service, the same on every replica',
	);
	if (policy.once) lines.push("\tReplay:   store.Replay(), // sqlite, postgres or redis: shared by every replica");
	else lines.push("\tOnce:     foil.Off, // the same state may be presented until it expires");
	if (without.length > 0) lines.push(`\tWithout:  ${without.join(" | ")}, // minted, and not compared`);
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
	const lines = notes.map((n) => `# ${n}`);
	lines.push(
		"security = RequestStateSecurity(",
		'    keys=[bytes.fromhex(os.environ["REQUEST_STATE_KEY"])],  # 32 random bytes; the first one seals',
		`    ttl=${policy.expiry ? "600.0" : "86400.0"},`,
	);
	if (policy.audience) lines.push('    audience="storage",');
	if (!policy.principal) lines.push("    bind_principal=None,");
	lines.push(")", 'mcp = MCPServer("storage", request_state_security=security)');
	return ["import os", "", "from mcp.server.mcpserver import MCPServer", "from mcp.server.request_state import RequestStateSecurity", "", ...lines].join("\n") + "\n";
}
