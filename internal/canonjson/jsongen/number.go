package jsongen

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var integers = []string{
	"0", "-0", "1", "-1", "10", "100", "9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993",
	"9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551616",
	"10000000000000000", "123456789012345678901234567890",
}

func (g *generator) integer() string {
	switch g.r.IntN(4) {
	case 0:
		return integers[g.r.IntN(len(integers))]
	case 1:
		return strconv.Itoa(g.r.IntN(2001) - 1000)
	case 2:
		return strconv.FormatInt(int64(g.r.Uint64()), 10)
	}
	n := 1 + g.r.IntN(40)
	if g.r.IntN(50) == 0 {
		n = 4300 // Python's limit
	}
	return []string{"", "-"}[g.r.IntN(2)] + string('1'+byte(g.r.IntN(9))) + g.digits(n-1)
}

func (g *generator) digits(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = '0' + byte(g.r.IntN(10))
	}
	return string(b)
}

// decimal is ±0.digits × 10^point, digits without outer zeros, none for zero.
// It is spelled as a float.
type decimal struct {
	neg    bool
	digits string
	point  int
}

// floats are the edges: of repr's notations, of float64, of halfway cases and
// of the difference between the two canonical forms.
var floats = []string{
	"0.0", "-0.0", "1.0", "-1.0", "0.1", "0.5", "100.0", "9007199254740992.0", "9007199254740993.0", "9007199254740995.0",
	"1e15", "1e16", "9999999999999998.0", "9999999999999999.0", "123456789012345.6", "1e17", "1e21", "1e22", "1e23",
	"1e-3", "1e-4", "9.9999e-5", "1e-5", "1.5e-7", "5e-324", "4.9e-324", "2.5e-324", "2.4703282292062327e-324", "2.4703282292062328e-324",
	"2.2250738585072014e-308", "2.2250738585072011e-308", "1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308",
	"1e308", "1e309", "1e310", "1e400", "-1e400", "1e999", "1e999900", "1e-323", "1e-324", "1e-400", "-1e-400", "1e-999900",
	"0.1000000000000000055511151231257827", "1.00000000000000011102230246251565404236316680908203125",
	"1.00000000000000011102230246251565404236316680908203124", "1.00000000000000011102230246251565404236316680908203126",
}

func (g *generator) float() decimal {
	switch g.r.IntN(6) {
	case 0:
		return parseDecimal(floats[g.r.IntN(len(floats))])
	case 1: // any float64, its shortest spelling
		for {
			if f := math.Float64frombits(g.r.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
				return parseDecimal(strconv.FormatFloat(f, 'e', -1, 64))
			}
		}
	case 2: // a power of two, where the spacing changes
		return parseDecimal(strconv.FormatFloat(math.Ldexp(1, g.r.IntN(2098)-1074), 'e', -1, 64))
	case 3: // what people write
		return parseDecimal(strconv.FormatFloat(g.r.NormFloat64()*1000, 'f', 1+g.r.IntN(6), 64))
	case 4: // around the edges of notation, up to 20 digits
		return parseDecimal(fmt.Sprintf("%s.%se%d", g.digits(1), g.digits(g.r.IntN(20)), g.r.IntN(40)-20))
	default: // more digits than float64 holds, any magnitude
		return parseDecimal(fmt.Sprintf("%s.%se%d", g.digits(1), g.digits(g.r.IntN(60)), g.r.IntN(700)-350))
	}
}

func parseDecimal(s string) decimal {
	var d decimal
	s, d.neg = strings.CutPrefix(s, "-")
	mantissa, exp, _ := strings.Cut(s, "e")
	whole, frac, _ := strings.Cut(mantissa, ".")
	if exp != "" {
		d.point, _ = strconv.Atoi(exp)
	}
	d.point += len(whole)
	d.digits = strings.TrimLeft(whole+frac, "0")
	d.point -= len(whole+frac) - len(d.digits)
	d.digits = strings.TrimRight(d.digits, "0")
	return d
}

func (s *speller) decimal(d decimal) {
	if d.neg {
		s.out = append(s.out, '-')
	}
	digits, point := d.digits, d.point
	if digits == "" {
		digits, point = "0", 1
	}
	digits += strings.Repeat("0", s.r.IntN(3))
	// Choose where the point stands, and let the exponent make up for it.
	at := point
	if at < -25 || at > 40 || s.r.IntN(2) == 0 {
		at = s.r.IntN(len(digits)+8) - 3
	}
	switch {
	case at <= 0:
		s.out = append(s.out, "0."...)
		s.out = append(s.out, strings.Repeat("0", -at)+digits...)
	case at >= len(digits):
		if zeros := strings.Repeat("0", at-len(digits)); digits[0] == '0' {
			s.out = append(s.out, '0')
		} else {
			s.out = append(s.out, digits+zeros...)
		}
		if at == point || s.r.IntN(2) == 0 {
			s.out = append(s.out, ".0"...)
		}
	case digits[0] == '0':
		s.out = append(s.out, "0."+digits...)
	default:
		s.out = append(s.out, digits[:at]+"."+digits[at:]...)
	}
	exp := point - at
	if d.digits == "" && exp != 0 {
		exp = s.r.IntN(2001) - 1000
	}
	if last := s.out[len(s.out)-1]; exp == 0 && at == point && last != '.' && s.r.IntN(3) > 0 {
		return
	}
	s.out = append(s.out, "eE"[s.r.IntN(2)])
	switch {
	case exp < 0:
		s.out = append(s.out, '-')
		exp = -exp
	case s.r.IntN(2) == 0:
		s.out = append(s.out, '+')
	}
	if exp < 1000 {
		s.out = append(s.out, "00"[:s.r.IntN(3)]...)
	}
	s.out = strconv.AppendInt(s.out, int64(exp), 10)
}
