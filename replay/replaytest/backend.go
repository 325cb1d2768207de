package replaytest

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/replay"
)

func testRestart(t *testing.T, h *Harness) {
	if h.Reopen == nil {
		t.Skip("needs a durable store: set Harness.Reopen")
	}
	expires := h.live()
	var ids [][]byte
	for range 20 {
		ids = append(ids, freshID())
		use(t, h.Store, ids[len(ids)-1], expires, true)
	}
	again := h.Reopen(t)
	for _, id := range ids {
		use(t, again, id, expires, false)
	}
	use(t, again, freshID(), expires, true)
}

func testMarkRestart(t *testing.T, h *Harness) {
	h.needSweep(t)
	if h.Reopen == nil {
		t.Skip("needs a durable store: set Harness.Reopen")
	}
	id, expires := freshID(), h.now().Add(time.Minute)
	use(t, h.Store, id, expires, true)
	ahead := time.Hour + h.Skew
	h.Clock.Advance(ahead)
	h.sweep(t)
	h.Clock.Advance(-ahead)
	if first, err := h.Reopen(t).Use(t.Context(), id, expires); first || !errors.Is(err, replay.ErrSwept) {
		t.Fatalf("Use of a swept id after a restart = %v, %v; want ErrSwept", first, err)
	}
}

func (h *Harness) peer(t *testing.T) replay.Store {
	t.Helper()
	if h.Peer == nil {
		t.Skip("needs a store that replicas share: set Harness.Peer")
	}
	return h.Peer(t)
}

func testPeer(t *testing.T, h *Harness) {
	peer := h.peer(t)
	for range 5 {
		id, expires := freshID(), h.live()
		use(t, h.Store, id, expires, true)
		use(t, peer, id, expires, false)
		id = freshID()
		use(t, peer, id, expires, true)
		use(t, h.Store, id, expires, false)
	}
}

func testPeerConcurrent(t *testing.T, h *Harness) { race(t, h, h.Store, h.peer(t)) }

func testPeerMark(t *testing.T, h *Harness) {
	h.needSweep(t)
	peer := h.peer(t)
	id, expires := freshID(), h.now().Add(time.Minute)
	use(t, peer, id, expires, true)
	ahead := time.Hour + h.Skew
	h.Clock.Advance(ahead)
	h.sweep(t)
	h.Clock.Advance(-ahead)
	if first, err := peer.Use(t.Context(), id, expires); first || !errors.Is(err, replay.ErrSwept) {
		t.Fatalf("Use on a peer of an id that was swept = %v, %v; want ErrSwept", first, err)
	}
}

func testFull(t *testing.T, h *Harness) {
	if h.Full == nil {
		t.Skip("needs a store that can be filled: set Harness.Full")
	}
	expires := h.now().Add(time.Minute)
	h.Full(t)
	var spent [][]byte
	full := false
	refused := freshID()
	for range 1000 {
		id := freshID()
		first, err := h.Store.Use(t.Context(), id, expires)
		if err != nil {
			if first || !errors.Is(err, replay.ErrFull) {
				t.Fatalf("Use of a full store = %v, %v; want ErrFull", first, err)
			}
			full, refused = true, id
			break
		}
		if !first {
			t.Fatal("Use of a fresh id = false")
		}
		spent = append(spent, id)
	}
	if !full {
		t.Fatal("store took a thousand ids; it does not refuse, or the harness does not fill it")
	}
	for range 5 {
		if first, err := h.Store.Use(t.Context(), refused, expires); first || err == nil {
			t.Fatalf("Use of a full store = %v, %v; want an error", first, err)
		}
	}
	for _, id := range spent {
		never(t, h.Store, id, expires)
	}
	if h.Clock == nil {
		return
	}
	h.Clock.Advance(time.Minute + h.Skew - 2*time.Second)
	for _, id := range spent { // full or not, nothing goes before its time
		never(t, h.Store, id, expires)
	}
}

func testBroken(t *testing.T, h *Harness) {
	if h.Break == nil {
		t.Skip("needs a backend that can be taken away: set Harness.Break")
	}
	expires := h.live()
	spent, fresh := freshID(), freshID()
	use(t, h.Store, spent, expires, true)
	restore := h.Break(t)
	for _, id := range [][]byte{spent, fresh} {
		if first, err := h.Store.Use(t.Context(), id, expires); first || err == nil {
			t.Errorf("Use without a backend = %v, %v; want an error", first, err)
		}
	}
	if p, ok := h.Store.(replay.Pinger); ok {
		if err := p.Ping(t.Context()); err == nil {
			t.Error("Ping without a backend = nil, want an error")
		}
	}
	restore()
	use(t, h.Store, spent, expires, false)
	// The failed call may have spent the ID, but only if it was left unsure.
	if _, err := h.Store.Use(t.Context(), fresh, expires); err != nil {
		t.Fatalf("Use after the backend came back: %v", err)
	}
	use(t, h.Store, fresh, expires, false)
	use(t, h.Store, freshID(), expires, true)
}

// testErrors provokes every error that it can and reads it as a log would show it.
func testErrors(t *testing.T, h *Harness) {
	id, expires := freshID(), h.now().Truncate(time.Second).Add(time.Minute)
	long := append(freshID(), make([]byte, replay.MaxIDLen)...)
	read := func(what string, id []byte, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("Use %s: no error", what)
			return
		}
		checkText(t, fmt.Sprintf("error of Use %s", what), fmt.Sprintf("%v %+v %#v", err, err, err), id, h.Secret)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.Store.Use(ctx, id, expires)
	read("with a cancelled context", id, err)
	_, err = h.Store.Use(t.Context(), long, expires)
	read("with a long id", long, err)
	use(t, h.Store, id, expires, true)
	if h.Break != nil {
		restore := h.Break(t)
		_, err := h.Store.Use(t.Context(), id, expires)
		read("without a backend", id, err)
		if p, ok := h.Store.(replay.Pinger); ok {
			if err := p.Ping(t.Context()); err != nil {
				checkText(t, "error of Ping without a backend", fmt.Sprintf("%v %+v %#v", err, err, err), id, h.Secret)
			}
		}
		restore()
	}
	if h.Clock != nil && h.Sweep != nil {
		h.Clock.Advance(time.Minute + h.Skew + time.Second)
		h.sweep(t)
		_, err := h.Store.Use(t.Context(), id, expires)
		read("after the sweep", id, err)
	}
	if h.Full == nil {
		return
	}
	h.Full(t)
	for range 1000 {
		id := freshID()
		if _, err := h.Store.Use(t.Context(), id, h.live()); err != nil {
			read("of a full store", id, err)
			return
		}
	}
	t.Error("store took a thousand ids; it does not refuse, or the harness does not fill it")
}

// checkText fails if text contains id in any of the spellings that a program is
// likely to print, or secret.
func checkText(t *testing.T, what, text string, id []byte, secret string) {
	t.Helper()
	leaks := []string{string(id), fmt.Sprint(id), fmt.Sprintf("%#v", id), hex.EncodeToString(id)}
	for _, quoted := range []string{fmt.Sprintf("%q", id), fmt.Sprintf("%+q", id)} {
		leaks = append(leaks, strings.Trim(quoted, `"`))
	}
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		leaks = append(leaks, e.EncodeToString(id))
	}
	if secret != "" {
		leaks = append(leaks, secret)
	}
	for _, leak := range leaks {
		if strings.Contains(strings.ToLower(text), strings.ToLower(leak)) {
			t.Errorf("%s contains what must stay secret", what)
			return
		}
	}
}
