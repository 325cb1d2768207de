package canonjson

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"unicode"
	"unicode/utf8"
)

// keyRef places a decoded key: in the text, or, from len(text) on, in keys.
type keyRef struct{ keyOff, keyLen uint32 }

// A member of an object that is being read.
type member struct {
	prefix uint64 // the key's first eight bytes, for most comparisons
	keyRef
	start, end [forms]uint32 // "key":value in flat
	list       list          // reordered objects in the value
}

// A reordered object's text between its braces is taken from n members from
// kept[first] on instead of from flat[open:close].
type reordered struct {
	open, close [forms]uint32
	first, n    uint32
	next        int32 // in its list
}

type keptMember struct {
	start, end [forms]uint32
	head       int32
}

// rawMember is a member of the outermost object, the value by place in text.
type rawMember struct {
	keyRef
	start, end uint32
}

type foldKey struct {
	prefix uint64
	keyRef
}

// list is a linked list of entries of objs in document order.
type list struct{ head, tail int32 }

var emptyList = list{-1, -1}

func (p *parser) concat(a, b list) list {
	if a.head < 0 {
		return b
	}
	if b.head < 0 {
		return a
	}
	p.objs[a.tail].next = b.head
	return list{a.head, b.tail}
}

func (p *parser) key(off, n uint32) []byte {
	if o := int(off) - len(p.text); o >= 0 {
		return p.keys[o : o+int(n)]
	}
	return p.text[off : off+n]
}

func keyPrefix(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var v uint64
	for i, c := range key {
		v |= uint64(c) << (56 - 8*i)
	}
	return v
}

// compareKeys orders by code point, which for WTF-8 is the order of the bytes.
func (p *parser) compareKeys(ap uint64, a keyRef, bp uint64, b keyRef) int {
	if ap != bp {
		return cmp.Compare(ap, bp)
	}
	return bytes.Compare(p.key(a.keyOff, a.keyLen), p.key(b.keyOff, b.keyLen))
}

func (p *parser) object(depth int) bool {
	if depth > p.lim.MaxDepth {
		return p.fail(ErrLimit, "depth", p.pos)
	}
	p.pos++
	p.putByte('{')
	p.space()
	if p.pos < len(p.text) && p.text[p.pos] == '}' {
		p.pos++
		p.putByte('}')
		return true
	}
	o := openObject{
		base:    len(p.members),
		keyBase: len(p.keys),
		before:  p.list,
		open:    p.here(),
		sorted:  true,
	}
	recordRaw := p.want&wantMembers != 0 && depth == 1
	for {
		if p.pos >= len(p.text) || p.text[p.pos] != '"' {
			return p.unexpected()
		}
		m := member{start: p.here()}
		var ok bool
		if m.keyRef, ok = p.string(true); !ok {
			return false
		}
		p.space()
		if p.pos >= len(p.text) || p.text[p.pos] != ':' {
			return p.unexpected()
		}
		p.pos++
		p.putByte(':')
		p.space()
		p.list = emptyList
		rawStart := uint32(p.pos)
		if !p.value(depth) {
			return false
		}
		if recordRaw {
			p.top = append(p.top, rawMember{m.keyRef, rawStart, uint32(p.pos)})
		} else if p.want&(wantPython|wantExact) != 0 {
			m.end = p.here()
			m.list = p.list
			p.addMember(&o, m)
		} else {
			p.keys = p.keys[:o.keyBase]
		}
		p.space()
		if p.pos >= len(p.text) {
			return p.unexpected()
		}
		switch p.text[p.pos] {
		case ',':
			p.pos++
			p.putByte(',')
			p.space()
			continue
		case '}':
			p.pos++
		default:
			return p.unexpected()
		}
		break
	}
	if recordRaw {
		return true // the keys are still needed
	}
	p.closeObject(&o)
	p.putByte('}')
	return true
}

type openObject struct {
	base, keyBase int
	before        list // of the value around the object
	open          [forms]uint32
	sorted        bool // keys so far strictly ascending
	folds         bool // some key may equal another but for case
}

func (p *parser) addMember(o *openObject, m member) {
	key := p.key(m.keyOff, m.keyLen)
	m.prefix = keyPrefix(key)
	if n := len(p.members); o.sorted && n > o.base {
		last := &p.members[n-1]
		o.sorted = p.compareKeys(last.prefix, last.keyRef, m.prefix, m.keyRef) < 0
	}
	if !o.folds && p.want&wantAmbiguous != 0 {
		o.folds = hasFold(key)
	}
	p.members = append(p.members, m)
}

