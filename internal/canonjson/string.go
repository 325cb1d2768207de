package canonjson

import (
	"encoding/binary"
	"math/bits"
	"unicode"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string in canonical spelling: ASCII only,
// everything outside 0x20 to 0x7e as lower-case \uXXXX (characters beyond the
// basic plane as a pair, a lone surrogate as itself) or the short forms \" \\
// \n \r \t \b \f, and / < > & as they are. s must be valid WTF-8 (see
// [ValidWTF8]); any other byte is written as \ufffd.
func AppendString(dst []byte, s string) []byte { return appendString(dst, s) }

func appendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := decodeWTF8(s, i)
			if r >= 0x10000 {
				r -= 0x10000
				dst = appendEscape(dst, 0xd800+r>>10)
				r = 0xdc00 + r&0x3ff
			}
			dst = appendEscape(dst, r)
			i += size
			continue
		}
		var n int
		if dst, n = appendQuick(dst, s, i); n > 0 {
			i += n
			continue
		}
		if end := runEnd(s, i); end > i {
			dst = append(dst, s[i:end]...)
			i = end
			continue
		}
		dst = appendShort(dst, c)
		i++
	}
	return append(dst, '"')
}

// appendQuick appends s from i on, in steps of eight bytes, as far as they hold no
// more than plain characters, quotes and backslashes and dst has room. It returns
// how many bytes of s it took.
func appendQuick[T string | []byte](dst []byte, s T, i int) ([]byte, int) {
	out, n, start := dst[:cap(dst)], len(dst), i
	for ; i+8 <= len(s) && n+24 <= len(out); i += 8 {
		x := eight(s, i)
		escaped, other := marks(x)
		if other != 0 {
			break
		}
		// Every step writes all that is left of the eight bytes and counts what
		// stands before the next that is escaped.
		left := 8
		for escaped != 0 {
			near := bits.TrailingZeros64(escaped) >> 3
			binary.LittleEndian.PutUint64(out[n:n+8], x)
			n += near
			out[n], out[n+1] = '\\', byte(x>>(8*near))
			n += 2
			x, escaped = x>>(8*near)>>8, escaped>>(8*near)>>8
			left -= near + 1
		}
		binary.LittleEndian.PutUint64(out[n:n+8], x)
		n += left
	}
	if i+8 > len(s) { // what is left of s is too short for a step
		for ; i < len(s) && n < len(out) && plain[s[i]]; i++ {
			out[n] = s[i]
			n++
		}
	}
	return out[:n], i - start
}

// appendShort appends the escape of an ASCII character that is not plain.
func appendShort(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	}
	return appendEscape(dst, rune(c))
}

// appendEscape appends one UTF-16 unit as \uXXXX.
func appendEscape(dst []byte, u rune) []byte {
	return append(dst, '\\', 'u', hexDigits[u>>12&15], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}

// Plain returns how many bytes at the start of text canonical JSON writes as
// themselves inside a string.
func Plain(text []byte) int { return plainEnd(text, 0) }

// plainEnd returns the place of the first byte from i on that canonical JSON
// does not write as itself inside a string, or len(s).
func plainEnd[T string | []byte](s T, i int) int {
	for ; i+8 <= len(s); i += 8 {
		if near := specialAt(eight(s, i)); near < 8 {
			return i + near
		}
	}
	for i < len(s) && plain[s[i]] {
		i++
	}
	return i
}

// eight returns s[i:i+8], the first byte as the lowest.
func eight[T string | []byte](s T, i int) uint64 {
	b := s[i : i+8]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// specialAt returns which of eight bytes is the first that canonical JSON does
// not write as itself inside a string, or 8.
func specialAt(x uint64) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote := x ^ '"'*ones
	slash := x ^ '\\'*ones
	// The high bit of each byte that is 0x7f and up, less than 0x20, a quote or
	// a backslash. Carries spoil only bytes above such a one.
	return bits.TrailingZeros64((x+ones|x|(x-' '*ones)&^x|(quote-ones)&^quote|(slash-ones)&^slash)&highs) >> 3
}

// marks sets the high bit of each of eight bytes, in escaped for a quote or a
// backslash and in other for the rest of what is special. Nothing is carried from
// one byte to another, unless other is not zero.
func marks(x uint64) (escaped, other uint64) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	other = (x | (x + ones) | ^(x + 0x60*ones)) & highs
	quote := (x ^ '"'*ones) + 0x7f*ones
	slash := (x ^ '\\'*ones) + 0x7f*ones
	return ^(quote & slash) & highs, other
}

// plain tells which bytes canonical JSON writes as themselves inside a string.
var plain = func() (t [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// runEnd is plainEnd for text that may have many escapes: it looks at the first
// bytes one by one.
func runEnd[T string | []byte](s T, i int) int {
	for near := min(i+8, len(s)); i < near; i++ {
		if !plain[s[i]] {
			return i
		}
	}
	return plainEnd(s, i)
}

// decodeWTF8 decodes the character at s[i], which is not ASCII. A surrogate's
// three bytes are a character here. What is not WTF-8 is U+FFFD, size 1.
func decodeWTF8[T string | []byte](s T, i int) (r rune, size int) {
	var tail [3]rune // the payload of up to three more bytes, 0x40 if there is none
	for j := range tail {
		tail[j] = 0x40
		if i+1+j < len(s) && s[i+1+j]&0xc0 == 0x80 {
			tail[j] = rune(s[i+1+j] & 0x3f)
		}
	}
	switch c := rune(s[i]); {
	case c < 0xc2:
	case c < 0xe0:
		if tail[0] < 0x40 {
			return c&0x1f<<6 | tail[0], 2
		}
	case c < 0xf0:
		if r = c&0x0f<<12 | tail[0]<<6 | tail[1]; tail[0] < 0x40 && tail[1] < 0x40 && r >= 0x800 {
			return r, 3
		}
	case c < 0xf5:
		r = c&0x07<<18 | tail[0]<<12 | tail[1]<<6 | tail[2]
		if tail[0] < 0x40 && tail[1] < 0x40 && tail[2] < 0x40 && r >= 0x10000 && r <= unicode.MaxRune {
			return r, 4
		}
	}
	return utf8.RuneError, 1
}

// ValidWTF8 reports whether s is UTF-8 in which lone surrogates may stand as
// their three bytes. A high surrogate followed by a low one is not valid: the
// character they make has one spelling, its four bytes.
func ValidWTF8(s string) bool {
	if utf8.ValidString(s) {
		return true
	}
	afterHigh := false
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			afterHigh = false
			i++
			continue
		}
		r, size := decodeWTF8(s, i)
		if r == utf8.RuneError && size == 1 {
			return false
		}
		if afterHigh && isLow(r) {
			return false
		}
		afterHigh = isHigh(r)
		i += size
	}
	return true
}

