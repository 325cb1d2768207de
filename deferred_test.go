package foil_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil"
)

// A deferStore is the least store whose IDs can be spent in a transaction.
type deferStore struct {
	mu    sync.Mutex
	rows  map[string][]byte
	fail  error
	after func() // called once an attempt was looked for
}

func (d *deferStore) Use(ctx context.Context, id []byte, expires time.Time) (bool, error) {
	return d.UseAs(ctx, id, expires, nil)
}

func (d *deferStore) UseAs(_ context.Context, id []byte, _ time.Time, attempt []byte) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return use(d.rows, id, attempt), d.fail
}

func use(rows map[string][]byte, id, attempt []byte) bool {
	if had, ok := rows[string(id)]; ok {
		return attempt != nil && string(had) == string(attempt)
	}
	rows[string(id)] = append([]byte(nil), attempt...)
	return true
}

func (d *deferStore) Attempt(_ context.Context, id []byte) ([]byte, bool, error) {
	d.mu.Lock()
	a, ok := d.rows[string(id)]
	err, after := d.fail, d.after
	d.after = nil
	d.mu.Unlock()
	if after != nil {
		after()
	}
	return a, ok, err
}

// A deferTx sees what is committed and its own writes.
type deferTx struct {
	store *deferStore
	id    []byte
	as    []byte
}

func (tx *deferTx) UseAs(_ context.Context, id []byte, _ time.Time, attempt []byte) (bool, error) {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	if _, ok := tx.store.rows[string(id)]; ok {
		return false, nil
	}
	tx.id, tx.as = id, attempt
	return true, nil
}

// commit fails if another was faster, as a database does.
func (tx *deferTx) commit() bool {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	return use(tx.store.rows, tx.id, tx.as)
}

func newDeferred(t *testing.T) (*bench, *deferStore) {
	d := &deferStore{rows: make(map[string][]byte)}
	return newBench(t, func(o *foil.Options) { o.Once, o.Replay = foil.Deferred, d }), d
}

