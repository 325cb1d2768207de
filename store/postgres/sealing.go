package postgres

import (
	"errors"
	"fmt"
)

// The places of content, as the seal names them.
const (
	tableClaim     = "claim"
	tableHandle    = "handle"
	tableOperation = "operation"
	tableStep      = "step"
	columnPayload  = "payload"
	columnOutcome  = "outcome"
	columnResult   = "result"
)

var (
	errNoAtRest = errors.New("postgres: nothing says how content is kept: set Options.AtRest, or PlainAtRest to keep it as it is given")
	errPlainRow = errors.New("postgres: a row is not sealed at rest; if it is from before AtRest was set, set PlainAtRest as well")
)

// seal returns what is written of content, and whether it is sealed. nil stays
// nil: there is no content.
func (s *Store) seal(table string, row []byte, column string, content []byte) (kept []byte, sealed bool, err error) {
	switch {
	case content == nil:
		return nil, s.opts.AtRest != nil, nil
	case s.opts.AtRest != nil:
		if kept, err = s.opts.AtRest.Seal(table, row, column, content); err != nil {
			return nil, false, fmt.Errorf("postgres: %w", err)
		}
		return kept, true, nil
	case s.opts.PlainAtRest:
		return content, false, nil
	}
	return nil, false, errNoAtRest
}

// open undoes seal. Whoever can write to the tables must not be able to pass a
// row off as one that needs no seal, so a plain one is taken only if plain ones
// were asked for.
func (s *Store) open(table string, row []byte, column string, kept []byte, sealed bool) ([]byte, error) {
	switch {
	case kept == nil:
		return nil, nil
	case sealed && s.opts.AtRest != nil:
		content, err := s.opts.AtRest.Open(table, row, column, kept)
		if err != nil {
			return nil, fmt.Errorf("postgres: %w", err)
		}
		if content == nil { // an empty outcome is not the same as none
			content = []byte{}
		}
		return content, nil
	case sealed:
		return nil, errors.New("postgres: a row is sealed at rest: set Options.AtRest")
	case s.opts.PlainAtRest:
		return kept, nil
	case s.opts.AtRest != nil:
		return nil, errPlainRow
	}
	return nil, errNoAtRest
}

// checkAtRest reports whether content could be written.
func (s *Store) checkAtRest() error {
	if s.opts.AtRest == nil && !s.opts.PlainAtRest {
		return errNoAtRest
	}
	return nil
}