func isHigh(r rune) bool { return r&^0x3ff == 0xd800 }
func isLow(r rune) bool  { return r&^0x3ff == 0xdc00 }

// DecodeString decodes the JSON string at the start of text, which must begin
// with its quote, to WTF-8 and returns how many bytes of text it took. It is
// strict: control characters and invalid UTF-8 are [ErrSyntax].
func DecodeString(text []byte) (s string, n int, err error) {
	if len(text) == 0 || text[0] != '"' {
		return "", 0, &posError{ErrSyntax, "not a string", 0}
	}
	if end := plainEnd(text, 1); end < len(text) && text[end] == '"' {
		return string(text[1:end]), end + 1, nil
	}
	var scratch [256]byte // keeps what is not long off the heap
	b, n, perr := appendDecoded(scratch[:0], text)
	if perr != nil {
		return "", 0, perr
	}
	return string(b), n, nil
}

// appendDecoded appends the string at the start of text, decoded, to dst and
// returns how many bytes of text it took.
func appendDecoded(dst, text []byte) ([]byte, int, *posError) {
	dst, run := appendUnquoted(dst, text) // what text[run:i] holds stands for itself
	for i := run; i < len(text); {
		c := text[i]
		switch {
		case c == '"':
			return append(dst, text[run:i]...), i + 1, nil
		case c == '\\' && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\' || text[i+1] == '/'):
			// What is escaped stands for itself: leave out the backslash.
			dst = append(dst, text[run:i]...)
			run = i + 1
			i += 2
		case c == '\\':
			dst = append(dst, text[run:i]...)
			var n int
			if dst, n = appendUnescaped(dst, text[i:]); n == 0 {
				return nil, 0, &posError{ErrSyntax, "bad escape", i}
			}
			i += n
			run = i
		case c < ' ':
			return nil, 0, &posError{ErrSyntax, "control character", i}
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && size == 1 {
				return nil, 0, &posError{ErrSyntax, "invalid UTF-8", i}
			}
			i += size
		case c == 0x7f:
			i++
		default:
			i = runEnd(text, i)
		}
	}
	return nil, 0, &posError{ErrSyntax, "unexpected end", len(text)}
}

// appendUnquoted appends the string at the start of text, decoded, in steps of
// eight bytes, as far as they hold no more than plain characters and escapes that
// only add a backslash, and dst has room. It returns where in text it stopped.
func appendUnquoted(dst, text []byte) ([]byte, int) {
	out, n, i := dst[:cap(dst)], len(dst), 1
	for i+8 <= len(text) && n+16 <= len(out) {
		x := eight(text, i)
		escaped, other := marks(x)
		if other != 0 {
			break
		}
		left := 8
		for escaped != 0 {
			near := bits.TrailingZeros64(escaped) >> 3
			binary.LittleEndian.PutUint64(out[n:n+8], x)
			n += near
			x, escaped, left = x>>(8*near), escaped>>(8*near), left-near
			if byte(x) == '"' {
				return out[:n], i + 8 - left // the end
			}
			if left == 1 {
				break // the next step begins with the backslash
			}
			c := byte(x >> 8)
			if c != '"' && c != '\\' && c != '/' {
				return out[:n], i + 8 - left
			}
			out[n] = c
			n++
			x, escaped, left = x>>16, escaped>>16, left-2
		}
		if escaped != 0 {
			i += 7
			continue
		}
		binary.LittleEndian.PutUint64(out[n:n+8], x)
		n += left
		i += 8
	}
	return out[:n], i
}

// appendUnescaped appends what the escape at the start of text stands for, and
// returns its length, or 0 if it is none. Two escapes that make a surrogate
// pair count as one.
func appendUnescaped(dst, text []byte) ([]byte, int) {
	if len(text) < 2 {
		return dst, 0
	}
	switch text[1] {
	case 'b':
		return append(dst, '\b'), 2
	case 'f':
		return append(dst, '\f'), 2
	case 'n':
		return append(dst, '\n'), 2
	case 'r':
		return append(dst, '\r'), 2
	case 't':
		return append(dst, '\t'), 2
	}
	r := unit(text)
	switch {
	case r < 0:
		return dst, 0
	case isHigh(r):
		if low := unit(text[6:]); isLow(low) {
			return utf8.AppendRune(dst, 0x10000+(r-0xd800)<<10+(low-0xdc00)), 12
		}
	case !isLow(r):
		return utf8.AppendRune(dst, r), 6
	}
	return append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f), 6
}

// unit returns the UTF-16 unit of the \uXXXX at the start of text, or -1.
func unit(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range text[2:6] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return -1
		}
	}
	return r
}
