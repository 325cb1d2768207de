package replaytest

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/foilmcp/foil/replay"
)

// seesAttempts fails unless another store knows what d spends, and how.
func (h *Harness) seesAttempts(t *testing.T, d replay.Deferrer, another func(t *testing.T) replay.Store) {
	t.Helper()
	expires, attempt, plain, marked := h.live(), freshAttempt(), freshID(), freshID()
	use(t, d, plain, expires, true)
	useAs(t, d, marked, expires, attempt, true)
	other := deferrer(t, another(t))
	attempted(t, other, plain, nil)
	attempted(t, other, marked, attempt)
	useAs(t, other, marked, expires, freshAttempt(), false)
	useAs(t, other, marked, expires, attempt, true)
	useAs(t, other, plain, expires, attempt, false)
}

func testAttemptRestart(t *testing.T, h *Harness, d replay.Deferrer) {
	if h.Reopen == nil {
		t.Skip("needs a durable store: set Harness.Reopen")
	}
	h.seesAttempts(t, d, h.Reopen)
}

func testAttemptPeer(t *testing.T, h *Harness, d replay.Deferrer) {
	peer := h.peer(t)
	h.seesAttempts(t, d, func(*testing.T) replay.Store { return peer })
	h.seesAttempts(t, deferrer(t, peer), func(*testing.T) replay.Store { return d })
}

func testAttemptBroken(t *testing.T, h *Harness, d replay.Deferrer) {
	if h.Break == nil {
		t.Skip("needs a backend that can be taken away: set Harness.Break")
	}
	expires, id, attempt, fresh := h.live(), freshID(), freshAttempt(), freshID()
	useAs(t, d, id, expires, attempt, true)
	restore := h.Break(t)
	for _, id := range [][]byte{id, fresh} {
		if first, err := d.UseAs(t.Context(), id, expires, attempt); first || err == nil {
			t.Errorf("UseAs without a backend = %v, %v; want an error", first, err)
		}
		if _, spent, err := d.Attempt(t.Context(), id); spent || err == nil {
			t.Errorf("Attempt without a backend: spent %v, error %v; want an error", spent, err)
		}
	}
	restore()
	attempted(t, d, id, attempt)
	useAs(t, d, fresh, expires, attempt, true) // whether or not the call that failed had spent it
	useAs(t, d, fresh, expires, freshAttempt(), false)
}

func testAttemptErrors(t *testing.T, h *Harness, d replay.Deferrer) {
	id, expires, attempt := freshID(), h.live(), freshAttempt()
	read := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", what)
			return
		}
		text := fmt.Sprintf("%v %+v %#v", err, err, err)
		checkText(t, "error of "+what, text, id, h.Secret)
		checkText(t, "error of "+what, text, attempt, h.Secret)
	}
	_, err := d.UseAs(t.Context(), id, expires, append(bytes.Clone(attempt), 0))
	read("UseAs with a long attempt", err)
	_, err = d.UseAs(t.Context(), id, time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), attempt)
	read("UseAs with a far expires", err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = d.UseAs(ctx, id, expires, attempt)
	read("UseAs with a cancelled context", err)
	_, _, err = d.Attempt(ctx, id)
	read("Attempt with a cancelled context", err)
	if h.Break == nil {
		return
	}
	restore := h.Break(t)
	_, err = d.UseAs(t.Context(), id, expires, attempt)
	read("UseAs without a backend", err)
	_, _, err = d.Attempt(t.Context(), id)
	read("Attempt without a backend", err)
	restore()
}
