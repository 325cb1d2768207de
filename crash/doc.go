// Package crash holds tests and no code: processes are killed and stopped at every
// point of an operation's life, connections and store servers are cut off, and what
// the retries are told is compared with what a process apart has seen happen.
//
// The effects are counted by a provider in a process of its own. Workers are real
// MCP servers with Once: Settle. The tests run as often as is bearable in every
// test run, and for long with make crash.
package crash
