package aesgcm

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/keyring"
)

func TestSealsAreCounted(t *testing.T) {
	var log bytes.Buffer
	ring := keyring.NewEphemeral()
	var keys replaceable
	keys.ring = ring
	c, err := New(&keys, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	c.warnAfter, c.refuseAfter = 3, 5
	for i := range 5 {
		if _, err := c.Seal(context.Background(), nil, time.Time{}); err != nil {
			t.Fatalf("seal %d: %v", i+1, err)
		}
		if warned := strings.Contains(log.String(), "rotate"); warned != (i+1 >= 3) {
			t.Errorf("after %d seals: warned %v", i+1, warned)
		}
	}
	// A ring that is read again has the same key: the count goes on.
	if keys.ring, err = keyring.Parse(ring.Marshal()); err != nil {
		t.Fatal(err)
	}
	if token, err := c.Seal(context.Background(), nil, time.Time{}); err == nil || token != "" {
		t.Errorf("seal 6: %q, %v; want a failure", token, err)
	}
	// So it does for another codec of this process.
	other, err := New(&keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := other.Seals(); n != 6 {
		t.Errorf("another codec counts %d, want 6", n)
	}
	if n := strings.Count(log.String(), "rotate"); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
}

type replaceable struct{ ring *keyring.Ring }

func (r *replaceable) Ring() (*keyring.Ring, error) { return r.ring, nil }

// NIST SP 800-38D allows 2^32 random nonces; sixteen processes stay within that.
func TestLimits(t *testing.T) {
	if warnAfter != 1<<27 || refuseAfter != 1<<28 {
		t.Errorf("warns at %d and refuses at %d", warnAfter, refuseAfter)
	}
}

// What a ring demands still holds while its source is away.
func TestLimitsOutliveTheSource(t *testing.T) {
	ring, err := keyring.FromSecrets(bytes.Repeat([]byte("k"), 32))
	if err != nil {
		t.Fatal(err)
	}
	keys := &failing{ring: ring}
	c, err := New(keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := c.KeyLimits()
	keys.ring = nil
	if after := c.KeyLimits(); !after.Interop || after != before {
		t.Errorf("limits %+v become %+v", before, after)
	}
}

type failing struct{ ring *keyring.Ring }

func (f *failing) Ring() (*keyring.Ring, error) {
	if f.ring == nil {
		return nil, keyring.ErrStale
	}
	return f.ring, nil
}
