package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/keyring"
)

func TestKeysExitCodes(t *testing.T) {
	dir := t.TempDir()
	ring, interop, rows := filepath.Join(dir, "ring"), filepath.Join(dir, "interop"), filepath.Join(dir, "rows")
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(dir, "none")
	for _, tt := range []struct {
		args string
		want int
	}{
		{"new --ring " + ring, exitOK},
		{"new --interop --ring " + interop, exitOK},
		{"new --storage --ring " + rows, exitOK},
		{"new --storage --interop --ring " + none, exitUsage},
		{"new --storage --keep 1h --ring " + none, exitUsage},
		{"new --ring " + ring, exitRefused},
		{"new", exitUsage},
		{"new --ring ftp:x", exitUsage},
		{"new --ring env:X", exitUsage},
		{"new --skew -1s --ring " + none, exitUsage},
		{"new --propagation 0s --ring " + none, exitUsage},
		{"new --max-ttl 1500ms --ring " + none, exitUsage},
		{"new --ring " + filepath.Join(none, "none"), exitSystem},
		{"show --ring " + ring, exitOK},
		{"show --ring " + none, exitSystem},
		{"show --ring " + bad, exitSystem},
		{"show --at never --ring " + ring, exitUsage},
		{"rotate --ring " + ring, exitOK},
		{"rotate --every 24h --ring " + ring, exitOK},
		{"rotate --every 0s --ring " + ring, exitUsage},
		{"rotate --every -1h --ring " + ring, exitUsage},
		{"rotate --ring " + none, exitSystem},
		{"rotate --ring " + interop, exitRefused},
		{"rotate now --ring " + ring, exitUsage},
		{"rotate stage --ring " + ring, exitRefused},
		{"rotate stage --ring " + interop, exitOK},
		{"rotate activate --ring " + interop, exitOK},
		{"rotate retire --ring " + interop, exitRefused},
		{"revoke --ring " + ring, exitUsage},
		{"revoke nope --ring " + ring, exitRefused},
		{"revoke nope --ring " + bad, exitSystem},
		{"revoke nope --ring " + rows, exitRefused},
		{"drop --ring " + rows, exitUsage},
		{"drop nope --ring " + rows, exitRefused},
		{"drop nope --yes --ring " + rows, exitRefused},
		{"drop nope --yes --ring " + ring, exitRefused},
		{"export --ring " + ring, exitUsage},
		{"export --format pem --ring " + ring, exitUsage},
		{"export --format python --ring " + ring, exitRefused},
		{"export --format python --ring " + interop, exitOK},
		{"", exitUsage},
		{"bogus", exitUsage},
	} {
		t.Run(strings.ReplaceAll(tt.args, dir+string(filepath.Separator), ""), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			args := append([]string{"keys"}, strings.Fields(tt.args)...)
			if got := run(args, strings.NewReader(""), &stdout, &stderr); got != tt.want {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", got, tt.want, stdout.String(), stderr.String())
			}
		})
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a refused command wrote a ring")
	}
}

// Each command says what it is for by example.
func TestKeysHelp(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Example == "" || c.Long == "" {
			t.Errorf("%s has no example or no long help", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			if !strings.Contains(line, "foil keys") {
				t.Errorf("%s: example %q", c.CommandPath(), line)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newKeysCmd())
}

// What is printed to be pasted is one word to a shell.
func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"file:/var/lib/ring.json": "file:/var/lib/ring.json",
		"env:RING":                "env:RING",
		"my ring":                 "'my ring'",
		"it's":                    `'it'\''s'`,
		"$HOME/x":                 "'$HOME/x'",
		"~/x":                     "'~/x'",
		"a;b":                     "'a;b'",
		"":                        "''",
	} {
		if got := quote(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

// The error of a file that may not be read says whose it has to be.
func TestPermissionIsExplained(t *testing.T) {
	f := keyring.OpenFile("ring.json")
	r := &ringFlag{"ring.json"}
	err := r.explain(f, fmt.Errorf("keyring: %w", fs.ErrPermission))
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "belong to the user that runs the server") {
		t.Errorf("%v", err)
	}
	if err := r.explain(f, nil); err != nil {
		t.Errorf("%v", err)
	}
}
