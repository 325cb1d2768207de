package keyringtest

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/foilmcp/foil/keyring"
)

func testReaders(t *testing.T, h *Harness) {
	h.created(t)
	stores := []keyring.Store{h.Store, h.Store}
	if h.Peer != nil {
		stores = append(stores, h.Peer(t), h.Peer(t))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range stores {
		wg.Go(func() {
			for last := int64(0); ctx.Err() == nil; {
				r, err := s.Load(t.Context())
				if err != nil || r == nil {
					t.Errorf("Load while others write = %v, %v", r, err)
					return
				}
				if r.Serial() < last {
					t.Errorf("Load gives serial %d after %d", r.Serial(), last)
					return
				}
				last = r.Serial()
			}
		})
	}
	for range 30 {
		r := mustRotate(t, h.Store)
		for _, s := range stores {
			if got, err := s.Load(t.Context()); err != nil || got.Serial() != r.Serial() {
				t.Errorf("Load after an update = %v, %v; want serial %d", got, err, r.Serial())
			}
		}
		if t.Failed() {
			break
		}
	}
	cancel()
	wg.Wait()
}

func testPeer(t *testing.T, h *Harness) {
	peer := h.peer(t)
	r := h.created(t)
	for range 3 {
		stored(t, peer, r)
		r = mustRotate(t, peer)
		stored(t, h.Store, r)
		r = mustRotate(t, h.Store)
	}
	for i := range 4 { // without a Load in between
		next := mustRotate(t, []keyring.Store{peer, h.Store}[i%2])
		if next.Serial() != r.Serial()+1 {
			t.Fatalf("serial %d after another store's update to %d", next.Serial(), r.Serial())
		}
		r = next
	}
	stored(t, peer, r)
}

// malformed returns documents that nobody may take for a ring. All hold the secrets
// of a good one.
func malformed() map[string]string {
	good := document(6, false, 3)
	secret := base64.RawURLEncoding.EncodeToString(secretOf(0))
	return map[string]string{
		"cut short":               good[:len(good)*3/4],
		"secret in an id":         strings.Replace(good, `"id":"key-0"`, `"id":"`+secret+`"`, 1),
		"secret as a member":      strings.Replace(good, `"revoked"`, `"`+secret+`":1,"revoked"`, 1),
		"secret that is too long": strings.Replace(good, secret, strings.Repeat(secret+"A", 100), 1),
		"same secret twice":       strings.Replace(good, base64.RawURLEncoding.EncodeToString(secretOf(1)), secret, 1),
		"secret as a serial":      strings.Replace(good, `"serial":6`, `"serial":"`+secret+`"`, 1),
		"trailing data":           good + secret,
	}
}

func testMalformed(t *testing.T, h *Harness) {
	if h.Put == nil {
		t.Skip("needs a backend that takes any document: set Harness.Put")
	}
	stored(t, h.Store, h.created(t)) // whoever keeps what was read has it now
	for name, doc := range malformed() {
		h.Put(t, []byte(doc))
		if r, err := h.Store.Load(t.Context()); r != nil || err == nil {
			t.Errorf("%s: Load = %v, %v; want an error", name, r, err)
		}
		if r, err := rotate(t.Context(), h.Store); err == nil {
			t.Errorf("%s: Update = %v, want an error", name, r)
		}
		if err := h.Store.Create(t.Context(), ring(t, 1, false, 1)); !errors.Is(err, keyring.ErrExists) {
			t.Errorf("%s: Create: %v, want ErrExists: somebody may still mend it", name, err)
		}
	}
	whole := ring(t, 9, false, 3)
	h.Put(t, whole.Marshal())
	stored(t, h.Store, whole)
}

// testErrors provokes every error that it can and reads it as a log would show it.
func testErrors(t *testing.T, h *Harness) {
	check := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", what)
			return
		}
		h.checkText(t, what, fmt.Sprintf("%v %+v %#v", err, err, err))
	}
	_, err := h.Store.Load(t.Context())
	check("Load of nothing", err)
	r := h.created(t)
	check("Create over a document", h.Store.Create(t.Context(), r))
	for _, bad := range []*keyring.Ring{nil, ring(t, 4, false, 3), ring(t, 6, true, 3)} {
		_, err := h.Store.Update(t.Context(), func(*keyring.Ring) (*keyring.Ring, error) { return bad, nil })
		check("refused update", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = h.Store.Load(ctx)
	check("Load with a cancelled context", err)
	if h.Break != nil {
		restore := h.Break(t)
		_, loading := h.Store.Load(t.Context())
		_, updating := rotate(t.Context(), h.Store)
		creating := h.Store.Create(t.Context(), r)
		restore()
		check("Load without a backend", loading)
		check("Update without a backend", updating)
		check("Create without a backend", creating)
	}
	if h.Put != nil {
		for name, doc := range malformed() {
			h.Put(t, []byte(doc))
			_, loading := h.Store.Load(t.Context())
			check("Load of a document with a fault: "+name, loading)
			_, updating := rotate(t.Context(), h.Store)
			check("Update of a document with a fault: "+name, updating)
		}
	}
}

// checkText fails if text contains a part of a secret in any of the spellings that
// a program is likely to print.
func (h *Harness) checkText(t *testing.T, what, text string) {
	t.Helper()
	var leaks []string
	for i := range 3 {
		part := secretOf(i)[:6]
		leaks = append(leaks, string(part), hex.EncodeToString(part), base64.RawURLEncoding.EncodeToString(part),
			strings.Trim(fmt.Sprint(part), "[]"), strings.Trim(fmt.Sprintf("%q", part), `"`))
	}
	if h.Secret != "" {
		leaks = append(leaks, h.Secret)
	}
	for _, leak := range leaks {
		if strings.Contains(text, leak) {
			t.Errorf("%s: error contains what must stay secret", what)
			return
		}
	}
}

func testBroken(t *testing.T, h *Harness) {
	if h.Break == nil {
		t.Skip("needs a backend that can be taken away: set Harness.Break")
	}
	was := h.created(t)
	stored(t, h.Store, was) // whoever keeps what was read has it now
	restore := h.Break(t)
	if r, err := h.Store.Load(t.Context()); r != nil || err == nil {
		t.Errorf("Load without a backend = %v, %v; want an error", r, err)
	}
	if r, err := rotate(t.Context(), h.Store); err == nil {
		t.Errorf("Update without a backend = %v, want an error", r)
	}
	if err := h.Store.Create(t.Context(), ring(t, 1, false, 1)); err == nil || errors.Is(err, keyring.ErrExists) {
		t.Errorf("Create without a backend: %v, want an error that is not ErrExists", err)
	}
	restore()
	// The failed update may have been written, but only whole.
	got, err := h.Store.Load(t.Context())
	if err != nil || got.Serial() != was.Serial() && got.Serial() != was.Serial()+1 {
		t.Fatalf("Load after the backend came back = %v, %v", got, err)
	}
	if next := mustRotate(t, h.Store); next.Serial() != got.Serial()+1 {
		t.Errorf("serial %d after %d", next.Serial(), got.Serial())
	}
}