func open(t *testing.T, b *bench, token string) *foil.Opened {
	t.Helper()
	o, err := b.Open(ctx, answering(accepted), token)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestDeferred(t *testing.T) {
	b, d := newDeferred(t)
	token := b.seal(t, purge(), confirm())

	// Two presentations at once: Open spends neither.
	one, two := open(t, b, token), open(t, b, token)
	tx := &deferTx{store: d}
	if err := one.Redeem(ctx, tx); err != nil {
		t.Fatal(err)
	}
	if !tx.commit() {
		t.Fatal("commit")
	}
	if err := one.Conclude(ctx, foil.Conclusion{}); err != nil {
		t.Errorf("the one that committed: %v", err)
	}
	wantReason(t, two.Redeem(ctx, &deferTx{store: d}), foil.ReasonReplayed)
	wantReason(t, two.Conclude(ctx, foil.Conclusion{}), foil.ReasonReplayed)
	late := open(t, b, token)
	wantReason(t, late.Redeem(ctx, nil), foil.ReasonReplayed)
	wantReason(t, late.Conclude(ctx, foil.Conclusion{}), foil.ReasonReplayed)
}

// A handler that does not commit has its result withheld, and the state is spent.
func TestDeferredNotRedeemed(t *testing.T) {
	for _, c := range []struct {
		name   string
		redeem func(*foil.Opened, *deferStore)
	}{
		{"not called", func(*foil.Opened, *deferStore) {}},
		{"rolled back", func(o *foil.Opened, d *deferStore) { _ = o.Redeem(ctx, &deferTx{store: d}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, d := newDeferred(t)
			token := b.seal(t, purge(), confirm())
			o := open(t, b, token)
			c.redeem(o, d)
			err := o.Conclude(ctx, foil.Conclusion{Result: []byte(`1`)})
			if !errors.Is(err, foil.ErrUnavailable) || foil.Wire(err).Code != -32603 {
				t.Errorf("concluded: %v", err)
			}
			if !strings.Contains(b.log.String(), "had not committed Opened.Redeem") {
				t.Errorf("log: %s", &b.log)
			}
			wantReason(t, open(t, b, token).Redeem(ctx, &deferTx{store: d}), foil.ReasonReplayed)
		})
	}
}

// A transaction that commits while Conclude looks has spent the state, and its
// result is told; another one's is not.
func TestDeferredCommitsLate(t *testing.T) {
	for _, own := range []bool{true, false} {
		b, d := newDeferred(t)
		token := b.seal(t, purge(), confirm())
		o, other := open(t, b, token), open(t, b, token)
		tx := &deferTx{store: d}
		if !own {
			other, o = o, other
		}
		by := map[bool]*foil.Opened{true: o, false: other}[own]
		if err := by.Redeem(ctx, tx); err != nil {
			t.Fatal(err)
		}
		d.after = func() { tx.commit() }
		err := o.Conclude(ctx, foil.Conclusion{})
		if own && err != nil {
			t.Errorf("own transaction: %v", err)
		}
		if !own {
			wantReason(t, err, foil.ReasonReplayed)
		}
	}
}

// Another presentation that committed in between wins, even over a handler that
// believes to have redeemed.
func TestDeferredLostCommit(t *testing.T) {
	b, d := newDeferred(t)
	token := b.seal(t, purge(), confirm())
	one, two := open(t, b, token), open(t, b, token)
	tx1, tx2 := &deferTx{store: d}, &deferTx{store: d}
	for o, tx := range map[*foil.Opened]*deferTx{one: tx1, two: tx2} {
		if err := o.Redeem(ctx, tx); err != nil {
			t.Fatal(err)
		}
	}
	if !tx1.commit() || tx2.commit() {
		t.Fatal("the fake database lets both commit")
	}
	if err := one.Conclude(ctx, foil.Conclusion{}); err != nil {
		t.Error(err)
	}
	wantReason(t, two.Conclude(ctx, foil.Conclusion{}), foil.ReasonReplayed)
}

func TestDeferredDecline(t *testing.T) {
	b, d := newDeferred(t)
	token := b.seal(t, purge(), confirm())
	o := open(t, b, token)
	for range 2 {
		if err := o.Redeem(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Conclude(ctx, foil.Conclusion{}); err != nil {
		t.Error(err)
	}
	wantReason(t, open(t, b, token).Redeem(ctx, &deferTx{store: d}), foil.ReasonReplayed)

	d.fail = errDisk
	o = open(t, b, b.seal(t, purge(), confirm()))
	if err := o.Conclude(ctx, foil.Conclusion{}); !errors.Is(err, foil.ErrUnavailable) {
		t.Errorf("a store that is away: %v", err)
	}
	if err := o.Redeem(ctx, nil); !errors.Is(err, foil.ErrUnavailable) || errors.Is(err, foil.ErrInvalid) {
		t.Errorf("a store that is away: %v", err)
	}
}

// In every other mode Redeem has nothing to do, and cannot be asked to.
func TestRedeemElsewhere(t *testing.T) {
	b := newBench(t, nil)
	o := open(t, b, b.seal(t, purge(), confirm()))
	if err := o.Redeem(ctx, nil); err != nil {
		t.Error(err)
	}
	if err := o.Redeem(ctx, &deferTx{}); err == nil {
		t.Error("a transaction under Once: Redeem")
	}
}

// What Redeem has told the handler, the client is told.
func TestDeferredTold(t *testing.T) {
	r := new(recorder)
	b := newBench(t, func(o *foil.Options) {
		o.Once, o.Replay, o.Observer = foil.Deferred, &deferStore{rows: make(map[string][]byte)}, r
	})
	o := open(t, b, b.seal(t, purge(), confirm()))
	wantReason(t, o.Redeem(ctx, spentTx{}), foil.ReasonReplayed)
	r.take()
	wantReason(t, o.Conclude(ctx, foil.Conclusion{}), foil.ReasonReplayed)
	if got := r.take(); !strings.HasPrefix(got, "rejected conclude purge_objects flow=true round=1") || !strings.HasSuffix(got, "replayed") {
		t.Errorf("the observer is told %q", got)
	}
}

type spentTx struct{}

func (spentTx) UseAs(context.Context, []byte, time.Time, []byte) (bool, error) { return false, nil }
