package canonjson

import (
	"slices"
	"sync"
)

// form is one of the two canonical texts, and the index of its buffer.
type form int

const (
	python form = iota
	exact
	forms
)

// want says what a run of the parser has to produce; nothing means that the
// text is only checked.
type want uint8

const (
	wantPython want = 1 << iota
	wantExact
	wantAmbiguous
	wantMembers // raw spans of the outermost object's members

	wantText = wantPython | wantExact
)

// A parser reads one document and writes its canonical texts to flat, in
// document order. Objects whose keys are not in order are noted in objs and
// put right when the text is copied out: so each byte moves once, however deep
// it is nested.
type parser struct {
	text []byte
	pos  int
	lim  Limits
	want want
	err  error

	// What text[mark:pos] holds is canonical as it stands, in both forms, and
	// follows on flat: most of a compact document is copied in long runs.
	mark int
	flat [forms][]byte

	// Of the objects that are open, three stacks.
	members []member
	order   []sortKey // one for each member
	keys    []byte    // decoded keys that are not plain text, folded keys

	folds     []sortKey
	objs      []reordered
	kept      []keptMembers
	list      list // reordered objects in the value being read
	top       []rawMember
	out       []byte // reordered text
	digits    []byte // digits of the number being read
	wide      *wideInts
	ambiguous bool
	numbers   bool // there is a number in the text
}

var parsers = sync.Pool{New: func() any { return new(parser) }}

// maxPooled bounds what one buffer of a pooled parser keeps, so that a large
// document does not pin its memory.
const maxPooled = 512 << 10

func newParser(text []byte, lim *Limits, w want) (*parser, error) {
	l := lim.orDefault()
	if len(text) > l.MaxBytes {
		return nil, &posError{ErrLimit, "size", l.MaxBytes}
	}
	p := parsers.Get().(*parser)
	p.text, p.pos, p.mark, p.lim, p.want = text, 0, 0, l, w
	p.err, p.ambiguous, p.numbers, p.list = nil, false, false, emptyList
	if w&wantPython != 0 {
		grow(&p.flat[python], len(text))
	}
	if w&wantExact != 0 {
		grow(&p.flat[exact], len(text))
	}
	return p, nil
}

func (p *parser) release() {
	p.text, p.err = nil, nil
	for f := range p.flat {
		recycle(&p.flat[f], 1)
	}
	recycle(&p.members, 24)
	recycle(&p.order, 24)
	recycle(&p.keys, 1)
	recycle(&p.folds, 24)
	recycle(&p.objs, 28)
	recycle(&p.kept, 20)
	recycle(&p.top, 16)
	recycle(&p.out, 1)
	recycle(&p.digits, 1)
	parsers.Put(p)
}

// recycle empties a buffer. Like [grow] it writes no pointer that stays the same:
// while the garbage collector runs, that is what is slow.
func recycle[T any](s *[]T, size int) {
	if cap(*s)*size > maxPooled {
		*s = nil
	} else {
		*s = (*s)[:0]
	}
}

// grow makes room for n more.
func grow[T any](s *[]T, n int) {
	if cap(*s)-len(*s) < n {
		*s = slices.Grow(*s, n)
	}
}

// extend makes a buffer longer by one element, which is not zero. Unlike append
// it doubles large buffers too, which copies less.
func extend[T any](s *[]T) *T {
	n := len(*s)
	if n == cap(*s) {
		*s = slices.Grow(*s, max(64, n))
	}
	*s = (*s)[:n+1]
	return &(*s)[n]
}

// fail notes the error and returns false.
func (p *parser) fail(kind error, what string, off int) bool {
	p.err = &posError{kind, what, off}
	return false
}

func (p *parser) unexpected() bool {
	if p.pos >= len(p.text) {
		return p.fail(ErrSyntax, "unexpected end", len(p.text))
	}
	return p.fail(ErrSyntax, "unexpected byte", p.pos)
}

