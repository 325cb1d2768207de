// Package attack is the battery: the attacks on an MCP server's request state
// (MCP 2026-07-28, Multi Round-Trip Requests), each a named value that says what
// the attacker does to an honest retry, what must happen, and which layer stops
// it. It is written once and run through every door.
//
// [Battery] lists the attacks. [Run] carries them out on a server that it knows
// only by three seams: a [Door] takes requests to it, an [App] sets up something
// to act on and counts what was done, and a [Minter] mints tokens that no honest
// server would, with the server's own keys.
//
// So that an attack cannot look refused by accident, the attacker always sends a
// complete honest retry, changed in the one way that the attack is about; and
// after a refusal the unchanged retry must still work, since a refused
// presentation spends nothing.
//
// The keys and logins in this package are for tests and demonstrations.
package attack
