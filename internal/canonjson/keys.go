package canonjson

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"unicode"
	"unicode/utf8"
)

// keyRef places a decoded key: in the text, or, from len(text) on, in keys.
type keyRef struct{ off, len uint32 }

// A sortKey is a key, its first eight bytes, which settle most comparisons, and
// which member of its object it belongs to.
type sortKey struct {
	prefix uint64
	ref    keyRef
	index  uint32
}

func (p *parser) key(r keyRef) []byte {
	if o := int(r.off) - len(p.text); o >= 0 {
		return p.keys[o : o+int(r.len)]
	}
	return p.text[r.off : r.off+r.len]
}

// prefix returns the first eight bytes of a key as a number that orders as they
// do. A shorter key is filled up with zeros, so equal prefixes say nothing.
func (p *parser) prefix(r keyRef) uint64 {
	if o := int(r.off) - len(p.text); o >= 0 {
		return prefixOf(p.keys, o, int(r.len))
	}
	return prefixOf(p.text, int(r.off), int(r.len))
}

// prefixOf is prefix for the key in[off:off+n].
func prefixOf(in []byte, off, n int) uint64 {
	var v uint64
	if off+8 <= len(in) {
		v = binary.BigEndian.Uint64(in[off : off+8])
	} else {
		var eight [8]byte
		copy(eight[:], in[off:])
		v = binary.BigEndian.Uint64(eight[:])
	}
	if n < 8 {
		v &^= math.MaxUint64 >> (8 * n)
	}
	return v
}

// less orders keys by code point, which for WTF-8 is the order of the bytes.
func (p *parser) less(a, b *sortKey) bool {
	return a.prefix < b.prefix || a.prefix == b.prefix && p.compareRefs(a.ref, b.ref) < 0
}

func (p *parser) equal(a, b *sortKey) bool {
	return a.prefix == b.prefix && p.compareRefs(a.ref, b.ref) == 0
}

func (p *parser) compareRefs(a, b keyRef) int { return bytes.Compare(p.key(a), p.key(b)) }

// insertionMax is the length up to which insertion sort is the faster one.
const insertionMax = 12

// sortKeys sorts by key, equal keys in document order.
func (p *parser) sortKeys(s []sortKey) {
	if len(s) > insertionMax {
		slices.SortFunc(s, p.compare)
		return
	}
	for i := 1; i < len(s); i++ {
		k := s[i]
		j := i
		for ; j > 0 && p.less(&k, &s[j-1]); j-- {
			s[j] = s[j-1]
		}
		s[j] = k
	}
}

func (p *parser) compare(a, b sortKey) int {
	if a.prefix != b.prefix {
		return cmp.Compare(a.prefix, b.prefix)
	}
	if c := p.compareRefs(a.ref, b.ref); c != 0 {
		return c
	}
	return cmp.Compare(a.index, b.index)
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
func (p *parser) caseTwins(order []sortKey) bool {
	base := len(p.keys)
	p.folds = slices.Grow(p.folds[:0], len(order))
	for i := range order {
		start := len(p.keys)
		p.keys = appendFolded(p.keys, p.key(order[i].ref))
		ref := keyRef{uint32(len(p.text) + start), uint32(len(p.keys) - start)}
		p.folds = append(p.folds, sortKey{p.prefix(ref), ref, uint32(i)})
	}
	p.sortKeys(p.folds)
	twins := false
	for i := 1; i < len(p.folds) && !twins; i++ {
		twins = p.equal(&p.folds[i-1], &p.folds[i])
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
		if r == utf8.RuneError && size == 1 {
			// A lone surrogate, three bytes: Python tells them apart, Go
			// reads each as U+FFFD.
			r, size = utf8.RuneError, 3
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
