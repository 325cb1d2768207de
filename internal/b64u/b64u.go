// Package b64u is base64url without padding (RFC 4648, section 5), with one
// spelling for each text: padding, the other alphabet, white space, line ends and
// stray bits in the last character are refused. Tokens spend a good part of their
// time here, so it works by table, eight characters at a time.
package b64u

import (
	"encoding/binary"
	"errors"
	"slices"
)

// ErrMalformed says that a text is not the one spelling of any bytes.
var ErrMalformed = errors.New("b64u: malformed")

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// pairs spells each 12 bits, the first character in the low byte. values tells
// the 6 bits of each character at each of the four places of a group, or bad.
var (
	pairs  [1 << 12]uint16
	values [4][256]uint32
)

const bad = 1 << 31

func init() {
	for i := range pairs {
		pairs[i] = uint16(alphabet[i>>6]) | uint16(alphabet[i&63])<<8
	}
	for place := range values {
		for i := range values[place] {
			values[place][i] = bad
		}
		for i := range len(alphabet) {
			values[place][alphabet[i]] = uint32(i) << (18 - 6*place)
		}
	}
}

// EncodedLen is the length of the text of n bytes.
func EncodedLen(n int) int { return n/3*4 + (n%3*8+5)/6 }

// Encode writes the text of src to dst, which has EncodedLen(len(src)) bytes.
func Encode(dst, src []byte) {
	for len(src) >= 8 && len(dst) >= 8 {
		v := binary.BigEndian.Uint64(src) >> 16 // six bytes
		binary.LittleEndian.PutUint64(dst, uint64(pairs[v>>36&0xfff])|uint64(pairs[v>>24&0xfff])<<16|
			uint64(pairs[v>>12&0xfff])<<32|uint64(pairs[v&0xfff])<<48)
		dst, src = dst[8:], src[6:]
	}
	for len(src) >= 3 {
		v := uint32(src[0])<<16 | uint32(src[1])<<8 | uint32(src[2])
		binary.LittleEndian.PutUint32(dst, uint32(pairs[v>>12])|uint32(pairs[v&0xfff])<<16)
		dst, src = dst[4:], src[3:]
	}
	switch len(src) {
	case 1:
		binary.LittleEndian.PutUint16(dst, pairs[uint32(src[0])<<4])
	case 2:
		v := uint32(src[0])<<16 | uint32(src[1])<<8
		binary.LittleEndian.PutUint16(dst, pairs[v>>12])
		dst[2] = alphabet[v>>6&63]
	}
}

// Append appends the text of src to dst.
func Append(dst, src []byte) []byte {
	n, more := len(dst), EncodedLen(len(src))
	dst = slices.Grow(dst, more)[:n+more]
	Encode(dst[n:], src)
	return dst
}

// Decode appends the bytes that text spells to dst.
func Decode(dst []byte, text string) ([]byte, error) {
	const slack = 8 // each step writes eight bytes, of which six count
	start, n := len(dst), len(text)/4*3
	dst = slices.Grow(dst, n+slack)
	out := dst[start : start+n+slack]
	wrong := uint32(0) // has the bit of bad if any character is none
	at := 0
	for ; len(text) >= 8; text = text[8:] {
		v := values[0][text[0]] | values[1][text[1]] | values[2][text[2]] | values[3][text[3]]
		w := values[0][text[4]] | values[1][text[5]] | values[2][text[6]] | values[3][text[7]]
		wrong |= v | w
		binary.BigEndian.PutUint64(out[at:], uint64(v)<<40|uint64(w)<<16)
		at += 6
	}
	if len(text) >= 4 {
		v := values[0][text[0]] | values[1][text[1]] | values[2][text[2]] | values[3][text[3]]
		wrong |= v
		binary.BigEndian.PutUint32(out[at:], v<<8)
		text = text[4:]
	}
	dst = dst[:start+n]
	switch len(text) {
	case 1:
		return nil, ErrMalformed
	case 2:
		v := values[0][text[0]] | values[1][text[1]]
		if wrong |= v; v&0xffff != 0 {
			return nil, ErrMalformed // bits that no byte has
		}
		dst = append(dst, byte(v>>16))
	case 3:
		v := values[0][text[0]] | values[1][text[1]] | values[2][text[2]]
		if wrong |= v; v&0xff != 0 {
			return nil, ErrMalformed
		}
		dst = append(dst, byte(v>>16), byte(v>>8))
	}
	if wrong&bad != 0 {
		return nil, ErrMalformed
	}
	return dst, nil
}
