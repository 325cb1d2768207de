// Package canonjson writes JSON text in the two canonical forms whose SHA-256
// sums bind a token to the arguments of a request (docs/wire.md, digests of
// the arguments), and walks raw JSON without decoding it.
//
// The python-v1 form is what Python's json.dumps(json.loads(text),
// sort_keys=True, separators=(",", ":")) writes: keys in code point order, the
// last of duplicate keys, ASCII only, integers with all their digits, every
// other number as the repr of a float64. The exact form is the same text with
// every number as an exact decimal, so it tells 9007199254740993.0 from
// 9007199254740992.0 and 1e999 from 1e400, which the first form does not.
//
// Texts are read once, from front to back, without building values. Numbers
// are handled as text, so nothing short in the input is expensive to compute,
// and objects are put in order by sorting, so that no choice of keys makes the
// work more than n log n.
//
// Parsing is strict: RFC 8259, UTF-8 only, no NaN or Infinity, no byte order
// mark, no trailing data. Decoded strings are WTF-8 throughout: UTF-8 in which
// a lone surrogate, which JSON can escape but UTF-8 cannot hold, is its three
// bytes (Python's surrogatepass error handler).
//
// All functions are safe for concurrent use.
package canonjson

import (
	"crypto/sha256"
	"errors"
	"strconv"
)

// Every error of this package matches one of these. Errors name a byte offset
// and never hold text of the document.
var (
	// ErrSyntax: the text is not JSON, or not UTF-8.
	ErrSyntax = errors.New("canonjson: invalid JSON")
	// ErrLimit: the text, or a part of it, is beyond one of the [Limits].
	ErrLimit = errors.New("canonjson: limit exceeded")
)

// Limits bound the work that a document can cause. A field that is zero or
// negative takes its default.
type Limits struct {
	MaxBytes          int // length of the text, checked before anything else; 4 MiB, at most 256 MiB
	MaxDepth          int // nested arrays and objects; 64
	MaxIntDigits      int // digits of an integer without its sign; 4300, as in Python
	MaxExponentDigits int // digits of an exponent as written; 6, at most 9
}

const (
	defaultMaxBytes          = 4 << 20
	defaultMaxDepth          = 64
	defaultMaxIntDigits      = 4300
	defaultMaxExponentDigits = 6

	// Offsets are kept in 32 bits, and canonical text is at most six times as
	// long as its source.
	hardMaxBytes = 256 << 20
	// Keeps exponent arithmetic far from overflow.
	hardMaxExponentDigits = 9
)

func (l *Limits) orDefault() Limits {
	var v Limits
	if l != nil {
		v = *l
	}
	if v.MaxBytes <= 0 {
		v.MaxBytes = defaultMaxBytes
	}
	if v.MaxDepth <= 0 {
		v.MaxDepth = defaultMaxDepth
	}
	if v.MaxIntDigits <= 0 {
		v.MaxIntDigits = defaultMaxIntDigits
	}
	if v.MaxExponentDigits <= 0 {
		v.MaxExponentDigits = defaultMaxExponentDigits
	}
	v.MaxBytes = min(v.MaxBytes, hardMaxBytes)
	v.MaxExponentDigits = min(v.MaxExponentDigits, hardMaxExponentDigits)
	return v
}

// Sums are the digests of one document.
type Sums struct {
	Python [32]byte // SHA-256 of the python-v1 canonical text
	Exact  [32]byte // SHA-256 of the exact text

	// Ambiguous reports that some object, at any depth, has two members with
	// one key, or two keys that differ only in case (simple folding, as in
	// [strings.EqualFold]). Parsers disagree about which of them counts.
	Ambiguous bool
}

// Sum returns the digests of the one JSON value in text. White space around it
// is allowed, other data after it is refused. A nil lim means the defaults. On
// an error, which matches [ErrSyntax] or [ErrLimit], the sums are zero.
func Sum(text []byte, lim *Limits) (Sums, error) {
	l := lim.orDefault()
	if s, ok := sumFlat(text, &l); ok {
		return s, nil
	}
	p, err := newParser(text, &l, wantPython|wantExact|wantAmbiguous)
	if err != nil {
		return Sums{}, err
	}
	defer p.release()
	if !p.document() {
		return Sums{}, p.err
	}
	s := Sums{Python: sha256.Sum256(p.canonical(python)), Ambiguous: p.ambiguous}
	if s.Exact = s.Python; p.numbers { // else both texts are the same
		s.Exact = sha256.Sum256(p.canonical(exact))
	}
	return s, nil
}

// Append appends the python-v1 canonical text of the one JSON value in text to
// dst. It refuses what [Sum] refuses and then returns nil. The result is JSON
// itself unless a number overflowed to Infinity.
func Append(dst, text []byte, lim *Limits) ([]byte, error) {
	return appendForm(dst, text, lim, python, wantPython)
}

// AppendExact appends the exact text of the one JSON value in text to dst. It
// refuses what [Sum] refuses and then returns nil.
func AppendExact(dst, text []byte, lim *Limits) ([]byte, error) {
	return appendForm(dst, text, lim, exact, wantExact)
}

func appendForm(dst, text []byte, lim *Limits, f form, w want) ([]byte, error) {
	p, err := newParser(text, lim, w)
	if err != nil {
		return nil, err
	}
	defer p.release()
	if !p.document() {
		return nil, p.err
	}
	return append(dst, p.canonical(f)...), nil
}

// Skip returns how many bytes the JSON value at the start of text takes, white
// space before it included: text[:n] ends with the value. What follows is not
// looked at. The value is checked as strictly as by [Sum]; MaxBytes applies to
// all of text.
func Skip(text []byte, lim *Limits) (n int, err error) {
	p, err := newParser(text, lim, 0)
	if err != nil {
		return 0, err
	}
	defer p.release()
	p.space()
	if !p.value(0) {
		return 0, p.err
	}
	return p.pos, nil
}

// Object calls yield for each member of the JSON object in text, in document
// order, with the key decoded to WTF-8 and the value as raw text, a part of
// text without white space around it. Members with one key are yielded as they
// come. The whole text is checked, as strictly as by [Sum], before the first
// call; a value of another kind is [ErrSyntax]. Object stops early, without an
// error, when yield returns false.
func Object(text []byte, lim *Limits, yield func(key string, value []byte) bool) error {
	p, err := newParser(text, lim, wantMembers)
	if err != nil {
		return err
	}
	defer p.release()
	p.space()
	if p.pos < len(text) && text[p.pos] != '{' {
		p.fail(ErrSyntax, "not an object", p.pos)
		return p.err
	}
	if !p.document() {
		return p.err
	}
	for i := range p.top {
		m := &p.top[i]
		if !yield(string(p.key(m.key)), text[m.start:m.end:m.end]) {
			return nil
		}
	}
	return nil
}

// posError says where and why; it holds no text of the document.
type posError struct {
	kind error
	what string
	off  int
}

func (e *posError) Error() string {
	return e.kind.Error() + ": " + e.what + " at byte " + strconv.Itoa(e.off)
}

func (e *posError) Unwrap() error { return e.kind }
