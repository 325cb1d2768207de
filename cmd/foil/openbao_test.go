package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/foilmcp/foil/internal/baotest"
)

// foilCommand runs a command and returns its exit code, output and errors.
func foilCommand(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(args, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestOpenBaoSetup(t *testing.T) {
	srv := baotest.Start(t)
	t.Setenv("BAO_ADDR", srv.Addr)
	t.Setenv("BAO_TOKEN", srv.Token)
	flags := []string{
		"--ring", srv.Name("ring") + "/mcp", "--transit", srv.Name("transit") + "/state", "--spent", srv.Name("spent"),
		"--prefix", srv.Name("foil"), "--auth-mount", srv.Name("approle"),
	}
	setup := func(more ...string) (int, string, string) {
		return foilCommand(t, append(append([]string{"openbao", "setup"}, flags...), more...)...)
	}
	if code, out, errs := setup("--dry-run"); code != 0 || !strings.Contains(out, "would create ") || !strings.Contains(out, "nothing was changed") {
		t.Fatalf("dry run: %d\n%s%s", code, out, errs)
	}
	code, out, errs := setup("--approle", "janitor=ring-reader,spender")
	if code != 0 || !strings.Contains(out, "created") || !strings.Contains(out, "janitor/secret-id") {
		t.Fatalf("setup: %d\n%s%s", code, out, errs)
	}
	code, out, errs = setup("--json")
	var doc setupDone
	if err := json.Unmarshal([]byte(out), &doc); code != 0 || err != nil || !doc.OK || len(doc.Steps) < 20 {
		t.Fatalf("setup again: %d, %v\n%s%s", code, err, out, errs)
	}
	for _, st := range doc.Steps {
		if st.Did != "unchanged" {
			t.Errorf("setup again: %s %s", st.Did, st.What)
		}
	}
	if code, out, errs := foilCommand(t, "openbao", "sweep", "--spent", flags[5]); code != 0 || !strings.Contains(out, "0 forgotten") {
		t.Errorf("sweep: %d\n%s%s", code, out, errs)
	}
	if code, out, errs := foilCommand(t, "openbao", "restored", "--spent", flags[5]); code != exitUsage || out != "" || !strings.Contains(errs, "--yes") {
		t.Errorf("restored without --yes: %d\n%s%s", code, out, errs)
	}
	if code, out, errs := foilCommand(t, "openbao", "restored", "--spent", flags[5], "--yes"); code != 0 || !strings.Contains(out, "are refused") {
		t.Errorf("restored: %d\n%s%s", code, out, errs)
	}
	mark := srv.Must(t, "GET", flags[5]+"/data/mark", nil)["data"].(map[string]any)["data"].(map[string]any)
	if at, _ := mark["restored"].(float64); at < 1e12 {
		t.Errorf("the mark is %v", mark)
	}
	t.Setenv("BAO_TOKEN", "s.not-the-token-of-the-test")
	if code, _, errs := setup(); code != exitSystem || strings.Contains(errs, "not-the-token") || !strings.Contains(errs, "refuses the token") {
		t.Errorf("setup with a wrong token: %d\n%s", code, errs)
	}
}
