package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	const seal = `{"method":"tools/call","params":{"name":"x"},"principal":null,"audience":null,"state":"s"}`
	const forged = `{"method":"tools/call","params":{"name":"x"},"principal":null,"audience":null,"token":"v1.forged"}`
	tests := []struct {
		name  string
		args  []string
		stdin string
		want  int
	}{
		{"version", []string{"version"}, "", exitOK},
		{"help", []string{"--help"}, "", exitOK},
		{"help of a command", []string{"token", "--help"}, "", exitOK},
		{"nothing", nil, "", exitUsage},
		{"unknown command", []string{"bogus"}, "", exitUsage},
		{"group alone", []string{"token"}, "", exitUsage},
		{"unknown flag", []string{"version", "--bogus"}, "", exitUsage},
		{"version as a flag", []string{"--version"}, "", exitOK},
		{"misspelt command with flags", []string{"keys", "nwe", "--ring", "x"}, "", exitUsage},
		{"misspelt step with flags", []string{"keys", "rotate", "stgae", "--ring", "x"}, "", exitUsage},
		{"help of no command", []string{"help", "nope"}, "", exitUsage},
		{"completion of no shell", []string{"completion"}, "", exitUsage},
		{"completion of no such shell", []string{"completion", "csh"}, "", exitUsage},
		{"completion", []string{"completion", "zsh"}, "", exitOK},
		{"no time", []string{"token", "open", "--secret-file", secret, "--at", ""}, forged, exitUsage},
		{"no principal", []string{"token", "open", "--secret-file", secret}, `{"method":"tools/call","params":{"name":"x"},"audience":null,"token":"v1.x"}`, exitUsage},
		{"not to be sealed", []string{"token", "seal", "--secret-file", secret}, strings.Replace(seal, "call", "list", 1), exitUsage},
		{"life that the ring does not allow", []string{"token", "seal", "--secret-file", secret, "--ttl", "1h"}, seal, exitUsage},
		{"extra argument", []string{"version", "x"}, "", exitUsage},
		{"seal", []string{"token", "seal", "--secret-file", secret}, seal, exitOK},
		{"refused", []string{"token", "open", "--secret-file", secret}, forged, exitRefused},
		{"inspected and malformed", []string{"token", "inspect"}, forged, exitRefused},
		{"bad input", []string{"token", "open", "--secret-file", secret}, "{", exitUsage},
		{"flags that exclude each other", []string{"token", "open", "--secret-file", secret, "--ring", "x"}, forged, exitUsage},
		{"no such file", []string{"token", "open", "--secret-file", filepath.Join(dir, "none")}, forged, exitSystem},
		{"no such ring", []string{"token", "open", "--ring", filepath.Join(dir, "none")}, forged, exitSystem},
		{"no such source", []string{"token", "open", "--ring", "ftp:x"}, forged, exitUsage},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if got := run(tt.args, strings.NewReader(tt.stdin), &stdout, &stderr); got != tt.want {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", got, tt.want, stdout.String(), stderr.String())
			}
			if strings.Contains(stderr.String(), "foil: foil:") {
				t.Errorf("says its name twice: %s", stderr.String())
			}
		})
	}
}