// flush copies the pending run to flat; the caller then moves pos over what is
// not canonical and sets mark behind it.
func (p *parser) flush() {
	if p.mark == p.pos {
		return
	}
	run := p.text[p.mark:p.pos]
	if p.want&wantPython != 0 {
		p.flat[python] = append(p.flat[python], run...)
	}
	if p.want&wantExact != 0 {
		p.flat[exact] = append(p.flat[exact], run...)
	}
	p.mark = p.pos
}

// here returns where in flat the byte at pos will be.
func (p *parser) here() place {
	pending := p.pos - p.mark
	return place(len(p.flat[python])+pending)<<(32*python) | place(len(p.flat[exact])+pending)<<(32*exact)
}

func (p *parser) document() bool {
	p.space()
	if !p.value(0) {
		return false
	}
	p.space()
	if p.pos < len(p.text) {
		return p.fail(ErrSyntax, "trailing data", p.pos)
	}
	p.flush()
	return true
}

func (p *parser) space() {
	if p.pos < len(p.text) && p.text[p.pos] <= ' ' {
		p.skipSpace()
	}
}

func (p *parser) skipSpace() {
	p.flush()
	for p.pos < len(p.text) {
		switch p.text[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
			continue
		}
		break
	}
	p.mark = p.pos
}

// value reads the value at pos inside depth containers.
func (p *parser) value(depth int) bool {
	if p.pos >= len(p.text) {
		return p.unexpected()
	}
	switch c := p.text[p.pos]; c {
	case '{':
		return p.object(depth + 1)
	case '[':
		return p.array(depth + 1)
	case '"':
		_, ok := p.string(false)
		return ok
	case 't':
		return p.literal("true")
	case 'f':
		return p.literal("false")
	case 'n':
		return p.literal("null")
	default:
		if c == '-' || '0' <= c && c <= '9' {
			return p.number()
		}
		return p.unexpected()
	}
}

func (p *parser) literal(word string) bool {
	end := p.pos + len(word)
	if end > len(p.text) || string(p.text[p.pos:end]) != word {
		return p.fail(ErrSyntax, "unknown literal", p.pos)
	}
	p.pos = end
	return true
}

func (p *parser) array(depth int) bool {
	if depth > p.lim.MaxDepth {
		return p.fail(ErrLimit, "depth", p.pos)
	}
	p.pos++
	p.space()
	if p.pos < len(p.text) && p.text[p.pos] == ']' {
		p.pos++
		return true
	}
	for {
		if !p.value(depth) {
			return false
		}
		p.space()
		if p.pos >= len(p.text) {
			return p.unexpected()
		}
		switch p.text[p.pos] {
		case ',':
			p.pos++
			p.space()
		case ']':
			p.pos++
			return true
		default:
			return p.unexpected()
		}
	}
}

// string reads the string at pos. For a key it also returns where its decoded
// bytes are.
func (p *parser) string(isKey bool) (ref keyRef, ok bool) {
	start := p.pos
	end := plainEnd(p.text, start+1)
	if end < len(p.text) && p.text[end] == '"' {
		p.pos = end + 1
		return keyRef{uint32(start + 1), uint32(end - start - 1)}, true
	}
	p.flush()
	base := len(p.keys)
	keys, n, err := appendDecoded(p.keys, p.text[start:])
	if err != nil {
		err.off += start
		p.err = err
		return keyRef{}, false
	}
	p.keys = keys
	p.pos = start + n
	p.mark = p.pos
	decoded := p.keys[base:]
	switch f := p.flat[python]; p.want & wantText {
	case wantText:
		at := len(f)
		p.flat[python] = appendString(f, decoded)
		p.flat[exact] = append(p.flat[exact], p.flat[python][at:]...)
	case wantPython:
		p.flat[python] = appendString(f, decoded)
	case wantExact:
		p.flat[exact] = appendString(p.flat[exact], decoded)
	}
	if !isKey {
		p.keys = p.keys[:base]
	}
	return keyRef{uint32(len(p.text) + base), uint32(len(decoded))}, true
}
