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
	// Reading eight bytes for six needs two more than are spelled.
	for len(src) >= 26 && len(dst) >= 32 {
		in, out := (*[26]byte)(src), (*[32]byte)(dst)
		binary.LittleEndian.PutUint64(out[0:8], eight(binary.BigEndian.Uint64(in[0:8])))
		binary.LittleEndian.PutUint64(out[8:16], eight(binary.BigEndian.Uint64(in[6:14])))
		binary.LittleEndian.PutUint64(out[16:24], eight(binary.BigEndian.Uint64(in[12:20])))
		binary.LittleEndian.PutUint64(out[24:32], eight(binary.BigEndian.Uint64(in[18:26])))
		dst, src = dst[32:], src[24:]
	}
	for len(src) >= 8 && len(dst) >= 8 {
		binary.LittleEndian.PutUint64(dst, eight(binary.BigEndian.Uint64(src)))
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

// eight spells the upper six bytes of v, the first character in the low byte.
func eight(v uint64) uint64 {
	return uint64(pairs[v>>52]) | uint64(pairs[v>>40&0xfff])<<16 |
		uint64(pairs[v>>28&0xfff])<<32 | uint64(pairs[v>>16&0xfff])<<48
}

// Append appends the text of src to dst.
func Append(dst, src []byte) []byte {
	n, more := len(dst), EncodedLen(len(src))
	dst = slices.Grow(dst, more)[:n+more]
	Encode(dst[n:], src)
	return dst
}

// Decode appends the bytes that text spells to dst. For a dst with room for them
// and eight more it does not allocate.
func Decode(dst []byte, text string) ([]byte, error) {
	const slack = 8 // each step writes eight bytes, of which six count
	start, n := len(dst), len(text)/4*3
	dst = slices.Grow(dst, n+slack)
	out := dst[start : start+n+slack]
	wrong := uint32(0) // has the bit of bad if any character is none
	for ; len(text) >= 16 && len(out) >= 14; text, out = text[16:], out[12:] {
		v := values[0][text[0]] | values[1][text[1]] | values[2][text[2]] | values[3][text[3]]
		w := values[0][text[4]] | values[1][text[5]] | values[2][text[6]] | values[3][text[7]]
		x := values[0][text[8]] | values[1][text[9]] | values[2][text[10]] | values[3][text[11]]
		y := values[0][text[12]] | values[1][text[13]] | values[2][text[14]] | values[3][text[15]]
		wrong |= v | w | x | y
		twelve := (*[14]byte)(out)
		binary.BigEndian.PutUint64(twelve[0:8], uint64(v)<<40|uint64(w)<<16)
		binary.BigEndian.PutUint64(twelve[6:14], uint64(x)<<40|uint64(y)<<16)
	}
	for ; len(text) >= 4 && len(out) >= 4; text, out = text[4:], out[3:] {
		v := values[0][text[0]] | values[1][text[1]] | values[2][text[2]] | values[3][text[3]]
		wrong |= v
		binary.BigEndian.PutUint32(out, v<<8)
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

// DecodeFixed writes the bytes that text spells to dst and reports whether they
// are just as many as dst holds. On false dst is of no use.
func DecodeFixed(dst, text []byte) bool {
	if len(text) != EncodedLen(len(dst)) {
		return false
	}
	wrong := uint32(0)
	for ; len(text) >= 8 && len(dst) >= 8; text, dst = text[8:], dst[6:] {
		v := values[0][text[0]] | values[1][text[1]] | values[2][text[2]] | values[3][text[3]]
		w := values[0][text[4]] | values[1][text[5]] | values[2][text[6]] | values[3][text[7]]
		wrong |= v | w
		binary.BigEndian.PutUint64(dst, uint64(v)<<40|uint64(w)<<16) // six bytes count
	}
	for ; len(text) >= 4 && len(dst) >= 3; text, dst = text[4:], dst[3:] {
		v := values[0][text[0]] | values[1][text[1]] | values[2][text[2]] | values[3][text[3]]
		wrong |= v
		dst[0], dst[1], dst[2] = byte(v>>16), byte(v>>8), byte(v)
	}
	switch len(dst) {
	case 1:
		v := values[0][text[0]] | values[1][text[1]]
		if v&0xffff != 0 {
			return false // bits that no byte has
		}
		wrong |= v
		dst[0] = byte(v >> 16)
	case 2:
		v := values[0][text[0]] | values[1][text[1]] | values[2][text[2]]
		if v&0xff != 0 {
			return false
		}
		wrong |= v
		dst[0], dst[1] = byte(v>>16), byte(v>>8)
	}
	return wrong&bad == 0
}