// closeObject puts the members in order and frees what was noted about them.
func (p *parser) closeObject(o *openObject) {
	members := p.members[o.base:]
	if o.folds && !p.ambiguous {
		p.ambiguous = p.caseTwins(members)
	}
	inside := emptyList
	if o.sorted {
		for i := range members {
			inside = p.concat(inside, members[i].list)
		}
	} else {
		p.sortMembers(members)
		r := reordered{open: o.open, close: p.here(), first: uint32(len(p.kept)), next: -1}
		for i := range members {
			m := &members[i]
			if i+1 < len(members) {
				next := &members[i+1]
				if p.compareKeys(m.prefix, m.keyRef, next.prefix, next.keyRef) == 0 {
					p.ambiguous = true
					continue // the last wins
				}
			}
			p.kept = append(p.kept, keptMember{m.start, m.end, m.list.head})
		}
		r.n = uint32(len(p.kept)) - r.first
		inside = list{int32(len(p.objs)), int32(len(p.objs))}
		p.objs = append(p.objs, r)
	}
	p.list = p.concat(o.before, inside)
	p.members = p.members[:o.base]
	p.keys = p.keys[:o.keyBase]
}

// insertionMax is the length up to which insertion sort is the faster one.
const insertionMax = 12

// sortMembers sorts by key, members with one key in document order.
func (p *parser) sortMembers(m []member) {
	if len(m) <= insertionMax {
		for i := 1; i < len(m); i++ {
			for j := i; j > 0 && p.compareKeys(m[j].prefix, m[j].keyRef, m[j-1].prefix, m[j-1].keyRef) < 0; j-- {
				m[j], m[j-1] = m[j-1], m[j]
			}
		}
		return
	}
	slices.SortFunc(m, func(a, b member) int {
		if c := p.compareKeys(a.prefix, a.keyRef, b.prefix, b.keyRef); c != 0 {
			return c
		}
		// Only the forms that are wanted have places; those grow.
		if c := cmp.Compare(a.start[python], b.start[python]); c != 0 {
			return c
		}
		return cmp.Compare(a.start[exact], b.start[exact])
	})
}

// hasFold reports whether key has a character that might equal a different one
// but for case. Lower-case ASCII has none that does not itself report true.
func hasFold(key []byte) bool {
	for _, c := range key {
		if c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			return true
		}
	}
	return false
}

// caseTwins reports whether two of the keys are equal under simple folding. It
// sorts the folded keys: hashing would need a defence against chosen keys.
func (p *parser) caseTwins(members []member) bool {
	base := len(p.keys)
	p.folds = p.folds[:0]
	for i := range members {
		start := len(p.keys)
		p.keys = appendFolded(p.keys, p.key(members[i].keyOff, members[i].keyLen))
		folded := p.keys[start:]
		p.folds = append(p.folds, foldKey{keyPrefix(folded), keyRef{uint32(len(p.text) + start), uint32(len(folded))}})
	}
	f := p.folds
	if len(f) <= insertionMax {
		for i := 1; i < len(f); i++ {
			for j := i; j > 0 && p.compareKeys(f[j].prefix, f[j].keyRef, f[j-1].prefix, f[j-1].keyRef) < 0; j-- {
				f[j], f[j-1] = f[j-1], f[j]
			}
		}
	} else {
		slices.SortFunc(f, func(a, b foldKey) int { return p.compareKeys(a.prefix, a.keyRef, b.prefix, b.keyRef) })
	}
	twins := false
	for i := 1; i < len(f) && !twins; i++ {
		twins = p.compareKeys(f[i-1].prefix, f[i-1].keyRef, f[i].prefix, f[i].keyRef) == 0
	}
	p.keys = p.keys[:base]
	return twins
}

// appendFolded appends key with every character replaced by the smallest of
// those that equal it under simple folding. dst may share memory with key's
// buffer, not with key.
func appendFolded(dst, key []byte) []byte {
	for i := 0; i < len(key); {
		c := key[i]
		if c < utf8.RuneSelf {
			if 'a' <= c && c <= 'z' {
				c -= 'a' - 'A'
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, size := utf8.DecodeRune(key[i:])
		if r == utf8.RuneError && size == 1 { // a byte of a lone surrogate
			dst = append(dst, c)
			i++
			continue
		}
		low := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			low = min(low, f)
		}
		dst = utf8.AppendRune(dst, low)
		i += size
	}
	return dst
}

// canonical returns the whole text in one form. It is good until the next call.
func (p *parser) canonical(f form) []byte {
	if p.list.head < 0 {
		return p.flat[f]
	}
	p.out = p.span(p.out[:0], f, 0, uint32(len(p.flat[f])), p.list.head)
	return p.out
}

// span appends flat[start:end], in which the objects of the list at head are
// to be put in order.
func (p *parser) span(dst []byte, f form, start, end uint32, head int32) []byte {
	flat := p.flat[f]
	for i := head; i >= 0; i = p.objs[i].next {
		o := &p.objs[i]
		dst = append(dst, flat[start:o.open[f]]...)
		for j, m := range p.kept[o.first : o.first+o.n] {
			if j > 0 {
				dst = append(dst, ',')
			}
			if m.head < 0 {
				dst = append(dst, flat[m.start[f]:m.end[f]]...)
			} else {
				dst = p.span(dst, f, m.start[f], m.end[f], m.head)
			}
		}
		start = o.close[f]
	}
	return append(dst, flat[start:end]...)
}
