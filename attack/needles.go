package attack

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

const (
	// chunk is how much of a secret must be found in a piece. Of any 31
	// characters of a secret in a row, 16 are such a piece.
	chunk = 16
	// shortest is the length from which a secret tells itself from other text.
	shortest = 8
	// longest is how much is looked for from either end of a long secret.
	longest = 2048
)

// needles are secrets to be found in a haystack, whole or in part, as they are
// or in another spelling.
type needles struct {
	n        int // secrets
	chunks   map[[chunk]byte]string
	literals []literal
	words    []literal
}

type literal struct{ what, text string }

func newNeedles() *needles { return &needles{chunks: map[[chunk]byte]string{}} }

// add adds a secret. One that is too short to be told from other text is not
// looked for.
func (n *needles) add(what, secret string) {
	if len(secret) < shortest {
		return
	}
	n.n++
	parts := []string{secret}
	if len(secret) > 2*longest {
		parts = []string{secret[:longest], secret[len(secret)-longest:]}
	}
	for _, p := range parts {
		for _, s := range spellings(p) {
			if len(s) < chunk {
				n.literals = append(n.literals, literal{what, s})
				continue
			}
			for i := 0; i+chunk <= len(s); i += chunk {
				n.chunks[[chunk]byte([]byte(s[i:i+chunk]))] = what
			}
		}
	}
}

// word looks for a short text where it stands alone.
func (n *needles) word(what, text string) {
	n.n++
	for _, s := range spellings(text) {
		n.words = append(n.words, literal{what, s})
	}
}

// literal looks for a text as it is.
func (n *needles) literal(what, text string) { n.literals = append(n.literals, literal{what, text}) }

// find names what the text holds, or returns "".
func (n *needles) find(text []byte) string {
	for i := 0; i+chunk <= len(text); i++ {
		if what, ok := n.chunks[[chunk]byte(text[i:i+chunk])]; ok {
			return what
		}
	}
	for _, l := range n.literals {
		if bytes.Contains(text, []byte(l.text)) {
			return l.what
		}
	}
	for _, w := range n.words {
		if alone(text, []byte(w.text)) {
			return w.what
		}
	}
	return ""
}

// alone reports whether a word is in a text and not part of a longer one.
func alone(text, word []byte) bool {
	part := func(c byte) bool {
		return c == '-' || c == '_' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
	}
	for from := 0; ; {
		i := bytes.Index(text[from:], word)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(word)
		if (start == 0 || !part(text[start-1])) && (end == len(text) || !part(text[end])) {
			return true
		}
		from = start + 1
	}
}

// spellings are the forms in which a program may have written a text.
func spellings(s string) []string {
	inner := func(quoted string) string { return quoted[1 : len(quoted)-1] }
	b := []byte(s)
	forms := []string{
		s, inner(strconv.Quote(s)), inner(strconv.QuoteToASCII(s)), inner(quote(s)), inner(strconv.Quote(inner(quote(s)))),
		url.QueryEscape(s), url.PathEscape(s),
		hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)), fmt.Sprintf("% x", b),
		inner(fmt.Sprint(b)), strings.ReplaceAll(inner(fmt.Sprint(b)), " ", ","),
	}
	// In base64 a text looks in one of three ways, by where it begins. The
	// characters at its ends belong to what is around it.
	for from := range min(3, len(b)) {
		whole := b[from : len(b)-(len(b)-from)%3]
		forms = append(forms, base64.StdEncoding.EncodeToString(whole), base64.URLEncoding.EncodeToString(whole))
	}
	seen := map[string]bool{"": true}
	distinct := forms[:0]
	for _, f := range forms {
		if !seen[f] {
			seen[f] = true
			distinct = append(distinct, f)
		}
	}
	return distinct
}
