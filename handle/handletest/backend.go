package handletest

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/handle"
)

func testRestart(t *testing.T, h *Harness) {
	if h.Reopen == nil {
		t.Skip("needs a durable store: set Harness.Reopen")
	}
	keys := make(map[[32]byte]string)
	for i := range 20 {
		key := freshKey()
		keys[key] = strings.Repeat(fmt.Sprint("payload ", i), 100)
		put(t, h.Store, key, keys[key], h.live())
	}
	again := h.Reopen(t)
	for key, p := range keys {
		found(t, again, key, p)
		if err := again.Put(t.Context(), key, []byte("x"), h.live()); err == nil {
			t.Error("Put of a key that is there, after a restart: no error")
		}
	}
	key := freshKey()
	put(t, again, key, "x", h.live())
	found(t, again, key, "x")
}

func (h *Harness) peer(t *testing.T) handle.Store {
	t.Helper()
	if h.Peer == nil {
		t.Skip("needs a store that replicas share: set Harness.Peer")
	}
	return h.Peer(t)
}

func testPeer(t *testing.T, h *Harness) {
	peer := h.peer(t)
	for range 20 {
		for _, s := range [][2]handle.Store{{h.Store, peer}, {peer, h.Store}} {
			key := freshKey()
			put(t, s[0], key, "x", h.live())
			found(t, s[1], key, "x") // at once
			if err := s[1].Put(t.Context(), key, []byte("y"), h.live()); err == nil {
				t.Error("Put of a key that a peer has put: no error")
			}
			found(t, s[0], key, "x")
		}
	}
}

func testPeerConcurrent(t *testing.T, h *Harness) { race(t, h, h.Store, h.peer(t)) }

// fill puts payloads until the store refuses one.
func (h *Harness) fill(t *testing.T, expires time.Time) (kept [][32]byte) {
	t.Helper()
	if h.Full == nil {
		t.Skip("needs a store that can be filled: set Harness.Full")
	}
	h.Full(t)
	for range 1000 {
		key := freshKey()
		if err := h.Store.Put(t.Context(), key, []byte(filler), expires); err != nil {
			missing(t, h.Store, key)
			return kept
		}
		kept = append(kept, key)
	}
	t.Fatal("store took a thousand payloads; it does not refuse, or the harness does not fill it")
	return nil
}

var filler = strings.Repeat("x", 100)

func testFull(t *testing.T, h *Harness) {
	kept := h.fill(t, h.live())
	if len(kept) == 0 {
		t.Fatal("store was full while it was empty")
	}
	for range 5 {
		if err := h.Store.Put(t.Context(), freshKey(), []byte(filler), h.live()); err == nil {
			t.Fatal("Put to a full store: no error")
		}
	}
	for _, key := range kept { // full or not, nothing goes before its time
		found(t, h.Store, key, filler)
	}
}

func testRoom(t *testing.T, h *Harness) {
	if h.Clock == nil {
		t.Skip("needs a store with a clock of its own: set Harness.Clock")
	}
	h.fill(t, h.now().Add(h.Skew+time.Minute))
	h.Clock.Advance(2*h.Skew + time.Minute + time.Second)
	h.sweep(t)
	key := freshKey()
	put(t, h.Store, key, filler, h.live())
	found(t, h.Store, key, filler)
}

func testBroken(t *testing.T, h *Harness) {
	if h.Break == nil {
		t.Skip("needs a backend that can be taken away: set Harness.Break")
	}
	there, fresh := freshKey(), freshKey()
	put(t, h.Store, there, "x", h.live())
	restore := h.Break(t)
	if err := h.Store.Put(t.Context(), fresh, []byte("y"), h.live()); err == nil {
		t.Error("Put without a backend: no error")
	}
	for _, key := range [][32]byte{there, fresh, freshKey()} {
		if got, ok, err := h.Store.Get(t.Context(), key); got != nil || ok || err == nil {
			t.Errorf("Get without a backend = %d bytes, found %t, %v; want an error", len(got), ok, err)
		}
	}
	if p, ok := h.Store.(interface{ Ping(context.Context) error }); ok {
		if err := p.Ping(t.Context()); err == nil {
			t.Error("Ping without a backend = nil, want an error")
		}
	}
	restore()
	found(t, h.Store, there, "x")
	key := freshKey()
	put(t, h.Store, key, "z", h.live())
	found(t, h.Store, key, "z")
}

// testErrors provokes every error that it can and reads it as a log would show it.
func testErrors(t *testing.T, h *Harness) {
	const secret = "foil-claim.never to be logged"
	read := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", what)
			return
		}
		text := strings.ToLower(fmt.Sprintf("%v %+v %#v", err, err, err))
		leaks := spellings([]byte(secret))
		if h.Secret != "" {
			leaks = append(leaks, h.Secret)
		}
		for _, leak := range leaks {
			if strings.Contains(text, strings.ToLower(leak)) {
				t.Errorf("error of %s contains what must stay secret", what)
				return
			}
		}
	}
	put := func(ctx context.Context, key [32]byte) error {
		return h.Store.Put(ctx, key, []byte(secret), h.live())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	key := freshKey()
	read("Put with a cancelled context", put(ended, key))
	if err := put(t.Context(), key); err != nil {
		t.Fatalf("Put: %v", err)
	}
	read("Put of a key that is there", put(t.Context(), key))
	if h.Break != nil {
		restore := h.Break(t)
		read("Put without a backend", put(t.Context(), freshKey()))
		_, _, err := h.Store.Get(t.Context(), key)
		read("Get without a backend", err)
		if p, ok := h.Store.(interface{ Ping(context.Context) error }); ok {
			read("Ping without a backend", p.Ping(t.Context()))
		}
		restore()
	}
	if h.Swap != nil {
		other := freshKey()
		if err := put(t.Context(), other); err != nil {
			t.Fatalf("Put: %v", err)
		}
		h.Swap(t, key, other)
		_, _, err := h.Store.Get(t.Context(), key)
		read("Get of what was put for another key", err)
	}
	if h.Full == nil {
		return
	}
	h.fill(t, h.live())
	read("Put to a full store", put(t.Context(), freshKey()))
}

// spellings are the texts by which a program is likely to write b. Of base64,
// which depends on where b stands, they are what all three places leave.
func spellings(b []byte) []string {
	all := []string{string(b), hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)), strings.Trim(fmt.Sprint(b), "[]"),
		strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", b), "[]byte{"), "}")}
	for shift := range 3 {
		text := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), b...))
		text = text[4 : len(text)-4]
		all = append(all, text, strings.NewReplacer("+", "-", "/", "_").Replace(text))
	}
	return all
}
