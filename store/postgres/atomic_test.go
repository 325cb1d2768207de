package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// The fence is checked by one statement and the step written by the next, and each
// sees what is committed by then: a fence that becomes the operation's in between
// lets nothing in.
func TestFenceBetweenStatements(t *testing.T) {
	for name, call := range map[string]func(l ledger.Store, id [ledger.IDLen]byte) error{
		"BeginStep": func(l ledger.Store, id [ledger.IDLen]byte) error {
			_, err := l.BeginStep(t.Context(), id, 2, "a", time.Minute)
			return err
		},
		"EndStep": func(l ledger.Store, id [ledger.IDLen]byte) error {
			return l.EndStep(t.Context(), id, 2, "a", []byte("x"), time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.opts.MaxConns = 1
			l := w.open(t).Ledger()
			s := newStart()
			if _, started, err := l.Begin(t.Context(), s); err != nil || !started {
				t.Fatalf("Begin = %v, %v", started, err)
			}
			// Preparing a statement takes its locks too: let it be done before.
			if _, err := l.BeginStep(t.Context(), s.ID, 1, "warm", time.Minute); err != nil {
				t.Fatal(err)
			}
			if err := l.EndStep(t.Context(), s.ID, 1, "warm", nil, time.Minute); err != nil {
				t.Fatal(err)
			}
			unlock := w.lock(t, "step")
			done := make(chan error, 1)
			go func() { done <- call(l, s.ID) }()
			w.waiting(t, 1)
			w.sql(t, "UPDATE {s}.operation SET fence = 2")
			unlock()
			if err := <-done; !errors.Is(err, ledger.ErrFenced) {
				t.Errorf("under a fence that was nobody's yet: %v, want ErrFenced", err)
			}
			op, err := l.Get(t.Context(), s.ID)
			if err != nil || len(op.Steps) != 1 {
				t.Errorf("it wrote %v, %v", op, err)
			}
		})
	}
}
