package keyring_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/foilmcp/foil/keyring"
)

func TestParseSource(t *testing.T) {
	for in, want := range map[string]string{
		"ring.json": "file:ring.json", "/etc/foil/ring.json": "file:/etc/foil/ring.json", "file:/x/y": "file:/x/y",
		"./a:b": "file:./a:b", `C:\ring`: `file:C:\ring`, "file:a:b": "file:a:b", "env:RING": "env:RING",
	} {
		src, err := keyring.ParseSource(in)
		if err != nil || fmt.Sprint(src) != want {
			t.Errorf("%q: %v, %v", in, src, err)
		}
		if _, writable := src.(keyring.Store); writable != strings.HasPrefix(want, "file:") {
			t.Errorf("%q: writable %v", in, writable)
		}
	}
	for _, in := range []string{"", "file:", "env:", "openbao:secret/ring", "https://example.com/ring", "File:x"} {
		if src, err := keyring.ParseSource(in); err == nil {
			t.Errorf("%q: %v", in, src)
		}
	}
}

func TestEnv(t *testing.T) {
	r := newRing(t, nil)
	t.Setenv("KEYRING_TEST_RING", string(r.Marshal()))
	got, err := keyring.OpenEnv("KEYRING_TEST_RING").Load(t.Context())
	if err != nil || !bytes.Equal(got.Marshal(), r.Marshal()) {
		t.Error(got, err)
	}
	t.Setenv("KEYRING_TEST_RING", "hunter2")
	if _, err := keyring.OpenEnv("KEYRING_TEST_RING").Load(t.Context()); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "KEYRING_TEST_RING") {
		t.Error(err)
	}
	if _, err := keyring.OpenEnv("KEYRING_TEST_UNSET").Load(t.Context()); err == nil {
		t.Error("an unset variable is a ring")
	}
}
