package keyring

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/foilmcp/foil/internal/secret"
)

// Errors a caller may want to tell apart. None of them is a client's doing: to a
// server they all mean "unavailable".
var (
	// ErrNoSealingKey says that no key of the ring may seal now: the one in force
	// is revoked or past its open_until, or none has come into force yet.
	ErrNoSealingKey = errors.New("keyring: no key may seal now")
	// ErrStale says that the ring was not refreshed within MaxStale. Nothing may
	// be sealed or opened with it, as a revocation may have been missed.
	ErrStale = errors.New("keyring: ring is stale")
)

// Defaults of [RingOptions].
const (
	DefaultPropagation = 5 * time.Minute
	DefaultSkew        = time.Minute
	DefaultMaxTTL      = 10 * time.Minute
	DefaultKeep        = 24 * time.Hour
)

// maxDuration bounds the durations of a ring, so that no sum of them and of a time
// can overflow.
const maxDuration = 100 * 366 * 24 * time.Hour

// A Ring is one version of the key document. It is immutable and safe for
// concurrent use: changes are made on a copy ([Ring.Rotate] and the like).
type Ring struct {
	serial      int64
	interop     bool
	storage     bool
	propagation time.Duration
	skew        time.Duration
	maxTTL      time.Duration
	keep        time.Duration
	keys        []*Key
	revoked     []string
}

// RingOptions describes a new ring. nil and zero values mean the defaults. All
// durations are whole seconds, at most a century.
type RingOptions struct {
	// Propagation is how long a change may take to reach every replica, source
	// outages included. Replicas refresh three times as often.
	Propagation time.Duration
	// Skew is the largest difference between any two clocks, the stores' included.
	// Negative means none.
	Skew time.Duration
	// MaxTTL is the longest lifetime a token sealed under the ring may have.
	MaxTTL time.Duration
	// Keep is how much longer than MaxTTL a superseded key still opens, so that
	// recorded outcomes can be read. Zero means DefaultKeep, and none for an
	// interop ring, which has no outcomes to keep. Negative means none.
	Keep time.Duration
	// Interop marks a ring that is shared with replicas which do not enforce
	// token identity, rounds and deadlines.
	Interop bool
	// Storage marks a ring whose keys seal what stores keep, and no tokens. Its
	// keys open for as long as they are in it ([Ring.Drop]), so MaxTTL and Keep
	// must not be set. It excludes Interop.
	Storage bool
}

