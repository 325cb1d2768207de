package openbao

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A Sweeper forgets what a [Replay] remembers, once its time is over. Its client needs
// the role "sweeper", which no server that redeems should have: what it deletes is
// free to be used again. One process sweeps; several do no harm.
//
// An ID is forgotten when the Sweeper's own clock has passed its expiry by twice
// Options.Skew: once because a Guard's clock may be behind, once because the server's
// may, by which late calls are told. Before it deletes anything it raises the mark at
// and below which every ID is refused.
//
// A Sweeper whose clock runs ahead by more makes tokens be refused until time has
// caught up: it fails closed.
type Sweeper struct {
	kv  kv
	o   ReplayOptions
	one sync.Mutex
	// live is when each entry that was found expires, so that the next sweep need not
	// read it again. It is bounded by maxLive.
	live map[string]int64
}

// maxLive is how many entries a Sweeper remembers, about 100 bytes each.
const maxLive = 1 << 20

// OpenSweeper returns a sweeper of the mount of a [Replay], with the same options.
func OpenSweeper(c *Client, mount string, opts *ReplayOptions) (*Sweeper, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	if !validMount(mount) {
		return nil, fmt.Errorf("openbao: %q is no mount: it has one part, of letters, digits, dots, dashes and underscores", clean(mount))
	}
	return &Sweeper{kv: kv{c, mount}, o: o, live: make(map[string]int64)}, nil
}

// Sweep forgets what it may and returns how many IDs that were. Each costs a read and
// a delete, once. An error in between leaves the rest to the next sweep.
func (s *Sweeper) Sweep(ctx context.Context) (forgotten int, err error) {
	s.one.Lock()
	defer s.one.Unlock()
	upTo := s.o.Now().Add(-2 * s.o.Skew).UnixMilli() // rounded down
	if _, err := raiseMark(ctx, &s.kv, mark{Swept: upTo}); err != nil {
		return 0, err
	}
	dirs, err := s.list(ctx, spentPath)
	if err != nil {
		return 0, err
	}
	seen := make(map[string]int64, len(s.live))
	for _, dir := range dirs {
		names, err := s.list(ctx, spentPath+dir)
		if err != nil {
			return forgotten, err
		}
		for _, name := range names {
			path := spentPath + dir + name
			until, ok := s.live[path]
			if !ok {
				if until, ok, err = s.expires(ctx, path); err != nil {
					return forgotten, err
				}
			}
			// The mark may be higher, by another sweeper's clock. This one goes by
			// its own.
			if !ok || until > upTo {
				if ok && len(seen) < maxLive {
					seen[path] = until
				}
				continue
			}
			if err := s.forget(ctx, path); err != nil {
				return forgotten, err
			}
			forgotten++
		}
	}
	s.live = seen
	return forgotten, nil
}

// Run sweeps every so often until ctx ends, and reports errors to the client's logger.
func (s *Sweeper) Run(ctx context.Context, every time.Duration) {
	failing := false
	for {
		switch n, err := s.Sweep(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			failing = true
			s.kv.c.log.Warn("OpenBao sweep failed", "error", err)
		case err == nil:
			failing = false
			s.kv.c.log.Debug("OpenBao swept", "forgotten", n)
		}
		if !pause(ctx, max(every, time.Second)) {
			return
		}
	}
}

// Restored records that the mount was restored from a backup: IDs minted before now,
// by the Sweeper's clock, are refused for good, since the backup may not know that they
// were spent. It returns that time.
func (s *Sweeper) Restored(ctx context.Context) (before time.Time, err error) {
	before = time.UnixMilli(s.o.Now().UnixMilli() + 1) // all of this millisecond are before it
	_, err = raiseMark(ctx, &s.kv, mark{Restored: before.UnixMilli()})
	return before, err
}

// list returns the names below path, those that go on with a slash behind them.
func (s *Sweeper) list(ctx context.Context, path string) ([]string, error) {
	const op = "list what was spent"
	a, err := s.kv.c.do(ctx, &request{op: op, method: "LIST", path: s.kv.mount + "/metadata/" + path})
	if status(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var doc struct {
		Data struct {
			Keys []string `json:"keys"`
		} `json:"data"`
	}
	if json.Unmarshal(a.body, &doc) != nil {
		return nil, errAnswer(op, a)
	}
	for _, name := range doc.Data.Keys {
		if !validPart(strings.TrimSuffix(name, "/")) {
			return nil, &Error{Op: op, hint: "the mount holds what is not foil's: give foil a mount of its own", cause: ErrUnavailable}
		}
	}
	return doc.Data.Keys, nil
}

// expires reads when an entry expires. What is not there any more is not ok.
func (s *Sweeper) expires(ctx context.Context, path string) (until int64, ok bool, err error) {
	e, err := s.kv.read(ctx, "look up what was spent", path)
	if err != nil || e == nil {
		return 0, false, err
	}
	if e.data == nil || json.Unmarshal(e.data["expires"], &until) != nil {
		// Nobody of ours writes such an entry. It stays: an ID that is never free
		// again does no harm.
		return 0, false, nil
	}
	return until, true, nil
}

func (s *Sweeper) forget(ctx context.Context, path string) error {
	_, err := s.kv.c.do(ctx, &request{op: "forget what was spent", method: "DELETE", path: s.kv.mount + "/metadata/" + path})
	return err
}

// Format keeps what is inside out of every verb.
func (s *Sweeper) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("openbao.Sweeper")) }
