package replaytest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/foilmcp/foil/replay"
)

// deferredFaults are faults of a Deferrer, and of a store that can be restored.
var deferredFaults = map[string][]string{
	"attempt asks once":             {"first attempt is first again", "an attempt may ask twice at once"},
	"any attempt is first":          {"no other attempt is first", "one of 64 concurrent attempts is first"},
	"compares half an attempt":      {"no other attempt is first"},
	"attempt is a C string":         {"no other attempt is first"},
	"attempt folds case":            {"no other attempt is first"},
	"attempts are one for all":      {"no other attempt is first"},
	"last attempt is kept":          {"attempt tells who was first", "no other attempt is first"},
	"attempt marks what was used":   {"an id that was used is not first for an attempt"},
	"no attempt is zero":            {"an id that was used is not first for an attempt", "attempt tells who was first"},
	"zero attempt is none":          {"attempt tells who was first"},
	"attempt forgets plain use":     {"an id that was used is not first for an attempt"},
	"attempt spends":                {"attempt of what is not spent"},
	"attempt takes any id":          {"attempt of what is not spent"},
	"takes any attempt":             {"bad attempts are errors"},
	"takes no attempt":              {"bad attempts are errors"},
	"keeps the attempt slice":       {"caller may reuse the attempt slices"},
	"hands out the attempt slice":   {"caller may reuse the attempt slices"},
	"not atomic":                    {"one of 64 concurrent attempts is first"},
	"not atomic over peers":         {"one of 64 concurrent attempts over two peers is first"},
	"ignores the context":           {"ended context marks no attempt"},
	"attempt ignores the context":   {"ended context marks no attempt"},
	"no mark":                       {"swept id is an error for an attempt"},
	"same attempt despite the mark": {"swept id is an error for an attempt"},
	"keeps swept attempts":          {"swept id is an error for an attempt"},
	"forgets early":                 {"attempt is kept until expiry plus skew"},
	"no restore mark":               {"older than the restored store is refused", "older than the restored store is refused to an attempt"},
	"restored mark is far back":     {"older than the restored store is refused"},
	"restored mark not durable":     {"older than the restored store is refused"},
	"any id tells a time":           {"older than the restored store is refused"},
	"restored refuses everything":   {"older than the restored store is refused", "older than the restored store is refused to an attempt"},
	"attempt not durable":           {"attempt survives a restart"},
	"attempt not shared":            {"attempt is seen by a peer"},
	"attempt not spent on error":    {"broken backend knows no attempt"},
	"true on error":                 {"broken backend knows no attempt"},
	"loses on error":                {"broken backend knows no attempt"},
	"attempt in errors":             {"attempts stay out of errors"},
	"secret in errors":              {"attempts stay out of errors"},
}

func (f *fake) UseAs(ctx context.Context, id []byte, expires time.Time, attempt []byte) (bool, error) {
	switch {
	case f.is("takes any attempt"), f.is("takes no attempt") && len(attempt) == 0:
	case len(attempt) != replay.AttemptLen && f.is("attempt in errors"):
		return false, fmt.Errorf("fake: bad attempt %x", attempt[:replay.AttemptLen])
	default:
		if err := replay.CheckAttempt(attempt); err != nil {
			return false, err
		}
	}
	if f.is("same attempt despite the mark") && f.swept(expires) && len(attempt) > 0 {
		return true, nil
	}
	return f.use(ctx, id, expires, attempt)
}

// again reports whether the attempt is the one under which r was spent.
func (f *fake) again(r *row, attempt []byte) bool {
	a, b := r.attempt, attempt
	if b == nil {
		return false
	}
	switch f.fault {
	case "attempt asks once":
		return false
	case "any attempt is first":
		return a != nil
	case "compares half an attempt":
		a, b = a[:min(len(a), 8)], b[:8]
	case "attempt is a C string":
		a, _, _ = bytes.Cut(a, []byte{0})
		b, _, _ = bytes.Cut(b, []byte{0})
	case "attempt folds case":
		return bytes.EqualFold(a, b)
	case "attempts are one for all":
		return slices.ContainsFunc(f.disk.rows, func(other row) bool { return bytes.Equal(other.attempt, b) }) || a != nil
	case "last attempt is kept":
		defer func() { r.attempt = attempt }()
	case "attempt marks what was used":
		if a == nil {
			r.attempt = attempt
			return true
		}
	case "no attempt is zero":
		if a == nil {
			a = make([]byte, replay.AttemptLen)
		}
	case "attempt forgets plain use":
		if a == nil {
			return true
		}
	}
	return a != nil && bytes.Equal(a, b)
}

func (f *fake) Attempt(ctx context.Context, id []byte) (attempt []byte, spent bool, err error) {
	if err := replay.Check(id, time.Time{}); err != nil && !f.is("attempt takes any id") {
		return nil, false, err
	}
	if err := ctx.Err(); err != nil && !f.is("attempt ignores the context") {
		return nil, false, err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.away {
		switch f.fault {
		case "attempt not spent on error":
			return nil, false, nil
		case "secret in errors":
			return nil, false, fmt.Errorf("fake: no backend at fake://user:%s@host", password)
		}
		return nil, false, errors.New("fake: no backend")
	}
	i := slices.IndexFunc(f.disk.rows, func(r row) bool { return bytes.Equal(r.id, id) })
	if i < 0 {
		if f.is("attempt spends") {
			f.disk.rows = append(f.disk.rows, row{id: bytes.Clone(id), expires: f.clock.Now().Add(time.Hour)})
		}
		if f.is("keeps swept attempts") && f.clock.Now().After(time.Unix(1_800_000_060, 0)) {
			return make([]byte, replay.AttemptLen), true, nil
		}
		return nil, false, nil
	}
	attempt = f.disk.rows[i].attempt
	switch f.fault {
	case "no attempt is zero":
		if attempt == nil {
			attempt = make([]byte, replay.AttemptLen)
		}
	case "zero attempt is none":
		if bytes.Equal(attempt, make([]byte, replay.AttemptLen)) {
			return nil, true, nil
		}
	case "attempt not durable", "attempt not shared":
		if f.first != f {
			return nil, true, nil
		}
	case "hands out the attempt slice":
		return attempt, true, nil
	}
	return bytes.Clone(attempt), true, nil
}

// older reports whether id was minted before the store was restored.
func (f *fake) older(id []byte) bool {
	mark := f.restored().restored
	if mark.IsZero() || f.is("no restore mark") {
		return false
	}
	if f.is("restored refuses everything") {
		return true
	}
	if len(id) != 16 {
		return f.is("any id tells a time")
	}
	ms := binary.BigEndian.Uint64(append([]byte{0, 0}, id[:6]...))
	return ms <= uint64(mark.UnixMilli())
}

func (f *fake) restored() *disk {
	if f.is("restored mark not durable") {
		return &f.own
	}
	return f.disk
}
