// Package mcpsdk protects the requestState of servers built on the official Go
// SDK, github.com/modelcontextprotocol/go-sdk (MCP 2026-07-28, Multi Round-Trip
// Requests).
//
// One line installs it, once for each server:
//
//	server.AddReceivingMiddleware(mcpsdk.Protect(guard, nil))
//
// From then on a handler of tools/call, prompts/get or resources/read returns
// its InputRequests with a plain RequestState, and finds that state again in
// Params.RequestState on the retry. In between, the client carries a sealed
// token. A handler reads an answer with [Answer], which tells whether it is an
// answer to just the question that the handler would ask now, and finds the
// flow, its round and its claim checks through [Opened].
//
// # What reaches a handler
//
//   - Arguments that two JSON parsers may read differently do not, with or
//     without a state.
//   - A state reaches it opened, in Params.RequestState. A state that fails any
//     check does not; the client gets one frozen error, whatever the cause.
//   - Answers reach it if they were asked for in the round before and are of the
//     kind that was asked for. Answers without a state are stripped, so that the
//     call asks again; see [Options.BareAnswers].
//
// Prompts get their arguments from the SDK as a decoded map of strings. The
// binding covers that map; duplicate keys and lone surrogates in the text that
// the client sent are not visible there. A requestState that is no string is
// refused by the SDK itself, before any middleware.
//
// The SDK decodes the arguments of a typed tool through float64: 9007199254740993
// is bound digit by digit, and may reach the handler as ...992. Take what must be
// exact, such as an identity, as a string, or read Params.Arguments.
//
// # What leaves it
//
// Every result that asks leaves with a sealed state, even if the handler's own
// is empty. A plain state never leaves: one on a result that asks nothing is
// dropped and logged. To be called again without asking anything, return an
// InputRequests that is empty but not nil. Results that ask, and results of a
// request that carried a state or answers, leave marked as not cacheable.
//
// A handler must return a fresh result on each call: the SDK writes into it.
//
// # Who is asking
//
// A state is bound to the login of the request, as auth.RequireBearerToken
// found it: issuer, subject and client, never the bearer token, so that a
// renewed token is the same person. A server without a login names its
// [PrincipalFunc]: [Fixed] on stdio, or [Anonymous]. Without either, a result
// that asks is refused and the log names the option to set.
//
// # Order of middleware
//
// Middleware that a later AddReceivingMiddleware adds runs outside Protect and
// sees sealed tokens; what was added before, or stands after it in the same
// call, runs inside and sees plain states. With NewStreamableHTTPHandler,
// install it when the server is built and not in the getServer function, which
// the SDK calls more than once for a request.
//
// # Clients of older protocols
//
// For a client below protocol 2026-07-28 the SDK asks the questions itself,
// with elicitation/create and its like, and calls the handler again in the same
// process. The state never leaves the process and nothing is sealed or spent.
// That needs a connection on which the server can ask: stdio, or a stateful HTTP
// session. Over stateless HTTP the SDK refuses such a client's call with "client
// does not support elicitation", whatever it declares; and protocol 2026-07-28
// over HTTP needs StreamableHTTPOptions.Stateless, so one endpoint serves either
// new clients or old ones.
// Such a flow has one round of questions; a handler that asks a second time
// gets its client a clear error. [Answer] works in both worlds; [Round.Round]
// stays 0 in this one. A resource that asks must set Contents to an empty slice:
// for these clients the SDK takes nil for a failure before it asks.
package mcpsdk
