package keyringtest_test

import (
	"testing"

	"github.com/foilmcp/foil/internal/faulttest"
	"github.com/foilmcp/foil/keyring/keyringtest"
)

// faults names each fault and the sub-tests that must find it.
var faults = map[string][]string{
	"nothing is a new ring":           {"no document is an error"},
	"update of nothing creates":       {"no document is an error"},
	"create stores nothing":           {"create stores the document"},
	"create overwrites":               {"create never overwrites"},
	"create overwrites what is less":  {"create never overwrites"},
	"create does not say why":         {"create never overwrites"},
	"create takes its own again":      {"create never overwrites"},
	"create is not atomic":            {"one of 16 concurrent creates wins"},
	"update returns the old ring":     {"update replaces the document"},
	"update stores nothing":           {"update replaces the document"},
	"no change is an error":           {"update without a change is none"},
	"hides the function's error":      {"error of the function is returned and nothing written"},
	"swallows the function's error":   {"error of the function is returned and nothing written"},
	"writes before it looks":          {"error of the function is returned and nothing written"},
	"retries a function that fails":   {"error of the function is returned and nothing written"},
	"takes no ring":                   {"bad updates are refused"},
	"takes the same serial":           {"bad updates are refused"},
	"takes a lower serial":            {"bad updates are refused"},
	"takes a skipped serial":          {"bad updates are refused"},
	"takes another kind":              {"bad updates are refused", "a ring for tokens stays one", "an interop ring stays one"},
	"takes a ring for rows":           {"a ring for tokens stays one", "a storage ring stays one"},
	"looks at tokens' kind alone":     {"an interop ring stays one", "a storage ring stays one"},
	"forgets that a ring is for rows": {"a storage ring stays one"},
	"refuses after the write":         {"bad updates are refused"},
	"not atomic":                      {"concurrent updates follow each other"},
	"a lost race is a success":        {"concurrent updates follow each other", "an update that loses a race undoes nothing"},
	"a lost race writes all the same": {"an update that loses a race undoes nothing"},
	"a lost race starts with the old": {"an update that loses a race undoes nothing"},
	"load waits for writers":          {"load does not wait for an update"},
	"not atomic over peers":           {"concurrent updates over two peers follow each other"},
	"writes in two steps":             {"readers see whole documents, and none goes back"},
	"writes half and fills it up":     {"readers see whole documents, and none goes back"},
	"remembers what it loaded":        {"readers see whole documents, and none goes back", "updates are seen by a peer"},
	"updates what it remembers":       {"updates are seen by a peer"},
	"load ignores the context":        {"ended context writes nothing"},
	"create ignores the context":      {"ended context writes nothing"},
	"update ignores the context":      {"ended context writes nothing"},
	"writes, then asks the context":   {"ended context writes nothing"},
	"malformed is the last good":      {"malformed document is an error"},
	"create mends":                    {"malformed document is an error"},
	"document in errors":              {"keys and secrets stay out of errors"},
	"keys in errors, in base64":       {"keys and secrets stay out of errors"},
	"secret in errors":                {"keys and secrets stay out of errors"},
	"no backend is the last ring":     {"broken backend is an error and loses nothing"},
	"no backend is a success":         {"broken backend is an error and loses nothing"},
	"no backend is ErrExists":         {"broken backend is an error and loses nothing"},
	"loses on error":                  {"broken backend is an error and loses nothing"},
	"harness lacks a point":           {"harness is complete"},
}

// TestFaulty runs the suite against a fault, in a process of its own.
func TestFaulty(t *testing.T) {
	fault := faulttest.Fault() // none: the suite can be passed in full
	keyringtest.Run(t, func(*testing.T) *keyringtest.Harness { return newHarness(fault) })
}

func TestSuiteFindsEveryFault(t *testing.T) { faulttest.Find(t, faults) }
