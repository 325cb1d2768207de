package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
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

// A command that waits for input ends with an interrupt.
func TestInterruptWhileWaiting(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		cmd := exec.Command(exe, "-test.run=^TestHelperWaits$")
		cmd.Env = append(os.Environ(), "FOIL_TEST_WAIT="+secret)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // until it reads, most likely; it must end either way
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("%v: ended as if all were well", sig)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%v: it goes on waiting", sig)
			_ = cmd.Process.Kill()
			<-done
		}
		_ = in.Close()
	}
}

// TestHelperWaits is that command, in a process of its own.
func TestHelperWaits(t *testing.T) {
	secret := os.Getenv("FOIL_TEST_WAIT")
	if secret == "" {
		return // only as a helper
	}
	fmt.Println("waiting")
	os.Exit(run([]string{"token", "open", "--secret-file", secret}, os.Stdin, os.Stdout, os.Stderr))
}
