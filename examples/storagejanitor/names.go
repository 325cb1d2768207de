package storagejanitor

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Whoever may write into the bucket chooses the names that a person reads, so a
// name must not hide a part of itself, turn the text around or look like the
// rest of the question.

// visible returns s with everything that does not print, and the backslash,
// written as Go escapes: control characters, line breaks, bidirectional controls,
// zero-width and other default-ignorable characters.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) && r != '\\' && r != utf8.RuneError &&
			!unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

// shownRunes is how much of a name a question shows.
const shownRunes = 80

// shown returns name as a question shows it: visible, cut in the middle, and in
// quotes if it holds anything that could pass for the text around it.
func shown(name string) string {
	s := cut(visible(name), shownRunes)
	if strings.ContainsAny(s, " ,;:?!'\"()[]…") {
		s = `"` + strings.ReplaceAll(s, `"`, `\"`) + `"`
	}
	return s
}

// cut shortens s to at most n characters, keeping its beginning and its end.
func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	head := (n - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(n-1-head):])
}
