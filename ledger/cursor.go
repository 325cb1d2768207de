package ledger

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Limits of Query.Limit.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Check reports whether q can be answered, its cursor included, and sets the
// limit that a zero stands for. It is for implementations of [Store].
func (q *Query) Check() error {
	switch {
	case q.State > Unknown:
		return errors.New("ledger: Query.State is none")
	case len(q.Flow) != 0 && len(q.Flow) != IDLen:
		return fmt.Errorf("ledger: Query.Flow has %d bytes, want none or %d", len(q.Flow), IDLen)
	case q.Limit < 0 || q.Limit > MaxLimit:
		return fmt.Errorf("ledger: Query.Limit must be between 0 and %d", MaxLimit)
	case !q.Since.IsZero() && !inRange(q.Since) || !q.Until.IsZero() && !inRange(q.Until):
		return errors.New("ledger: a time of Query is out of range")
	}
	if q.Limit == 0 {
		q.Limit = DefaultLimit
	}
	if q.After == "" {
		return nil
	}
	_, _, err := ParseCursor(q.After)
	return err
}

// Cursor names the place in the order of List behind an operation. It is for
// implementations of [Store], which need not use it.
func Cursor(started time.Time, id [IDLen]byte) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(started.UnixMilli()))
	return base64.RawURLEncoding.EncodeToString(append(b, id[:]...))
}

// ParseCursor reads what [Cursor] writes.
func ParseCursor(s string) (started time.Time, id [IDLen]byte, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != 8+IDLen {
		return time.Time{}, id, errors.New("ledger: Query.After is not a cursor")
	}
	started = time.UnixMilli(int64(binary.BigEndian.Uint64(b)))
	// The decoder passes over line ends.
	if !inRange(started) || Cursor(started, [IDLen]byte(b[8:])) != s {
		return time.Time{}, id, errors.New("ledger: Query.After is not a cursor")
	}
	return started, [IDLen]byte(b[8:]), nil
}
