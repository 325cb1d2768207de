package canonjson

import (
	"math"
	"strconv"
)

// AppendFloat appends f as Python's repr does: the shortest digits that round
// to f, in fixed notation with at least ".0" while 1e-4 <= |f| < 1e16, else
// with an exponent of a sign and at least two digits. Infinity is Infinity or
// -Infinity and NaN is NaN, as json.dumps writes them; neither is JSON.
func AppendFloat(dst []byte, f float64) []byte {
	switch abs := math.Abs(f); {
	case f != f:
		return append(dst, "NaN"...)
	case abs > math.MaxFloat64:
		return appendInfinity(dst, f < 0)
	case abs != 0 && (abs < 1e-4 || abs >= 1e16):
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	for _, c := range dst[start:] {
		if c == '.' {
			return dst
		}
	}
	return append(dst, '.', '0')
}

func appendInfinity(dst []byte, neg bool) []byte {
	if neg {
		dst = append(dst, '-')
	}
	return append(dst, "Infinity"...)
}

// number reads the number at pos.
func (p *parser) number() bool {
	text, start := p.text, p.pos
	i := start
	neg := text[i] == '-'
	if neg {
		i++
	}
	intStart := i
	i = digitsEnd(text, i)
	if i == intStart || text[intStart] == '0' && i > intStart+1 {
		return p.fail(ErrSyntax, "bad number", start)
	}
	intEnd := i
	isInt := true
	fracStart, fracEnd := i, i
	if i < len(text) && text[i] == '.' {
		isInt = false
		fracStart = i + 1
		i = digitsEnd(text, fracStart)
		if i == fracStart {
			return p.fail(ErrSyntax, "bad number", start)
		}
		fracEnd = i
	}
	exp := 0
	if i < len(text) && text[i]|0x20 == 'e' {
		isInt = false
		i++
		expNeg := i < len(text) && text[i] == '-'
		if expNeg || i < len(text) && text[i] == '+' {
			i++
		}
		expStart := i
		i = digitsEnd(text, i)
		switch {
		case i == expStart:
			return p.fail(ErrSyntax, "bad number", start)
		case i-expStart > p.lim.MaxExponentDigits: // before any arithmetic
			return p.fail(ErrLimit, "exponent", start)
		}
		for _, c := range text[expStart:i] {
			exp = exp*10 + int(c-'0')
		}
		if expNeg {
			exp = -exp
		}
	}
	if isInt && intEnd-intStart > p.lim.MaxIntDigits {
		return p.fail(ErrLimit, "integer digits", start)
	}
	p.flush()
	p.numbers = true
	p.pos, p.mark = i, i
	if p.want&wantText == 0 {
		return true
	}

	// The number is ±digits × 10^exp, digits without outer zeros.
	digits := text[intStart:intEnd]
	if fracEnd > fracStart {
		p.digits = append(append(p.digits[:0], digits...), text[fracStart:fracEnd]...)
		digits = p.digits
		exp -= fracEnd - fracStart
	}
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		exp++
	}
	if p.want&wantPython != 0 {
		switch {
		case !isInt:
			p.flat[python] = p.appendRepr(p.flat[python], neg, digits, exp)
		case len(digits) == 0:
			p.flat[python] = append(p.flat[python], '0') // -0 too
		default:
			p.flat[python] = append(p.flat[python], text[start:i]...)
		}
	}
	if p.want&wantExact != 0 {
		p.flat[exact] = appendDecimal(p.flat[exact], neg, digits, exp)
	}
	return true
}

func digitsEnd(text []byte, i int) int {
	for i < len(text) && text[i]-'0' <= 9 {
		i++
	}
	return i
}

// appendDecimal appends the exact form. Zero has no sign: it carries no value.
func appendDecimal(dst []byte, neg bool, digits []byte, exp int) []byte {
	if len(digits) == 0 {
		return append(dst, "0e0"...)
	}
	if neg {
		dst = append(dst, '-')
	}
	dst = append(dst, digits...)
	dst = append(dst, 'e')
	return strconv.AppendInt(dst, int64(exp), 10)
}

// overflow are the first digits of 2^1024 - 2^970, from which on numbers round
// to infinity, the last one rounded up. It only saves work.
const overflow = "1797693134862315808"

// appendRepr appends the repr of the float64 nearest to ±digits × 10^exp.
func (p *parser) appendRepr(dst []byte, neg bool, digits []byte, exp int) []byte {
	point := len(digits) + exp // the value is ±0.digits × 10^point
	switch {
	case len(digits) == 0 || point <= -324: // below half of the smallest float64
		if neg {
			dst = append(dst, '-')
		}
		return append(dst, "0.0"...)
	case point >= 310, point == 309 && string(digits) >= overflow:
		return appendInfinity(dst, neg)
	case len(digits) <= 15 && -300 < point && point < 300:
		// No two decimals of up to 15 digits round to one normal float64, so
		// these digits are the shortest that round to it: no conversion needed.
		return appendDigits(dst, neg, digits, point)
	}
	f := p.nearest(digits, exp)
	if neg {
		f = -f
	}
	return AppendFloat(dst, f)
}

// appendDigits appends ±0.digits × 10^point in the notation of repr.
func appendDigits(dst []byte, neg bool, digits []byte, point int) []byte {
	if neg {
		dst = append(dst, '-')
	}
	switch {
	case point <= -4 || point > 16:
		dst = append(dst, digits[0])
		if len(digits) > 1 {
			dst = append(dst, '.')
			dst = append(dst, digits[1:]...)
		}
		e, sign := point-1, byte('+')
		if e < 0 {
			e, sign = -e, '-'
		}
		dst = append(dst, 'e', sign)
		if e < 10 {
			dst = append(dst, '0')
		}
		return strconv.AppendInt(dst, int64(e), 10)
	case point <= 0:
		dst = append(dst, "0.0000"[:2-point]...)
		return append(dst, digits...)
	case point >= len(digits):
		dst = append(dst, digits...)
		dst = append(dst, "0000000000000000"[:point-len(digits)]...)
		return append(dst, '.', '0')
	default:
		dst = append(dst, digits[:point]...)
		dst = append(dst, '.')
		return append(dst, digits[point:]...)
	}
}
