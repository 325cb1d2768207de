package conformance_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
)

const suite = "node_modules/@modelcontextprotocol/conformance/dist/index.js"

// recent are the scenarios that came with the revision 2026-07-28; required are
// all that it demands of a server, with older ones at its wire version.
var (
	recent   = []string{"--suite", "draft"}
	required = []string{"--requirements", "2026-07-28"}
)

// roundTrips is every scenario of the suite that is about multi round-trip
// requests; newer suites must not bring one that nobody looked at.
var roundTrips = []string{
	"input-required-result-basic-elicitation",
	"input-required-result-basic-list-roots",
	"input-required-result-basic-sampling",
	"input-required-result-capability-check",
	"input-required-result-ignore-extra-params",
	"input-required-result-missing-input-response",
	"input-required-result-multi-round",
	"input-required-result-multiple-input-requests",
	"input-required-result-non-tool-request",
	"input-required-result-request-state",
	"input-required-result-result-type",
	"input-required-result-tampered-state",
	"input-required-result-unsupported-methods",
	"input-required-result-validate-input",
}

// beside is what else the suite asks of the methods that Protect handles, and
// of the lists that it must leave alone.
var beside = []string{
	"caching",
	"prompts-get-simple",
	"prompts-get-with-args",
	"prompts-list",
	"resources-list",
	"resources-read-text",
	"resources-templates-read",
	"sep-2164-resource-not-found",
	"tools-call-error",
	"tools-call-simple-text",
	"tools-list",
}

const (
	prefix      = "input-required-result-"
	wireCheck   = "wire-schema-valid" // of every message, in every scenario
	ignoreExtra = "input-required-result-ignore-extra-params"
	missing     = "input-required-result-missing-input-response"
)

// A check is one line of a scenario's report.
type check struct {
	ID      string          `json:"id"`
	Status  string          `json:"status"`
	Error   string          `json:"errorMessage"`
	Details json.RawMessage `json:"details"`
}

// node is the program that runs the suite. It skips the test if the suite is not
// installed as pinned.
func node(t *testing.T) string {
	t.Helper()
	const advice = "the MCP conformance suite is not set up: run interop/conformance/setup.sh"
	give := t.Skip
	if os.Getenv("CI") == "true" {
		give = t.Fatal
	}
	h := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(b)
	}
	stamp, err := os.ReadFile("node_modules/.foil-stamp")
	sum, program, _ := strings.Cut(strings.TrimSpace(string(stamp)), " ")
	if err != nil || sum != hex.EncodeToString(h.Sum(nil)) {
		give(advice)
	}
	return program
}

// run lets the suite loose on a server and returns the checks of each scenario.
// The suite is one process without children, and ends with the test.
func run(t *testing.T, url string, args ...string) (scenarios map[string][]check, output []byte) {
	t.Helper()
	program := node(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	args = append([]string{suite, "server", "--url", url, "--output-dir", dir}, args...)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = 5 * time.Second
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v %v\n%s", strings.Join(cmd.Args, " "), err, ctx.Err(), output)
	}
	// A failed check makes it exit with 1; the checks themselves say more.
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	scenarios = make(map[string][]check)
	for _, e := range entries {
		m := resultDir.FindStringSubmatch(e.Name())
		if m == nil {
			t.Fatalf("unknown result %q", e.Name())
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name(), "checks.json"))
		if err != nil {
			t.Fatal(err)
		}
		var checks []check
		if err := json.Unmarshal(b, &checks); err != nil {
			t.Fatal(err)
		}
		scenarios[m[1]] = checks
	}
	return scenarios, output
}

var resultDir = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// A policy is one choice of BareAnswers and what comes of it.
type policy struct {
	name   string
	bare   foil.Choice
	args   []string
	names  []string
	differ map[string]string // of a scenario, the one check that warns
}

// TestScenarios runs the suite in one process for each policy, for a start of
// Node costs more than a scenario.
func TestScenarios(t *testing.T) {
	for _, p := range []policy{
		{"allow", foil.Allow, required, slices.Concat(roundTrips, beside), nil},
		{"default", 0, recent, roundTrips, map[string]string{
			ignoreExtra: "sep-2322-ignore-unexpected-params",
		}},
		{"refuse", foil.Refuse, recent, roundTrips, map[string]string{
			ignoreExtra: "sep-2322-ignore-unexpected-params",
			missing:     "sep-2322-missing-response-rerequests",
		}},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel() // the suite waits more than it works
			srv := protect(t, p.bare)
			checks, output := run(t, srv.url, p.args...)
			for name := range checks {
				if strings.HasPrefix(name, prefix) && !slices.Contains(p.names, name) {
					t.Errorf("the suite has a scenario %s that is not in this test", name)
				}
			}
			for _, name := range p.names {
				t.Run(name, func(t *testing.T) {
					verdict(t, checks[name], p.differ[name])
				})
			}
			// Foil refused the one tampered state and no other. Where the
			// token's length makes the added text no base64url, it is malformed.
			got, bent := srv.log.refusals(), "test_input_required_result_tampered_state "
			if len(got) != 1 || got[0] != bent+"tampered" && got[0] != bent+"malformed" {
				t.Errorf("refused states: %q, want the tampered one", got)
			}
			if t.Failed() {
				t.Logf("the suite:\n%s", output)
			}
		})
	}
}

// verdict fails the test unless all checks pass, but for the one that warns.
func verdict(t *testing.T, checks []check, warns string) {
	t.Helper()
	own, warned := 0, false
	for _, c := range checks {
		switch {
		case c.ID == warns && c.Status == "WARNING":
			warned = true
			t.Logf("as expected: %s", c.Error)
		case c.Status != "SUCCESS":
			t.Errorf("%s %s: %s\n%s", c.Status, c.ID, c.Error, c.Details)
		}
		if c.ID != wireCheck {
			own++
		}
	}
	if own == 0 {
		t.Error("the suite has checked nothing")
	}
	if warns != "" && !warned {
		t.Errorf("%s passes: the policy or the suite has changed, and so must docs/conformance.md", warns)
	}
}
