package redis

import "errors"

// What the store keeps for others is either sealed or not, and its first byte says
// which, so that neither is taken for the other.
const (
	formPlain  = 'p'
	formSealed = 's'
)

var (
	errNoForm = errors.New("redis: set Options.AtRest to seal what the store keeps, or Options.PlainAtRest to keep it as it is")
	errPlain  = errors.New("redis: what the store keeps here is not sealed, and Options.AtRest takes nothing that is not")
	errSealed = errors.New("redis: what the store keeps here is sealed, and Options.AtRest is not set")
)

// keep returns plaintext in the form in which it is stored in a column of a row.
func (s *Store) keep(table string, row []byte, column string, plaintext []byte) ([]byte, error) {
	switch {
	case s.opts.AtRest != nil:
		sealed, err := s.opts.AtRest.Seal(table, row, column, plaintext)
		if err != nil {
			return nil, readable(err)
		}
		return append([]byte{formSealed}, sealed...), nil
	case s.opts.PlainAtRest:
		return append([]byte{formPlain}, plaintext...), nil
	}
	return nil, errNoForm
}

// give is the reverse of keep. What it returns is the caller's, and never nil
// without an error.
func (s *Store) give(table string, row []byte, column string, stored string) ([]byte, error) {
	if stored == "" {
		return nil, errors.New("redis: what the store keeps here is damaged")
	}
	switch form := stored[0]; {
	case form == formSealed && s.opts.AtRest != nil:
		plaintext, err := s.opts.AtRest.Open(table, row, column, []byte(stored[1:]))
		if err != nil {
			return nil, readable(err)
		}
		return append([]byte{}, plaintext...), nil
	case form == formPlain && s.opts.AtRest == nil:
		return []byte(stored[1:]), nil
	case form == formPlain:
		return nil, errPlain
	case form == formSealed:
		return nil, errSealed
	}
	return nil, errors.New("redis: what the store keeps here is damaged")
}

// stepRow names the result of a step for the seal.
func stepRow(id []byte, name string) []byte { return append(id[:len(id):len(id)], name...) }
