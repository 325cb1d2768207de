package sqlite

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"

	"github.com/foilmcp/foil/atrest"
)

// place is where content lies. Its names are part of what is sealed and are
// never changed, whatever the table is called in the file.
type place struct{ table, column string }

var (
	claimTable     = place{"claim", "payload"}
	handleTable    = place{"handle", "payload"}
	operationTable = place{"operation", "outcome"}
	stepTable      = place{"step", "result"}
)

// stepRow is the row of a step.
func stepRow(id, name []byte) []byte { return append(bytes.Clone(id), name...) }

var (
	errNotChosen = errors.New("sqlite: this store keeps no content: set Options.AtRest to seal it, or Options.PlainAtRest to keep it as it is")
	errNoSealer  = errors.New("sqlite: what is kept here is sealed: open the store with Options.AtRest")
	errNotSealed = errors.New("sqlite: what is kept here is not sealed, but Options.AtRest is set: somebody wrote it without, or it is forged")
)

// mayKeep reports whether somebody said how content is to be kept.
func (s *Store) mayKeep() error {
	if s.opts.AtRest == nil && !s.opts.PlainAtRest {
		return errNotChosen
	}
	return nil
}

// seal returns what is to be kept of content, which is never nil, and the ID of
// the key that it is sealed under.
func (s *Store) seal(at place, row, content []byte) (kept []byte, sealed sql.NullString, err error) {
	if err := s.mayKeep(); err != nil {
		return nil, sealed, err
	}
	if s.opts.AtRest == nil {
		// A copy: the transaction may outlive the call.
		return append([]byte{}, content...), sealed, nil
	}
	if kept, err = s.opts.AtRest.Seal(at.table, row, at.column, content); err != nil {
		return nil, sealed, fmt.Errorf("sqlite: %w", err)
	}
	return kept, sql.NullString{String: atrest.KeyID(kept), Valid: true}, nil
}

// sealOptional is seal for content that may be nil, which stays nil.
func (s *Store) sealOptional(at place, row, content []byte) (kept []byte, sealed sql.NullString, err error) {
	if content == nil {
		return nil, sealed, s.mayKeep()
	}
	return s.seal(at, row, content)
}

// unseal returns the content, which is never nil.
func (s *Store) unseal(at place, row, kept []byte, sealed sql.NullString) ([]byte, error) {
	switch {
	case !sealed.Valid && s.opts.AtRest == nil:
		return append([]byte{}, kept...), nil
	case !sealed.Valid:
		return nil, errNotSealed
	case s.opts.AtRest == nil:
		return nil, errNoSealer
	}
	content, err := s.opts.AtRest.Open(at.table, row, at.column, kept)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %s: %w", at.table, err)
	}
	return append([]byte{}, content...), nil
}
