// Package soak holds a test and no code: a fleet of replicas, each a process of its
// own, follows one key ring, in a file and in OpenBao, while it is rotated every few
// seconds, sources go away and replicas are killed. Flows go on all the time: what one
// replica seals, others open at once, and again just before it expires.
//
// No honest retry may be refused; an outage that is too long must be told by /readyz
// and by a metric before the first refusal that it causes; and a revoked key must be
// refused everywhere, by who follows the ring at the next refresh, and by who is cut
// off from it when its MaxStale is over.
//
// A short version runs in every test run. For long, and with tighter times, it runs
// with FOIL_SOAK=10m, and make soak. What it must hold is in docs/rotation.md.
package soak