// NewRing returns a ring with one key that seals at once on every replica: its
// seal_from lies Skew before now.
func NewRing(now time.Time, o *RingOptions) (*Ring, error) {
	var opt RingOptions
	if o != nil {
		opt = *o
	}
	if opt.Storage && (opt.MaxTTL != 0 || opt.Keep > 0) {
		return nil, errors.New("keyring: a storage ring has no MaxTTL and no Keep: its keys open for as long as they are in it")
	}
	if opt.Keep == 0 && (opt.Interop || opt.Storage) {
		opt.Keep = -1
	}
	r := &Ring{
		serial:      1,
		interop:     opt.Interop,
		storage:     opt.Storage,
		propagation: orDefault(opt.Propagation, DefaultPropagation),
		skew:        max(0, orDefault(opt.Skew, DefaultSkew)),
		maxTTL:      orDefault(opt.MaxTTL, DefaultMaxTTL),
		keep:        max(0, orDefault(opt.Keep, DefaultKeep)),
	}
	r.keys = []*Key{{id: r.newID(now), secret: newSecret(), from: now.Add(-r.skew).Truncate(time.Second).UTC()}}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// NewEphemeral returns a ring with one random key that is in no document and so
// ends with the process.
func NewEphemeral() *Ring {
	r := defaultRing()
	r.keys = []*Key{{id: "ephemeral", secret: newSecret(), from: time.Unix(0, 0).UTC()}}
	return r
}

// FromSecrets returns an interop ring in memory with the given secrets, the bytes
// as they are, each at least [MinSecretLen] long. The first seals, all open, as in
// the key list of the Python SDK.
func FromSecrets(secrets ...[]byte) (*Ring, error) {
	r := defaultRing()
	r.interop, r.keep = true, 0
	for i, s := range secrets {
		// The first was "activated" last; the others are superseded.
		from := time.Unix(int64(len(secrets)-1-i), 0).UTC()
		r.keys = append(r.keys, &Key{id: "secret-" + strconv.Itoa(i+1), secret: secret.New(s), from: from})
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

func defaultRing() *Ring {
	return &Ring{serial: 1, propagation: DefaultPropagation, skew: DefaultSkew, maxTTL: DefaultMaxTTL, keep: DefaultKeep}
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// Serial returns the version of the document; each change adds one.
func (r *Ring) Serial() int64 { return r.serial }

// Interop reports whether the ring is shared with replicas that do not enforce
// token identity, rounds and deadlines, so that none of its tokens has them.
func (r *Ring) Interop() bool { return r.interop }

// Propagation returns how long a change may take to reach every replica.
func (r *Ring) Propagation() time.Duration { return r.propagation }

// Skew returns the largest difference between any two clocks.
func (r *Ring) Skew() time.Duration { return r.skew }

// MaxTTL returns the longest lifetime a token of this ring may have.
func (r *Ring) MaxTTL() time.Duration { return r.maxTTL }

// Keep returns how much longer than MaxTTL a superseded key still opens.
func (r *Ring) Keep() time.Duration { return r.keep }

// Keys returns all keys in the order of the document, revoked ones included.
func (r *Ring) Keys() []*Key { return slices.Clone(r.keys) }

// RevokedIDs returns the ids of all keys ever revoked; some may no longer be in
// the ring.
func (r *Ring) RevokedIDs() []string { return slices.Clone(r.revoked) }

// Key returns the key with the given id, or nil.
func (r *Ring) Key(id string) *Key {
	for _, k := range r.keys {
		if k.id == id {
			return k
		}
	}
	return nil
}

// Sealing returns the key that seals at now: the one in force, which is the key
// with the greatest seal_from not after now, the later entry on ties. A key that
// was superseded never seals again: if the one in force is revoked or no longer
// opens, the answer is [ErrNoSealingKey] and not its predecessor.
func (r *Ring) Sealing(now time.Time) (*Key, error) {
	k := r.inForce(now)
	if k == nil || !k.Opens(now) {
		return nil, ErrNoSealingKey
	}
	return k, nil
}

func (r *Ring) inForce(now time.Time) *Key {
	var best *Key
	for _, k := range r.keys {
		if k.from.IsZero() || k.from.After(now) {
			continue
		}
		if best == nil || !k.from.Before(best.from) {
			best = k
		}
	}
	return best
}

// check holds a ring to the rules of the document, however it was made. Errors
// name index and id of a key, never its bytes.
func (r *Ring) check() error {
	if r.serial < 1 || r.serial > maxSerial {
		return fmt.Errorf("keyring: serial must be between 1 and %d", int64(maxSerial))
	}
	const month = 30 * 24 * time.Hour
	for _, d := range []struct {
		name     string
		d        time.Duration
		min, max time.Duration
	}{
		{"propagation", r.propagation, time.Second, month}, {"skew", r.skew, 0, month},
		{"max_ttl", r.maxTTL, time.Second, month}, {"keep", r.keep, 0, maxDuration},
	} {
		if d.d < d.min || d.d > d.max || d.d%time.Second != 0 {
			return fmt.Errorf("keyring: %s must be whole seconds between %d and %d", d.name, d.min/time.Second, d.max/time.Second)
		}
	}
	if r.storage && r.interop {
		return errors.New("keyring: interop and storage exclude each other")
	}
	if r.storage && r.keep != 0 {
		return errors.New("keyring: keep must be 0 in a storage ring, whose keys open for as long as they are in it")
	}
	if len(r.keys) == 0 {
		return errors.New("keyring: a ring needs at least one key")
	}
	for i, k := range r.keys {
		if err := r.checkKey(i, k); err != nil {
			return err
		}
	}
	for i, id := range r.revoked {
		if !validID(id) {
			return fmt.Errorf("keyring: revoked[%d]: not a key id", i)
		}
		if slices.Contains(r.revoked[:i], id) {
			return fmt.Errorf("keyring: revoked[%d]: duplicate id %q", i, id)
		}
	}
	return nil
}

func (r *Ring) checkKey(i int, k *Key) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("keyring: keys[%d] (%q): %s", i, k.id, fmt.Sprintf(format, args...))
	}
	if !validID(k.id) {
		// Quoting it could print a secret that was put into the wrong field.
		return fmt.Errorf("keyring: keys[%d]: id must be 1 to 32 of A-Z a-z 0-9 . _ -", i)
	}
	if n := k.secret.Len(); n < MinSecretLen || n > maxSecretLen {
		return bad("secret has %d bytes, must have %d to %d", n, MinSecretLen, maxSecretLen)
	}
	for j, other := range r.keys[:i] {
		if other.id == k.id {
			return bad("same id as keys[%d]", j)
		}
		if other.secret.Equal(k.secret) {
			return bad("same secret as keys[%d] (%q)", j, other.id)
		}
	}
	if k.from.IsZero() && !r.interop {
		return bad("seal_from is missing; only an interop ring has staged keys")
	}
	if r.storage && !k.until.IsZero() {
		return bad("open_until is not for a storage ring, whose keys open for as long as they are in it")
	}
	for _, t := range []struct {
		name string
		t    time.Time
	}{{"seal_from", k.from}, {"open_until", k.until}} {
		if !t.t.IsZero() && (t.t.Unix() < 0 || t.t.Unix() > maxUnix || t.t.Nanosecond() != 0) {
			return bad("%s must be whole Unix seconds between 0 and %d", t.name, int64(maxUnix))
		}
	}
	return nil
}

// validID keeps ids short enough that a 32-byte secret in base64url, pasted into
// the wrong field, is not one.
func validID(id string) bool {
	if len(id) < 1 || len(id) > 32 {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// newID returns an unused id: the date in UTC and the letter after the last one
// used that day.
func (r *Ring) newID(now time.Time) string {
	date := now.UTC().Format("2006-01-02")
	last := 0
	note := func(id string) {
		if len(id) > len(date) && id[:len(date)] == date {
			last = max(last, letterNumber(id[len(date):]))
		}
	}
	for _, k := range r.keys {
		note(k.id)
	}
	for _, id := range r.revoked {
		note(id)
	}
	return date + letters(last+1)
}

// letters counts a, b, …, z, aa, ab, … from 1.
func letters(n int) string {
	s := ""
	for ; n > 0; n = (n - 1) / 26 {
		s = string(rune('a'+(n-1)%26)) + s
	}
	return s
}

// letterNumber undoes letters; 0 for what letters does not write.
func letterNumber(s string) int {
	n := 0
	if len(s) > 4 {
		return 0
	}
	for _, c := range []byte(s) {
		if c < 'a' || c > 'z' {
			return 0
		}
		n = n*26 + int(c-'a') + 1
	}
	return n
}

// The printing methods have value receivers, so that a copied Ring prints no more
// than a pointer does.

// String shows serial and key ids and nothing else.
func (r Ring) String() string {
	s := "ring serial " + strconv.FormatInt(r.serial, 10) + " ["
	for i, k := range r.keys {
		if i > 0 {
			s += " "
		}
		s += k.id
	}
	return s + "] " + secret.Redacted
}

// Format writes the same under every verb.
func (r Ring) Format(s fmt.State, _ rune) { io.WriteString(s, r.String()) }

// GoString is like String.
func (r Ring) GoString() string { return r.String() }

// MarshalText is like String; encoding/json uses it. [Ring.Marshal] writes the
// document with its secrets.
func (r Ring) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// LogValue is like String.
func (r Ring) LogValue() slog.Value { return slog.StringValue(r.String()) }

// Current gives the ring as of now. It is what codecs hold: they ask for every
// seal and open, so it must be cheap and safe for concurrent use. An error is a
// system failure ("unavailable"), never a client's doing.
type Current interface {
	Ring() (*Ring, error)
}

// Fixed returns a Current that always gives r.
func Fixed(r *Ring) Current { return fixed{r} }

type fixed struct{ r *Ring }

func (f fixed) Ring() (*Ring, error) {
	if f.r == nil {
		return nil, errors.New("keyring: no ring")
	}
	return f.r, nil
}
