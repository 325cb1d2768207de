// Package foil protects the requestState that an MCP server hands to its client
// and gets back (MCP 2026-07-28, Multi Round-Trip Requests).
//
// A tool that needs a confirmation answers input_required with a requestState.
// The client carries that string and returns it with the person's answers, so
// it passes through an attacker's hands. A [Guard] makes it safe to act on:
// [Guard.Seal] binds the handler's state to the principal, the request, the
// audience, a time and the questions that were asked, and seals it;
// [Guard.Open] accepts it back once, and only where all of that still holds.
//
// Most servers do not call Seal and Open: with the official Go SDK, one line
// installs the package mcpsdk, which does it around every handler.
//
//	guard, err := foil.New(codec, &foil.Options{Audience: "storage", Replay: store})
//	server.AddReceivingMiddleware(mcpsdk.Protect(guard, nil))
//
// A Guard is safe by construction. [New] fails unless it gets a store of spent
// tokens and an audience, or is told by name to do without. A memory store is
// accepted only with keys that die with the process.
//
// How often a state may be presented is [Once]: by default it is spent before the
// handler runs. With [Settle] what became of it is recorded, so that a lost answer
// is told again and a crash leaves nobody guessing; whoever calls Open then calls
// [Opened.Dispatch] before its handler and [Opened.Conclude] after it.
//
// Every failure that a client could have caused matches [ErrInvalid] and looks
// alike to the client ([Wire]); the [Reason] is for logs and metrics.
//
// This package and those it imports depend on the standard library alone.
package foil
