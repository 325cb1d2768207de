package openbao

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/foilmcp/foil/replay"
)

// Paths in the mount of a [Replay].
const (
	spentPath = "spent/" // an entry for each ID: two hexadecimal digits, a slash, the rest
	markPath  = "mark"   // what may have been forgotten
	pingPath  = "ping"   // written by Ping
)

// ReplayOptions are the options of [OpenReplay] and [OpenSweeper]; nil means the
// defaults. All processes of a mount must have the same Skew.
type ReplayOptions struct {
	// Skew is the largest difference between any two clocks, the server's
	// included. Zero means replay.DefaultSkew.
	Skew time.Duration
	// Now is the clock of the Sweeper; time.Now if nil. A Replay has no clock.
	Now func() time.Time
}

func (opts *ReplayOptions) complete() (o ReplayOptions, err error) {
	if opts != nil {
		o = *opts
	}
	if o.Skew < 0 {
		return o, errors.New("openbao: ReplayOptions.Skew is negative")
	}
	if o.Skew == 0 {
		o.Skew = replay.DefaultSkew
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

// Replay remembers spent tokens: each is an entry of a KV engine (version 2) of its
// own that is created with check-and-set 0, which succeeds once. It implements
// [replay.Store] and is safe for concurrent use by many processes.
//
// A call is a write and, after it, a read of the sweep mark, which calls of the same
// moment share. An entry that a stalled call creates after it was forgotten is thereby
// found to be at or below the mark, which is raised before anything is forgotten; and,
// should a standby answer that read with an older mark, to be created by the server's
// own clock after its time.
//
// Nothing here forgets. The role of the client must not delete: deleting an entry's
// metadata is the only way to remove it, and frees the ID. A [Sweeper] does that, in a
// role of its own, when the ID's time is over.
type Replay struct {
	kv   kv
	skew time.Duration
	mark latest[mark]
}

var (
	_ replay.Store  = (*Replay)(nil)
	_ replay.Pinger = (*Replay)(nil)
)

// OpenReplay returns the store in a mount that nothing else uses. Its client needs the
// role "spender".
func OpenReplay(c *Client, mount string, opts *ReplayOptions) (*Replay, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	if !validMount(mount) {
		return nil, fmt.Errorf("openbao: %q is no mount: it has one part, of letters, digits, dots, dashes and underscores", clean(mount))
	}
	r := &Replay{kv: kv{c, mount}, skew: o.Skew}
	r.mark.read = func(ctx context.Context) (mark, error) {
		m, _, err := readMark(ctx, &r.kv)
		return m, err
	}
	return r, nil
}

// spentAt is the path of an ID. It tells nothing of the ID.
func spentAt(id []byte) string {
	sum := sha256.Sum256(id)
	text := hex.EncodeToString(sum[:])
	return spentPath + text[:2] + "/" + text[2:]
}

// A spentEntry is what is kept for an ID: who created it and when it expires, in Unix
// milliseconds, rounded up.
type spentEntry struct {
	Attempt string `json:"attempt"`
	Expires int64  `json:"expires"`
}

// Use implements [replay.Store].
func (r *Replay) Use(ctx context.Context, id []byte, expires time.Time) (first bool, err error) {
	if err := replay.Check(id, expires); err != nil {
		return false, err
	}
	until := ceilMillis(expires)
	if until < 0 {
		return false, replay.ErrSwept
	}
	if err := ctx.Err(); err != nil {
		return false, &Error{Op: "spend", cause: err}
	}
	// The deadline is for the whole: the write, the read, and finding out what
	// became of a lost answer.
	ctx, cancel := r.kv.c.deadline(ctx)
	defer cancel()
	first, created, err := r.create(ctx, spentAt(id), until)
	if err != nil {
		return false, err
	}
	m, err := r.mark.get(ctx)
	if err != nil {
		if as(err) == nil {
			err = transportError(ctx, "read sweep mark", err)
		}
		return false, err
	}
	if err := m.check(id, until); err != nil {
		return false, err
	}
	if first && !created.Before(time.UnixMilli(until).Add(r.skew)) {
		return false, replay.ErrSwept
	}
	return first, nil
}

// create creates the entry and reports whether this call did it, and when by the
// server's clock.
func (r *Replay) create(ctx context.Context, path string, until int64) (first bool, created time.Time, err error) {
	var nonce [16]byte
	rand.Read(nonce[:]) // never fails, as documented
	own := spentEntry{base64.RawURLEncoding.EncodeToString(nonce[:]), until}
	created, err = r.kv.write(ctx, "spend", path, own, 0)
	switch {
	case err == nil:
		return true, created, nil
	case errors.Is(err, errLost):
		return false, time.Time{}, nil
	}
	if e := as(err); e == nil || !e.unsure || ctx.Err() != nil {
		return false, time.Time{}, err
	}
	// The answer was lost. If the entry is there and our own, this call was first.
	// If none is there the write may still be on its way, and nothing is decided.
	got, at, lookErr := r.lookUp(ctx, path)
	switch {
	case lookErr != nil || got == nil:
		return false, time.Time{}, err
	case got.Attempt == own.Attempt:
		return true, at, nil
	}
	return false, time.Time{}, nil
}

// lookUp reads the entry of an ID; nil if there is none.
func (r *Replay) lookUp(ctx context.Context, path string) (*spentEntry, time.Time, error) {
	a, err := r.kv.c.do(ctx, &request{op: "look up what was spent", method: "GET", path: r.kv.mount + "/data/" + path})
	if status(err) == 404 {
		return nil, time.Time{}, nil
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	var doc struct {
		Data struct {
			Data     *spentEntry `json:"data"`
			Metadata struct {
				Created time.Time `json:"created_time"`
			} `json:"metadata"`
		} `json:"data"`
	}
	if json.Unmarshal(a.body, &doc) != nil || doc.Data.Data == nil {
		return nil, time.Time{}, errAnswer("look up what was spent", a)
	}
	return doc.Data.Data, doc.Data.Metadata.Created, nil
}

// Ping implements [replay.Pinger]: it writes an entry of its own and reads the mark.
func (r *Replay) Ping(ctx context.Context) error {
	// Without check-and-set: it is overwritten every time.
	r2 := &request{op: "ping", method: "POST", path: r.kv.mount + "/data/" + pingPath, once: true,
		body: map[string]any{"data": spentEntry{"AAAAAAAAAAAAAAAAAAAAAA", 0}}}
	if _, err := r.kv.put(ctx, r2); err != nil {
		return err
	}
	_, _, err := readMark(ctx, &r.kv)
	return err
}

// Format keeps what is inside out of every verb.
func (r *Replay) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("openbao.Replay")) }

// ceilMillis rounds up, so that nothing is forgotten early.
func ceilMillis(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }
