package lab_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// checks finds what lab/setup.sh installs, and ends the test if it is not what is
// pinned.
func checks(t *testing.T) {
	t.Helper()
	var pinned []byte
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pinned = append(pinned, text...)
	}
	sum := sha256.Sum256(pinned)
	stamp, err := os.ReadFile("node_modules/.foil-stamp")
	if err == nil && strings.TrimSpace(string(stamp)) == hex.EncodeToString(sum[:]) {
		return
	}
	const help = "the pinned TypeScript and axe-core are not there; get them with: lab/setup.sh"
	if os.Getenv("CI") == "true" {
		t.Fatal(help)
	}
	t.Skip(help)
}

// TestTypes checks the page's code against the types in its comments.
func TestTypes(t *testing.T) {
	checks(t)
	t.Parallel()
	out, err := exec.Command("node", "node_modules/typescript/bin/tsc", "--project", ".").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
