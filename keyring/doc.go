// Package keyring holds the keys that seal and open tokens, and the schedule by
// which a fleet changes them without refusing an honest retry.
//
// A [Ring] is one immutable document. The clock alone says what each of its keys
// does: a key opens from the moment a replica knows it until its open_until, and
// the key that seals is the one with the greatest seal_from that is not in the
// future. A rotation is therefore a single write ([Ring.Rotate]) that every
// replica follows by itself, in any order and without a reload: the pre-publish
// rollover of RFC 7583, section 2.
//
// A [Store] keeps the document ([ParseSource], [OpenFile]); a [Refresher] gives a
// running process the ring as of now; codecs take a [Current] and reach key
// material only through [Key.Derive].
//
// Interop rings are shared with replicas that read their keys once, at start, and
// that do not enforce the claims single use and flow limits rest on. Their keys
// move by hand: [Ring.Stage], [Ring.Activate], [Ring.Retire].
//
// Storage rings seal what stores keep, with package atrest, and no tokens. Their
// keys open until they are taken out: [Ring.Drop].
//
// Secrets never appear in errors, logs or any printed form of a Key or a Ring.
package keyring
