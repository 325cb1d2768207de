// Package faulttest shows that a conformance suite finds faults: it runs the
// suite against implementations that are broken on purpose, each in a process of
// its own, and looks which sub-tests fail. It is for tests alone.
package faulttest

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

const env = "FOIL_FAULT"

// Fault is the fault that this process is to have; "" is none. The test
// TestFaulty of the calling package runs the suite against it.
func Fault() string { return os.Getenv(env) }

// Find runs TestFaulty with each fault and fails for one that the named sub-tests
// of the suite do not find.
func Find(t *testing.T, faults map[string][]string) {
	if Fault() != "" {
		return // this is the process of its own
	}
	for fault, finders := range faults {
		t.Run(fault, func(t *testing.T) {
			var names []string
			for _, name := range finders {
				names = append(names, regexp.QuoteMeta(strings.ReplaceAll(name, " ", "_")))
			}
			only := "^TestFaulty$/^(" + strings.Join(names, "|") + ")$"
			cmd := exec.Command(os.Args[0], "-test.run="+only, "-test.timeout=10m")
			cmd.Env = append(os.Environ(), env+"="+fault)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatal("the suite passed")
			}
			for _, name := range finders {
				want := fmt.Sprintf("--- FAIL: TestFaulty/%s (", strings.ReplaceAll(name, " ", "_"))
				if !strings.Contains(string(out), want) {
					t.Errorf("sub-test %q did not fail:\n%.3000s", name, out)
				}
			}
		})
	}
}
