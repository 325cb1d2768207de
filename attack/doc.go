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
// # In every round
//
// A server may hold the first round of a flow to more than the others. So every
// form of an attack that is refused is presented again as a token of the second and
// of the last round, the attacks on single use and on answers are played in the
// second round and in the first, and one attack takes a token that the server itself
// made for a second round.
//
// # Under Settle
//
// Where the server settles ([foil.Settle]) a token that is presented again with
// the same answers gets its recorded outcome. The verdict is then "recorded": the
// reply is the result of the first presentation, byte for byte but for the
// JSON-RPC id and the state of a question, which is sealed anew; and nothing was
// done again. Of n presentations of one token one is carried out and the others
// are "recorded x4", "recorded x63". Who is told that the operation is in
// progress asks again, and must get the outcome. Whatever is refused must stay
// refused once there is an outcome to be told.
//
// The keys and logins in this package are for tests and demonstrations.
package attack
