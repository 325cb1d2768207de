// Package openbao lets a server keep its keys, its parked payloads and its memory of
// spent tokens in OpenBao, or in HashiCorp Vault, which has the same API.
//
//   - [Ring] is a key ring document in a KV engine (version 2). The codecs of this
//     module seal and open with it locally: no call for each token.
//   - [Transit] is a codec for those who may not have the key in memory: each seal and
//     each open is done by the server, many in one call. [TransitKey] rotates and
//     revokes its key.
//   - [Claims] parks payloads behind response-wrapping tokens, each of which is
//     redeemed once.
//   - [Replay] remembers spent tokens as entries of a KV engine that can be created
//     only once; a [Sweeper] with a role of its own forgets them when their time is over.
//
// All of them share a [Client], which logs in, renews and logs in again.
// [Setup] makes the mounts, keys, policies and AppRoles, each with the least rights
// that its job needs.
//
// # Failures
//
// Every call has a deadline. A call that fails is an error that matches
// [ErrUnavailable] or [ErrDenied] and never foil.ErrInvalid, so that an outage is no
// refusal. What changes nothing is asked for a second time, once, when the answer was
// lost or was a passing failure. What redeems is never asked for again, but for one
// case: the server refused our own token, which it does before it does anything else.
package openbao
