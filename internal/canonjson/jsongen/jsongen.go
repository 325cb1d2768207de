// Package jsongen generates JSON argument objects for tests. Together they
// cover every rule of the canonical forms: key order beyond the basic plane,
// lone surrogates, control characters, integers of any length, floats of every
// magnitude and spelling, nesting, white space.
//
// No object has two keys that are equal or equal but for case, so a server that
// refuses ambiguous arguments accepts every document. All are within the
// default limits.
package jsongen

import (
	"math/rand/v2"
	"unicode"
)

// Document returns a JSON object. The same state of r gives the same document.
func Document(r *rand.Rand) []byte { return Spellings(r, 1)[0] }

// Spellings returns n texts of one generated object that must have the same
// digests: they differ in white space, member order, the escaping of strings
// and the spelling of numbers.
func Spellings(r *rand.Rand, n int) [][]byte {
	g := generator{r: r, budget: 4 + r.IntN(60)}
	root := g.object(1)
	out := make([][]byte, n)
	for i := range out {
		s := speller{r: r, spaced: r.IntN(3) == 0, escapes: r.IntN(3)}
		s.space()
		s.value(root)
		s.space()
		out[i] = s.out
	}
	return out
}

type kind int

const (
	literal kind = iota
	integer
	float
	text
	array
	object
)

type node struct {
	kind   kind
	raw    string // literal, integer
	number decimal
	chars  []rune
	keys   [][]rune
	elems  []node
}

type generator struct {
	r      *rand.Rand
	budget int // values still to be made
}

// maxDepth stays below the default limit of 64.
const maxDepth = 60

func (g *generator) value(depth int) node {
	g.budget--
	choice := g.r.IntN(20)
	if depth >= maxDepth || g.budget <= 0 {
		choice = g.r.IntN(14)
	}
	switch {
	case choice < 2:
		return node{kind: literal, raw: []string{"true", "false", "null"}[g.r.IntN(3)]}
	case choice < 5:
		return node{kind: integer, raw: g.integer()}
	case choice < 9:
		return node{kind: float, number: g.float()}
	case choice < 14:
		return node{kind: text, chars: g.chars(g.r.IntN(13))}
	case choice < 16:
		n := node{kind: array}
		for range g.r.IntN(5) {
			n.elems = append(n.elems, g.value(depth+1))
		}
		return n
	case choice < 17 && g.r.IntN(10) == 0: // a shaft down to near the limit
		n := g.value(maxDepth)
		for range maxDepth - depth - 1 {
			n = node{kind: array, elems: []node{n}}
		}
		return n
	default:
		return g.object(depth + 1)
	}
}

func (g *generator) object(depth int) node {
	n := node{kind: object}
	members := g.r.IntN(7)
	if g.r.IntN(15) == 0 {
		members = g.r.IntN(40)
	}
	seen := map[string]bool{}
	for range members {
		key := g.key()
		if folded := fold(key); !seen[folded] {
			seen[folded] = true
			n.keys = append(n.keys, key)
			n.elems = append(n.elems, g.value(depth))
		}
	}
	return n
}

var commonKeys = []string{
	"", "a", "aa", "ab", "B", "prefix", "older_than", "max_bytes", "maxBytes", "10", "9", "__proto__",
	"préfixe", "日本", "\uffff", "\U0001f600", "\U00010000", "k", "ß", "İ", "ſt", "a\x00", "a\x00b", "a/b", "<&>", "\x7f",
	"longer than eight bytes", "longer than eight", "longer t",
}

func (g *generator) key() []rune {
	if g.r.IntN(3) > 0 {
		return []rune(commonKeys[g.r.IntN(len(commonKeys))])
	}
	return g.chars(g.r.IntN(10))
}

// fold maps keys that are equal but for case to one string. Lone surrogates
// fall together too, which only makes such keys rarer.
func fold(key []rune) string {
	folded := make([]rune, len(key))
	for i, c := range key {
		low := c
		for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
			low = min(low, f)
		}
		folded[i] = low
	}
	return string(folded)
}

const specials = "\"\\/<>&\b\f\n\r\t\x00\x1f\x7f'\u0080\u00a0\u2028\u2029\ufffd\ufffe\uffff\ufeff\U00010000\U0010ffff"

func (g *generator) chars(n int) []rune {
	special := []rune(specials)
	plain := g.r.IntN(2) == 0
	var s []rune
	for range n {
		var c rune
		switch choice := g.r.IntN(12); {
		case plain || choice < 4:
			c = ' ' + g.r.Int32N(0x7f-' ')
		case choice < 6:
			c = special[g.r.IntN(len(special))]
		case choice < 7:
			c = g.r.Int32N(0x20)
		case choice < 8:
			c = 0x80 + g.r.Int32N(0x780)
		case choice < 9:
			c = 0x800 + g.r.Int32N(0xd800-0x800)
		case choice < 10:
			c = 0x10000 + g.r.Int32N(0x100000)
		default:
			c = 0xd800 + g.r.Int32N(0x800) // lone surrogate
		}
		if len(s) > 0 && s[len(s)-1]>>10 == 0xd800>>10 && c>>10 == 0xdc00>>10 {
			c -= 0x400 // a low one after a high one would make a pair
		}
		s = append(s, c)
	}
	return s
}
