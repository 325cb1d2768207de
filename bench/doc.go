// Package bench compares foil with other ways to protect a state that passes
// through a client. It is a module of its own so that nobody who uses foil has
// the peers among their dependencies. README.md tells what is compared and what
// came out; "go run ./ratios" repeats it.
package bench
