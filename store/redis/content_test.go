//go:build unix

package redis_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store"
	"github.com/foilmcp/foil/store/redis"
)

// bare opens a store without saying how content is kept.
func bare(t *testing.T, srv *redistest.Server, opts redis.Options) *redis.Store {
	t.Helper()
	opts.Timeout = time.Minute
	s, err := redis.Open(t.Context(), srv.URL(), &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestContentIsNotKeptUnlessSomebodySaysHow(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	s, keeps := bare(t, srv, redis.Options{}), bare(t, srv, redis.Options{PlainAtRest: true}).Ledger()
	use(t, s, freshID(), true) // holds no content
	id, unknown := [16]byte(freshID()), [16]byte(freshID())
	for _, id := range [][16]byte{id, unknown} {
		if _, _, err := keeps.Begin(t.Context(), start(id[:])); err != nil {
			t.Fatal(err)
		}
	}
	if err := keeps.Finish(t.Context(), unknown, 1, ledger.Finish{State: ledger.Unknown}); err != nil {
		t.Fatal(err)
	}
	_, started, begun := s.Ledger().Begin(t.Context(), start(freshID()))
	if started {
		t.Error("an operation began whose outcome could not be kept")
	}
	_, resumed := s.Ledger().Resume(t.Context(), unknown, 1, time.Hour)
	_, issued := s.Claims().Issue(t.Context(), []byte("plan"), time.Hour)
	for what, err := range map[string]error{
		"Issue":        issued,
		"Begin":        begun,
		"Resume":       resumed,
		"Put":          s.Handles().Put(t.Context(), [32]byte{}, []byte("x"), time.Now().Add(time.Hour)),
		"EndStep":      s.Ledger().EndStep(t.Context(), id, 1, "step", []byte("x"), time.Hour),
		"Finish":       s.Ledger().Finish(t.Context(), id, 1, ledger.Finish{State: ledger.Failed, Outcome: []byte{}}),
		"Claims.Ping":  s.Claims().Ping(t.Context()),
		"Handles.Ping": s.Handles().Ping(t.Context()),
		"Ledger.Ping":  s.Ledger().Ping(t.Context()),
	} {
		if err == nil || !contains(err.Error(), "AtRest") || !contains(err.Error(), "PlainAtRest") {
			t.Errorf("%s: %v; want an error that says what to set", what, err)
		}
	}
	if op, err := keeps.Get(t.Context(), unknown); err != nil || op.State != ledger.Unknown || op.Fence != 1 {
		t.Errorf("after all that, what is unknown is %+v, %v", op, err)
	}
}

// write writes content of every kind.
func write(t *testing.T, s *redis.Store, id [16]byte, key [32]byte, content []byte) (claim string) {
	t.Helper()
	claim, err := s.Claims().Issue(t.Context(), content, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Handles().Put(t.Context(), key, content, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	l := s.Ledger()
	if _, _, err := l.Begin(t.Context(), start(id[:])); err != nil {
		t.Fatal(err)
	}
	if err := l.EndStep(t.Context(), id, 1, "step", content, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := l.Finish(t.Context(), id, 1, ledger.Finish{State: ledger.Succeeded, Outcome: content}); err != nil {
		t.Fatal(err)
	}
	return claim
}

func TestSealedAndPlainAreNotConfused(t *testing.T) {
	content := []byte("what nobody may see at rest")
	for name, o := range map[string][2]redis.Options{
		"plain to one that seals": {{PlainAtRest: true}, {AtRest: sealer(t)}},
		"sealed to a plain one":   {{AtRest: sealer(t)}, {PlainAtRest: true}},
		"sealed to one of none":   {{AtRest: sealer(t)}, {}},
	} {
		t.Run(name, func(t *testing.T) {
			srv := redistest.Start(t, redistest.Durable...)
			id, key := [16]byte(freshID()), [32]byte(append(freshID(), freshID()...))
			s := bare(t, srv, o[0])
			claim := write(t, s, id, key, content)
			if seen := bytes.Contains(srv.Files(t), content); seen == (o[0].AtRest != nil) {
				t.Errorf("content can be seen at rest: %v", seen)
			}
			other := bare(t, srv, o[1])
			if got, err := other.Claims().Redeem(t.Context(), claim, "me"); err == nil || got != nil {
				t.Error("Redeem took it")
			}
			if got, found, err := other.Handles().Get(t.Context(), key); err == nil || found || got != nil {
				t.Error("Get of a handle took it")
			}
			if op, err := other.Ledger().Get(t.Context(), id); err == nil || op != nil {
				t.Error("Get of an operation took it")
			}
			if err := other.Ledger().Finish(t.Context(), id, 1, ledger.Finish{State: ledger.Succeeded}); err == nil {
				t.Error("Finish took it")
			}
			// The one that wrote it still has it.
			if op, err := s.Ledger().Get(t.Context(), id); err != nil || !bytes.Equal(op.Outcome, content) || !bytes.Equal(op.Steps[0].Result, content) {
				t.Errorf("Get by the one that wrote it: %v", err)
			}
		})
	}
}

// TestContentIsBoundToItsPlace moves sealed content from one row to another.
func TestContentIsBoundToItsPlace(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	s := open(t, srv, redis.Options{})
	c := srv.Client(t)
	a, b := [16]byte(freshID()), [16]byte(freshID())
	write(t, s, a, [32]byte{1}, []byte("of a"))
	write(t, s, b, [32]byte{2}, []byte("of b"))
	copyField := func(fromKey, from, toKey, to string) {
		t.Helper()
		v, err := c.HGet(t.Context(), "{foil:}"+fromKey, from).Result()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.HSet(t.Context(), "{foil:}"+toKey, to, v).Err(); err != nil {
			t.Fatal(err)
		}
	}
	get := func(id [16]byte) error { _, err := s.Ledger().Get(t.Context(), id); return err }
	c3 := [16]byte(freshID())
	if _, _, err := s.Ledger().Begin(t.Context(), start(c3[:])); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		if err := s.Ledger().EndStep(t.Context(), c3, 1, name, []byte(name), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	copyField("result:"+string(c3[:]), "one", "result:"+string(c3[:]), "two")
	if err := get(c3); !errors.Is(err, atrest.ErrSealed) {
		t.Errorf("result of another step: %v; want ErrSealed", err)
	}
	copyField("op:"+string(a[:]), "outcome", "op:"+string(b[:]), "outcome")
	if err := get(b); !errors.Is(err, atrest.ErrSealed) {
		t.Errorf("outcome of another operation: %v; want ErrSealed", err)
	}
	copyField("op:"+string(a[:]), "outcome", "result:"+string(a[:]), "step")
	if err := get(a); !errors.Is(err, atrest.ErrSealed) {
		t.Errorf("outcome as the result of a step: %v; want ErrSealed", err)
	}
	copyField("handle:"+string(append([]byte{1}, make([]byte, 31)...)), "payload", "handle:"+string(append([]byte{2}, make([]byte, 31)...)), "payload")
	if _, found, err := s.Handles().Get(t.Context(), [32]byte{2}); found || !errors.Is(err, atrest.ErrSealed) {
		t.Errorf("payload of another handle: %v; want ErrSealed", err)
	}
	var seen []store.Problem
	if err := s.Fsck(t.Context(), func(p store.Problem) error { seen = append(seen, p); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 4 {
		t.Errorf("Fsck found %d problems, want 4: %v", len(seen), seen)
	}
}
