// Package conformance holds tests alone: they run the official MCP conformance
// suite against a server that mcpsdk protects. See README.md.
package conformance
