package canonjson

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"sync"
)

const (
	// With up to so many digits strconv.ParseFloat is fast wherever float64 is
	// normal. With more, and at the ends of the range, it falls back to decimal
	// arithmetic: up to 0.1 ms for six bytes of input.
	quickDigits   = 19
	quickPointMin = -304
	quickPointMax = 308

	// A decimal that lies half way between two float64 has at most 767 digits.
	enoughDigits = 768
)

// nearest returns the float64 nearest to digits × 10^exp, ties to even,
// infinite on overflow. digits have no outer zeros and are not empty, and
// -324 < len(digits)+exp < 310, so that all the arithmetic is on integers of
// at most 4,000 bits.
func (p *parser) nearest(digits []byte, exp int) float64 {
	point := len(digits) + exp
	if len(digits) <= quickDigits && quickPointMin <= point && point <= quickPointMax {
		var buf [quickDigits + 8]byte
		text := append(append(buf[:0], digits...), 'e')
		text = strconv.AppendInt(text, int64(exp), 10)
		f, _ := strconv.ParseFloat(string(text), 64) // in range, so no error
		return f
	}
	if p.wide == nil {
		p.wide = new(wideInts)
	}
	return p.wide.nearest(digits, exp)
}

// wideInts are the operands of one division, kept for the next.
type wideInts struct{ num, den, quo, rem, small big.Int }

func (w *wideInts) nearest(digits []byte, exp int) float64 {
	sticky := len(digits) > enoughDigits
	if sticky {
		exp += len(digits) - enoughDigits - 1
		digits = digits[:enoughDigits]
	}
	w.num.SetUint64(0)
	for len(digits) > 0 {
		n := min(len(digits), 19) // as many as an uint64 holds
		var v uint64
		for _, c := range digits[:n] {
			v = v*10 + uint64(c-'0')
		}
		w.appendDigits(v, n)
		digits = digits[n:]
	}
	if sticky { // what was cut is not zero; where it ends makes no difference
		w.appendDigits(1, 1)
	}

	// The value is num / den.
	w.den.SetUint64(1)
	if exp >= 0 {
		w.multiply(&w.num, exp)
	} else {
		w.multiply(&w.den, -exp)
	}
	// Scale so that the quotient has 63 or 64 bits: value = quo × 2^-shift.
	shift := 63 - (w.num.BitLen() - w.den.BitLen())
	if shift >= 0 {
		w.num.Lsh(&w.num, uint(shift))
	} else {
		w.den.Lsh(&w.den, uint(-shift))
	}
	w.quo.QuoRem(&w.num, &w.den, &w.rem)
	q := w.quo.Uint64()
	if w.rem.Sign() != 0 {
		q |= 1 // below the last bit that rounding looks at
	}
	return scale(q, -shift)
}

// appendDigits sets num to num × 10^n + v.
func (w *wideInts) appendDigits(v uint64, n int) {
	w.small.Mul(&w.num, &powers().low[n])
	w.num.Add(&w.small, w.quo.SetUint64(v))
}

// multiply sets z to z × 10^n, n below 1,184.
func (w *wideInts) multiply(z *big.Int, n int) {
	t := powers()
	w.small.Mul(&t.low[n%32], &t.high[n/32])
	w.rem.Mul(z, &w.small)
	z.Set(&w.rem)
}

type powersOfTen struct {
	low  [32]big.Int // 10^i
	high [37]big.Int // 10^(32*i)
}

var powers = sync.OnceValue(func() *powersOfTen {
	t := new(powersOfTen)
	t.low[0].SetUint64(1)
	t.high[0].SetUint64(1)
	ten := big.NewInt(10)
	for i := 1; i < len(t.low); i++ {
		t.low[i].Mul(&t.low[i-1], ten)
	}
	step := new(big.Int).Mul(&t.low[31], ten)
	for i := 1; i < len(t.high); i++ {
		t.high[i].Mul(&t.high[i-1], step)
	}
	return t
})

// scale returns the float64 nearest to q × 2^e, ties to even. q has at least 62
// bits and stands for a value that may have more, if its last bit is set.
func scale(q uint64, e int) float64 {
	if bits.Len64(q)+e > -1022 {
		return math.Ldexp(float64(q), e) // exact, or infinite
	}
	// Subnormal: whole multiples of 2^-1074, rounded once. Their bits are the
	// multiple itself, and so are those of the smallest normal number.
	drop := uint(-1074 - e)
	if drop >= 64 {
		return math.Float64frombits(roundOff(q>>8|nonZero(q&0xff), drop-8))
	}
	return math.Float64frombits(roundOff(q, drop))
}

func nonZero(v uint64) uint64 {
	if v != 0 {
		return 1
	}
	return 0
}

// roundOff returns q / 2^n rounded to the nearest, ties to even, 0 < n < 64.
func roundOff(q uint64, n uint) uint64 {
	k, rest, half := q>>n, q&(1<<n-1), uint64(1)<<(n-1)
	if rest > half || rest == half && k&1 == 1 {
		k++
	}
	return k
}
