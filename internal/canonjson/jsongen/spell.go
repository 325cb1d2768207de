package jsongen

import (
	"fmt"
	"math/rand/v2"
	"unicode/utf8"
)

// A speller writes a node in one of its many spellings.
type speller struct {
	r       *rand.Rand
	out     []byte
	spaced  bool
	escapes int // 0: only what must be, 1: some, 2: nearly all
}

func (s *speller) space() {
	if s.spaced {
		for range s.r.IntN(3) {
			s.out = append(s.out, " \t\n\r"[s.r.IntN(4)])
		}
	}
}

func (s *speller) value(n node) {
	switch n.kind {
	case literal:
		s.out = append(s.out, n.raw...)
	case integer:
		if n.raw == "0" || n.raw == "-0" {
			n.raw = []string{"0", "-0"}[s.r.IntN(2)] // one number in both forms
		}
		s.out = append(s.out, n.raw...)
	case float:
		s.decimal(n.number)
	case text:
		s.chars(n.chars)
	case array:
		s.out = append(s.out, '[')
		s.space()
		for i, e := range n.elems {
			s.comma(i)
			s.value(e)
			s.space()
		}
		s.out = append(s.out, ']')
	case object:
		s.out = append(s.out, '{')
		s.space()
		for i, j := range s.r.Perm(len(n.elems)) {
			s.comma(i)
			s.chars(n.keys[j])
			s.space()
			s.out = append(s.out, ':')
			s.space()
			s.value(n.elems[j])
			s.space()
		}
		s.out = append(s.out, '}')
	}
}

func (s *speller) comma(i int) {
	if i > 0 {
		s.out = append(s.out, ',')
		s.space()
	}
}

var short = map[rune]string{
	'"': `\"`, '\\': `\\`, '/': `\/`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`,
}

func (s *speller) chars(chars []rune) {
	s.out = append(s.out, '"')
	for _, c := range chars {
		must := c < ' ' || c == '"' || c == '\\' || 0xd800 <= c && c < 0xe000
		if !must && s.r.IntN(4) >= s.escapes*2-s.escapes/2 {
			s.out = utf8.AppendRune(s.out, c)
			continue
		}
		if e := short[c]; e != "" && s.r.IntN(2) == 0 {
			s.out = append(s.out, e...)
			continue
		}
		if c >= 0x10000 {
			s.unit(0xd800 + (c-0x10000)>>10)
			c = 0xdc00 + (c-0x10000)&0x3ff
		}
		s.unit(c)
	}
	s.out = append(s.out, '"')
}

func (s *speller) unit(u rune) {
	format := []string{`\u%04x`, `\u%04X`}[s.r.IntN(2)]
	s.out = fmt.Appendf(s.out, format, u)
}
