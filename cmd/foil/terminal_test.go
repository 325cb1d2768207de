package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// What goes nowhere, or into a file, is on no terminal. The story of token-input
// has one.
func TestNoTerminal(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, f := range map[string]any{"the null device": null, "a file": file, "a buffer": new(bytes.Buffer)} {
		if isTerminal(f) {
			t.Errorf("%s is taken for a terminal", name)
		}
	}
}
