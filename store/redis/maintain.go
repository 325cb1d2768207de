package redis

import (
	"context"
	"strings"
	"time"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/store"
)

// sweepChunk bounds what one step of Sweep deletes of each table, so that other
// callers get their turn in between.
const sweepChunk = 1000

// Sweep forgets everything whose time has come, and in the same steps raises the
// marks that keep it from coming back. Nobody needs to call it, as calls sweep a
// little in passing; it gives memory back at a chosen moment. On an error the result
// says what was forgotten before it.
func (s *Store) Sweep(ctx context.Context) (store.Swept, error) {
	var total store.Swept
	for {
		n, err := s.sweep(ctx, sweepChunk)
		if err != nil {
			return total, err
		}
		total.Spent += n.Spent
		total.Claims += n.Claims
		total.Handles += n.Handles
		total.Operations += n.Operations
		if max(n.Spent, n.Claims, n.Handles, n.Operations) < sweepChunk {
			return total, nil
		}
	}
}

func (s *Store) sweep(ctx context.Context, limit int) (n store.Swept, err error) {
	reply, err := s.do(ctx, scriptSweep, millisUp(s.opts.Skew), limit)
	if err != nil {
		return n, err
	}
	for i, to := range []*int64{&n.Spent, &n.Claims, &n.Handles, &n.Operations} {
		if *to, err = number(field(reply, i+1)); err != nil {
			return n, err
		}
	}
	return n, nil
}

// restoredFence is by how much Restored raises a fence. Processes that took the
// operation over after the backup was made have numbers above the one in it, and
// must not match.
const restoredFence = 1 << 32

// Restored says that the database was restored from an older backup, that a replica
// was promoted which may lack something, or that everything was lost: from now on
// every token minted before this moment and Options.Skew is refused, as it may have
// been spent, by Use if the ID has 16 bytes and by Begin. It deletes parked claims
// and handles, of which some may have been redeemed or given up since, and turns what
// was executing into unknown, shutting out the processes that executed it or had taken
// over what was unknown. Such operations are not resumed, as steps may have been done
// since the backup: they stay unknown until an operator resolves them. It is one step
// of the server, which does nothing else meanwhile. Run it before anybody redeems. It
// returns the moment before which tokens are refused, which only ever rises.
func (s *Store) Restored(ctx context.Context) (before time.Time, err error) {
	reply, err := s.do(ctx, scriptRestored, millisUp(s.opts.Skew), restoredFence)
	if err != nil {
		return time.Time{}, err
	}
	return timeAt(field(reply, 1))
}

// Stats returns figures of the database. Claims and handles are those that have not
// expired, and SizeBytes is the memory of the whole server. It reads the first bytes
// of every row that is kept for others.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	st := store.Stats{Backend: "redis", Schema: schemaVersion, Keys: map[string]int64{}}
	reply, err := s.do(ctx, scriptStats)
	if err != nil {
		return store.Stats{}, err
	}
	var swept, restored int64
	for i, to := range []*int64{&st.Spent, &st.Claims, &st.Handles, &st.Executing, &st.Succeeded, &st.Failed, &st.Unknown, &st.ClaimBytes, &swept, &restored} {
		if *to, err = number(field(reply, i+1)); err != nil {
			return store.Stats{}, err
		}
	}
	if swept > 0 {
		st.SweptUntil = time.UnixMilli(swept)
	}
	if restored > 0 {
		st.RestoredAt = time.UnixMilli(restored)
	}
	if st.SizeBytes, err = s.memory(ctx); err != nil {
		return store.Stats{}, err
	}
	err = s.rows(ctx, true, func(r *row) error {
		for _, c := range r.contents {
			if sealed, ok := strings.CutPrefix(c.stored, string(formSealed)); ok {
				st.Keys[atrest.KeyID([]byte(sealed))]++
			}
		}
		return nil
	})
	if err != nil {
		return store.Stats{}, err
	}
	return st, nil
}

func (s *Store) memory(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	node, err := s.node(ctx)
	if err != nil {
		return 0, readable(err)
	}
	info, err := node.Info(ctx, "memory").Result()
	if err != nil {
		return 0, readable(err)
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			return number(v)
		}
	}
	return 0, nil
}
