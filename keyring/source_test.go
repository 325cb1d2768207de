package keyring_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/foilmcp/foil/keyring"
)

func TestCheckUpdate(t *testing.T) {
	ring := func(serial int, interop bool, keys, secret int) *keyring.Ring {
		var list []string
		for i := range keys {
			b := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, secret/2)
			list = append(list, fmt.Sprintf(`{"id":"k%d","secret":%q,"seal_from":100}`, i, base64.RawURLEncoding.EncodeToString(b)))
		}
		return mustParse(t, strings.NewReplacer(`"serial":7`, fmt.Sprintf(`"serial":%d`, serial), `"interop":false`, fmt.Sprintf(`"interop":%v`, interop)).
			Replace(doc("["+strings.Join(list, ",")+"]")))
	}
	old := ring(7, false, 1, 32)
	for _, tc := range []struct {
		name, says string
		updated    *keyring.Ring
	}{
		{"the next", "", ring(8, false, 2, 32)},
		{"no ring", "no ring", nil},
		{"a lower serial", "must be 8", ring(6, false, 2, 32)},
		{"the same serial", "must be 8", ring(7, false, 2, 32)},
		{"a skipped serial", "must be 8", ring(9, false, 2, 32)},
		{"another kind", "interop", ring(8, true, 2, 32)},
		{"a storage ring", "storage", mustParse(t, storageDoc(8, oneKey(`,"seal_from":100`)))},
		// It could be read as it is here, but not as Marshal spaces it out.
		{"too large", "which nobody reads", ring(8, false, 735, 1024)},
	} {
		err := keyring.CheckUpdate(old, tc.updated)
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want an error that says %q", tc.name, err, tc.says)
		}
	}
}

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
