// Package python holds tests that run foil against the real MCP Python SDK: what
// one side seals the other opens, both refuse the same wrong presentations, and
// both digest arguments alike. It has no API.
//
// The SDK is pinned in requirements.txt and lives in a virtual environment that
// setup.sh makes. Without it the tests are skipped, and fail where CI is set.
package python
