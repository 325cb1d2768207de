// Package archtest holds the structure of the module in tests: which package
// may import which, and what every package must have. It has no code of its own.
package archtest
