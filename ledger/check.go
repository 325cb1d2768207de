package ledger

import (
	"errors"
	"fmt"
	"time"
)

// Check reports whether s is within what every store takes. It is for
// implementations of [Store], as are all functions of this file. No error
// contains a value.
func (s *Start) Check() error {
	switch {
	case s.Round < 1:
		return errors.New("ledger: Start.Round is less than 1")
	case len(s.Method) > MaxName || len(s.Target) > MaxTarget:
		return errors.New("ledger: Start.Method or Target is too long")
	case len(s.Principal) != 0 && len(s.Principal) != PrincipalLen:
		return fmt.Errorf("ledger: Start.Principal has %d bytes, want none or %d", len(s.Principal), PrincipalLen)
	case s.Lease < time.Millisecond || s.Retention < 0:
		return errors.New("ledger: Start.Lease must be at least a millisecond and Retention not negative")
	case !inRange(s.Expires) || !inRange(s.Keep) || s.Retention > maxRetention || s.Lease > maxRetention:
		return errors.New("ledger: a time of Start is out of range")
	}
	return nil
}

const maxRetention = 100 * 365 * 24 * time.Hour

func inRange(t time.Time) bool { y := t.UTC().Year(); return y >= 1970 && y <= 9999 }

// CheckStep reports whether a step of this name can be kept.
func CheckStep(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("ledger: a step's name has %d bytes, want 1 to %d", len(name), MaxName)
	}
	return nil
}

// CheckLease reports whether lease is one.
func CheckLease(lease time.Duration) error {
	if lease < time.Millisecond || lease > maxRetention {
		return errors.New("ledger: a lease must be at least a millisecond")
	}
	return nil
}

// Check reports whether f is complete. max is how long an outcome may be.
func (f *Finish) Check(max int) error {
	switch f.State {
	case Succeeded, Failed:
		if len(f.Outcome) > max {
			return ErrTooLarge
		}
		return nil
	case Unknown:
		if f.Outcome != nil {
			return errors.New("ledger: an unknown operation has no outcome")
		}
		return nil
	}
	return errors.New("ledger: Finish.State must be Succeeded, Failed or Unknown")
}

// Check reports whether r is complete. max is how long an outcome may be.
func (r *Resolution) Check(max int) error {
	switch {
	case r.State != Succeeded && r.State != Failed:
		return errors.New("ledger: Resolution.State must be Succeeded or Failed")
	case r.By == "":
		return errors.New("ledger: Resolution.By is empty: say who resolves")
	case len(r.By) > MaxNote || len(r.Note) > MaxNote:
		return fmt.Errorf("ledger: a resolution's author and note have at most %d bytes", MaxNote)
	case len(r.Outcome) > max:
		return ErrTooLarge
	}
	return nil
}

// Minted returns when the token of this ID was minted, to the millisecond: what
// a restore mark is compared with.
func Minted(id [IDLen]byte) time.Time {
	var ms int64
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms)
}
