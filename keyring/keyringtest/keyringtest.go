// Package keyringtest checks that a [keyring.Store] keeps its promises. Every
// implementation runs it:
//
//	func TestConformance(t *testing.T) {
//		keyringtest.Run(t, func(t *testing.T) *keyringtest.Harness { … })
//	}
//
// What a store cannot do is said in the negative, so that the harness of a new
// store fails until each point is either there or named.
package keyringtest

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/keyring"
)

// A Harness is one store without a document and the handles by which the suite
// moves the world around it.
type Harness struct {
	// Store is ready and holds no document.
	Store keyring.Store

	// Peer returns another store on the same document, as another process has.
	// NotShared: there can be none.
	Peer      func(t *testing.T) keyring.Store
	NotShared bool

	// Put makes doc the stored document, whatever it is, past Store, as a person
	// with an editor does. CannotPut: the backend takes no malformed document.
	Put       func(t *testing.T, doc []byte)
	CannotPut bool

	// Break takes the backend away until restore is called. CannotBreak: there
	// is nothing that could go away.
	Break       func(t *testing.T) (restore func())
	CannotBreak bool

	// Secret is what Store authenticates to its backend with, such as the
	// password in a DSN; it must stay out of errors. NoSecret: there is none.
	Secret   string
	NoSecret bool
}

// Run runs the suite. It calls newHarness once for each sub-test.
func Run(t *testing.T, newHarness func(t *testing.T) *Harness) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, h *Harness)
	}{
		{"harness is complete", testHarness},
		{"no document is an error", testEmpty},
		{"create stores the document", testCreate},
		{"create never overwrites", testCreateTwice},
		{"one of 16 concurrent creates wins", testCreateConcurrent},
		{"update replaces the document", testUpdate},
		{"update without a change is none", testUnchanged},
		{"error of the function is returned and nothing written", testFunctionFails},
		{"bad updates are refused", testBadUpdates},
		{"a ring for tokens stays one", testTokensStay},
		{"an interop ring stays one", testInteropStays},
		{"a storage ring stays one", testStorageStays},
		{"concurrent updates follow each other", testConcurrent},
		{"concurrent updates over two peers follow each other", testPeerConcurrent},
		{"an update that loses a race undoes nothing", testLostRace},
		{"load does not wait for an update", testLoadDuringUpdate},
		{"readers see whole documents, and none goes back", testReaders},
		{"updates are seen by a peer", testPeer},
		{"ended context writes nothing", testContext},
		{"malformed document is an error", testMalformed},
		{"keys and secrets stay out of errors", testErrors},
		{"broken backend is an error and loses nothing", testBroken},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newHarness(t)) })
	}
}

func testHarness(t *testing.T, h *Harness) {
	for _, c := range []struct {
		name         string
		have, excuse bool
	}{
		{"Peer or NotShared", h.Peer != nil, h.NotShared},
		{"Put or CannotPut", h.Put != nil, h.CannotPut},
		{"Break or CannotBreak", h.Break != nil, h.CannotBreak},
		{"Secret or NoSecret", h.Secret != "", h.NoSecret},
	} {
		if c.have == c.excuse {
			t.Errorf("harness wants exactly one of %s", c.name)
		}
	}
	if h.Store == nil {
		t.Error("harness has no Store")
	}
}

// start is when the rings of the suite are made. Nothing depends on the time.
var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// secretOf returns the secret of the key with the given number in every document.
func secretOf(n int) []byte { return bytes.Repeat([]byte{0xa0 + byte(n)}, 32) }

// document returns a ring document whose secrets the suite knows.
func document(serial int64, interop bool, keys int) string {
	var list []string
	for i := range keys {
		list = append(list, fmt.Sprintf(`{"id":"key-%d","secret":%q,"seal_from":%d}`, i, base64.RawURLEncoding.EncodeToString(secretOf(i)), 100+i))
	}
	return fmt.Sprintf(`{"version":1,"serial":%d,"interop":%v,"propagation":300,"skew":60,"max_ttl":600,"keep":0,"keys":[%s],"revoked":[]}`,
		serial, interop, strings.Join(list, ","))
}

// ringOf returns a ring of the kind: "tokens", "interop" or "storage".
func ringOf(t *testing.T, kind string, serial int64, keys int) *keyring.Ring {
	t.Helper()
	doc := document(serial, kind == "interop", keys)
	if kind == "storage" {
		doc = strings.Replace(doc, `"interop":false`, `"interop":false,"storage":true`, 1)
	}
	r, err := keyring.Parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ring(t *testing.T, serial int64, interop bool, keys int) *keyring.Ring {
	t.Helper()
	r, err := keyring.Parse([]byte(document(serial, interop, keys)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// created stores and returns a ring with serial 5.
func (h *Harness) created(t *testing.T) *keyring.Ring {
	t.Helper()
	r := ring(t, 5, false, 2)
	if err := h.Store.Create(t.Context(), r); err != nil {
		t.Fatalf("Create: %v", err)
	}
	return r
}

// rotate adds a key, as a rotation does. It may be called by any goroutine.
func rotate(ctx context.Context, s keyring.Store) (*keyring.Ring, error) {
	return s.Update(ctx, func(r *keyring.Ring) (*keyring.Ring, error) {
		c, err := r.Rotate(start, 0)
		if err != nil {
			return nil, err
		}
		return c.Ring, nil
	})
}

func mustRotate(t *testing.T, s keyring.Store) *keyring.Ring {
	t.Helper()
	r, err := rotate(t.Context(), s)
	if err != nil || r == nil {
		t.Fatalf("Update = %v, %v; want the new ring", r, err)
	}
	return r
}

// stored fails unless want is what s gives.
func stored(t *testing.T, s keyring.Store, want *keyring.Ring) {
	t.Helper()
	got, err := s.Load(t.Context())
	if err != nil || got == nil {
		t.Fatalf("Load = %v, %v; want %v", got, err, want)
	}
	if !bytes.Equal(got.Marshal(), want.Marshal()) {
		t.Fatalf("Load gives %v, which is not the document that was stored: %v", got, want)
	}
}

func (h *Harness) peer(t *testing.T) keyring.Store {
	t.Helper()
	if h.Peer == nil {
		t.Skip("needs a store that processes share: set Harness.Peer")
	}
	return h.Peer(t)
}
