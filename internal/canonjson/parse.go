package canonjson

import "sync"

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

	flat [forms][]byte

	members []member // of the objects that are open, a stack
	keys    []byte   // decoded and folded keys of open objects, a stack
	folds   []foldKey
	objs    []reordered
	kept    []keptMember
	list    list // reordered objects in the value being read
	top     []rawMember

	out       []byte // reordered text
	digits    []byte // digits of the number being read
	ambiguous bool
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
	p.text, p.pos, p.lim, p.want, p.err, p.ambiguous = text, 0, l, w, nil, false
	p.list = emptyList
	return p, nil
}

func (p *parser) release() {
	p.text, p.err = nil, nil
	for f := range p.flat {
		p.flat[f] = recycle(p.flat[f], 1)
	}
	p.members = recycle(p.members, 48)
	p.keys = recycle(p.keys, 1)
	p.folds = recycle(p.folds, 16)
	p.objs = recycle(p.objs, 32)
	p.kept = recycle(p.kept, 24)
	p.top = recycle(p.top, 16)
	p.out = recycle(p.out, 1)
	p.digits = recycle(p.digits, 1)
	parsers.Put(p)
}

func recycle[T any](s []T, size int) []T {
	if cap(s)*size > maxPooled {
		return nil
	}
	return s[:0]
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

// put appends bytes that are the same in both forms.
func (p *parser) put(b []byte) {
	if p.want&wantPython != 0 {
		p.flat[python] = append(p.flat[python], b...)
	}
	if p.want&wantExact != 0 {
		p.flat[exact] = append(p.flat[exact], b...)
	}
}

func (p *parser) putByte(c byte) {
	if p.want&wantPython != 0 {
		p.flat[python] = append(p.flat[python], c)
	}
	if p.want&wantExact != 0 {
		p.flat[exact] = append(p.flat[exact], c)
	}
}

func (p *parser) here() (at [forms]uint32) {
	at[python], at[exact] = uint32(len(p.flat[python])), uint32(len(p.flat[exact]))
	return at
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
	return true
}

func (p *parser) space() {
	for p.pos < len(p.text) {
		switch p.text[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
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
	p.put(p.text[p.pos:end])
	p.pos = end
	return true
}

func (p *parser) array(depth int) bool {
	if depth > p.lim.MaxDepth {
		return p.fail(ErrLimit, "depth", p.pos)
	}
	p.pos++
	p.putByte('[')
	p.space()
	if p.pos < len(p.text) && p.text[p.pos] == ']' {
		p.pos++
		p.putByte(']')
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
		switch c := p.text[p.pos]; c {
		case ',':
			p.pos++
			p.putByte(c)
			p.space()
		case ']':
			p.pos++
			p.putByte(c)
			return true
		default:
			return p.unexpected()
		}
	}
}

// string reads the string at pos. A key is also returned decoded, by place:
// keyOff and keyLen for [parser.key].
func (p *parser) string(isKey bool) (k keyRef, ok bool) {
	start := p.pos
	end := plainEnd(p.text, start+1)
	if end < len(p.text) && p.text[end] == '"' {
		p.pos = end + 1
		p.put(p.text[start:p.pos])
		return keyRef{uint32(start + 1), uint32(end - start - 1)}, true
	}
	base := len(p.keys)
	keys, n, err := appendDecoded(p.keys, p.text[start:])
	if err != nil {
		err.off += start
		p.err = err
		return k, false
	}
	p.keys = keys
	p.pos = start + n
	decoded := p.keys[base:]
	if p.want&wantPython != 0 {
		p.flat[python] = appendString(p.flat[python], decoded)
	}
	if p.want&wantExact != 0 {
		p.flat[exact] = appendString(p.flat[exact], decoded)
	}
	if !isKey {
		p.keys = p.keys[:base]
	}
	return keyRef{uint32(len(p.text) + base), uint32(len(decoded))}, true
}
