package foil

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// MigrateOptions configure a [Migration].
type MigrateOptions struct {
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// A Migration is a [Codec] for the time in which a fleet moves from one token
// format to another; see [Migrate]. It is safe for concurrent use.
type Migration struct {
	to, from             Codec
	toPrefix, fromPrefix string
	until                time.Time
	now                  func() time.Time
}

var (
	_ Codec         = (*Migration)(nil)
	_ Encrypter     = (*Migration)(nil)
	_ KeyIdentifier = (*Migration)(nil)
	_ KeyLimiter    = (*Migration)(nil)
)

// Migrate returns a codec that seals with to and opens the tokens of both
// codecs, those of from until the given date. The date is required; from it on,
// a token of from is refused as malformed. A date that is over is no error, so
// that a server which was not reconfigured in time still starts.
//
// Which codec opens a token is told by its prefix, so both must be a
// [Prefixer]. A prefix chooses between the two; no other format is opened.
//
// A replica that has only from refuses what to sealed. To move a running fleet
// without refusing honest retries, first bring Migrate(from, to, …) to every
// replica, which seals as before and learns to open; then Migrate(to, from, …);
// and to alone once the longest flow is over.
func Migrate(to, from Codec, until time.Time, opts *MigrateOptions) (*Migration, error) {
	m := &Migration{to: to, from: from, until: until, now: time.Now}
	if opts != nil && opts.Now != nil {
		m.now = opts.Now
	}
	if to == nil || from == nil {
		return nil, errors.New("foil: Migrate needs two codecs, and one is nil")
	}
	if until.IsZero() {
		return nil, errors.New("foil: Migrate needs the date until which the old format is opened")
	}
	for _, c := range []struct {
		codec  Codec
		prefix *string
	}{{to, &m.toPrefix}, {from, &m.fromPrefix}} {
		p, ok := c.codec.(Prefixer)
		if !ok || p.Prefix() == "" {
			return nil, fmt.Errorf("foil: Migrate tells tokens apart by their prefix, and %T names none", c.codec)
		}
		*c.prefix = p.Prefix()
	}
	if strings.HasPrefix(m.toPrefix, m.fromPrefix) || strings.HasPrefix(m.fromPrefix, m.toPrefix) {
		return nil, fmt.Errorf("foil: Migrate cannot tell tokens with the prefixes %q and %q apart; to change keys within one format, rotate its ring", m.toPrefix, m.fromPrefix)
	}
	return m, nil
}

// moving reports whether the old format is still opened.
func (m *Migration) moving() bool { return m.now().Before(m.until) }

// Seal seals with the new codec.
func (m *Migration) Seal(ctx context.Context, payload []byte, expires time.Time) (string, error) {
	return m.to.Seal(ctx, payload, expires)
}

// Open opens a token with the codec whose prefix it has.
func (m *Migration) Open(ctx context.Context, token string) ([]byte, error) {
	if c, _ := m.opens(token); c != nil {
		return c.Open(ctx, token)
	}
	return nil, Reject(ReasonMalformed)
}

// opens returns the codec that Open would give a token to; nil if there is none.
func (m *Migration) opens(token string) (c Codec, old bool) {
	switch {
	case strings.HasPrefix(token, m.toPrefix):
		return m.to, false
	case strings.HasPrefix(token, m.fromPrefix) && m.moving():
		return m.from, true
	}
	return nil, false
}

// Encrypts reports what the new codec says, since it alone seals: the old
// codec's tokens came from replicas that had it and asked it.
func (m *Migration) Encrypts() bool { return encrypts(m.to) }

// KeyID asks the codec whose prefix the token has. It knows the old format's
// keys after the date too, for the log line of the refusal.
func (m *Migration) KeyID(token string) string {
	var c Codec
	switch {
	case strings.HasPrefix(token, m.toPrefix):
		c = m.to
	case strings.HasPrefix(token, m.fromPrefix):
		c = m.from
	}
	if k, ok := c.(KeyIdentifier); ok {
		return k.KeyID(token)
	}
	return ""
}

// KeyLimits returns the stricter limits of both codecs, and the new one's from
// the date on.
func (m *Migration) KeyLimits() KeyLimits {
	l := limitsOf(m.to)
	if !m.moving() {
		return l
	}
	f := limitsOf(m.from)
	if l.MaxTTL == 0 || f.MaxTTL > 0 && f.MaxTTL < l.MaxTTL {
		l.MaxTTL = f.MaxTTL
	}
	if l.Keep == 0 || f.Keep > 0 && f.Keep < l.Keep {
		l.Keep = f.Keep
	}
	l.Skew = max(l.Skew, f.Skew)
	l.Interop = l.Interop || f.Interop
	// A memory of spent tokens may die only with the keys of all of them.
	l.Ephemeral = l.Ephemeral && f.Ephemeral
	return l
}

// String names the formats and tells nothing of the keys.
func (m *Migration) String() string {
	return "foil.Migration to " + m.toPrefix + " from " + m.fromPrefix
}

// Format prints what String gives, under every verb.
func (m *Migration) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(m.String())) }
