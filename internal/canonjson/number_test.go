package canonjson_test

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/foilmcp/foil/internal/canonjson"
)

func TestNumbers(t *testing.T) {
	for _, tt := range []struct{ text, python, exact string }{
		// Integers keep their digits; zero has no sign.
		{"0", "0", "0e0"},
		{"-0", "0", "0e0"},
		{"1", "1", "1e0"},
		{"-1", "-1", "-1e0"},
		{"10", "10", "1e1"},
		{"1200", "1200", "12e2"},
		{"-1050", "-1050", "-105e1"},
		{"9007199254740992", "9007199254740992", "9007199254740992e0"},
		{"9007199254740993", "9007199254740993", "9007199254740993e0"},
		{"123456789012345678901234567890", "123456789012345678901234567890", "12345678901234567890123456789e1"},

		// A point or an exponent makes a float64.
		{"1.0", "1.0", "1e0"},
		{"1e0", "1.0", "1e0"},
		{"1E+0", "1.0", "1e0"},
		{"1e-0", "1.0", "1e0"},
		{"10e-1", "1.0", "1e0"},
		{"0.10e1", "1.0", "1e0"},
		{"1.50", "1.5", "15e-1"},
		{"15e-1", "1.5", "15e-1"},
		{"0.00150e3", "1.5", "15e-1"},
		{"100.0", "100.0", "1e2"},
		{"0.0", "0.0", "0e0"},
		{"-0.0", "-0.0", "0e0"},
		{"-0e7", "-0.0", "0e0"},
		{"0e999999", "0.0", "0e0"},
		{"0.1", "0.1", "1e-1"},
		{"-0.1", "-0.1", "-1e-1"},

		// Where the notation of repr changes.
		{"1e15", "1000000000000000.0", "1e15"},
		{"1e16", "1e+16", "1e16"},
		{"9999999999999998.0", "9999999999999998.0", "9999999999999998e0"},
		{"9999999999999999.0", "1e+16", "9999999999999999e0"},
		{"999999999999999.0", "999999999999999.0", "999999999999999e0"},
		{"123456789012345e1", "1234567890123450.0", "123456789012345e1"},
		{"123456789012345e2", "1.23456789012345e+16", "123456789012345e2"},
		{"12345.5e12", "1.23455e+16", "123455e11"},
		{"0.0001", "0.0001", "1e-4"},
		{"0.00012345", "0.00012345", "12345e-8"},
		{"0.00009999", "9.999e-05", "9999e-8"},
		{"0.00001", "1e-05", "1e-5"},
		{"1.5e-7", "1.5e-07", "15e-8"},
		{"1e100", "1e+100", "1e100"},
		{"-1.25e-100", "-1.25e-100", "-125e-102"},

		// Rounding, which only the exact form does not do.
		{"9007199254740992.0", "9007199254740992.0", "9007199254740992e0"},
		{"9007199254740993.0", "9007199254740992.0", "9007199254740993e0"},
		{"0.1000000000000000055511151231257827", "0.1", "1000000000000000055511151231257827e-34"},
		{"123456789.123456789", "123456789.12345679", "123456789123456789e-9"},

		// Out of the range of float64, both ways.
		{"1.7976931348623157e308", "1.7976931348623157e+308", "17976931348623157e292"},
		{"1.7976931348623158e308", "1.7976931348623157e+308", "17976931348623158e292"},
		{"1.7976931348623159e308", "Infinity", "17976931348623159e292"},
		{"9.9e308", "Infinity", "99e307"},
		{"1e309", "Infinity", "1e309"},
		{"1e310", "Infinity", "1e310"},
		{"1e400", "Infinity", "1e400"},
		{"1e999", "Infinity", "1e999"},
		{"-1e400", "-Infinity", "-1e400"},
		{"1e999999", "Infinity", "1e999999"},
		{"10e999999", "Infinity", "1e1000000"},
		{"5e-324", "5e-324", "5e-324"},
		{"2.4703282292062328e-324", "5e-324", "24703282292062328e-340"},
		{"2.4703282292062327e-324", "0.0", "24703282292062327e-340"},
		{"0.9e-323", "1e-323", "9e-324"},
		{"1e-324", "0.0", "1e-324"},
		{"9e-325", "0.0", "9e-325"},
		{"1e-400", "0.0", "1e-400"},
		{"-1e-400", "-0.0", "-1e-400"},
		{"1e-999999", "0.0", "1e-999999"},
		{"2.2250738585072011e-308", "2.225073858507201e-308", "22250738585072011e-324"},
		{"1e299", "1e+299", "1e299"},
		{"1e300", "1e+300", "1e300"},
		{"1e-301", "1e-301", "1e-301"},

		// An exponent that undoes many digits, and the other way round.
		{"0." + strings.Repeat("0", 400) + "1e401", "1.0", "1e0"},
		{"1" + strings.Repeat("0", 400) + "e-400", "1.0", "1e0"},
		{"1" + strings.Repeat("0", 400) + ".0", "Infinity", "1e400"},
	} {
		if got, err := canonjson.Append(nil, []byte(tt.text), nil); err != nil || string(got) != tt.python {
			t.Errorf("python-v1 of %.40s: %s, %v, want %s", tt.text, got, err, tt.python)
		}
		if got, err := canonjson.AppendExact(nil, []byte(tt.text), nil); err != nil || string(got) != tt.exact {
			t.Errorf("exact of %.40s: %s, %v, want %s", tt.text, got, err, tt.exact)
		}
	}
}

func TestExactTellsApart(t *testing.T) {
	for _, tt := range []struct {
		a, b          string
		python, exact bool // equal in this form
	}{
		{"9007199254740992.0", "9007199254740993.0", true, false},
		{"1e400", "1e999", true, false},
		{"1e-400", "1e-999", true, false},
		{"9007199254740992", "9007199254740993", false, false},
		{"1", "1.0", false, true},
		{"1", "1e0", false, true},
		{"1.0", "1e0", true, true},
		{"-0", "0", true, true},
		{"-0.0", "0.0", false, true},
		{"1", "-1", false, false},
		{"1", "10", false, false},
		{"12", "1.2", false, false},
		{`"1"`, "1", false, false},
	} {
		a, err := canonjson.Sum([]byte(`{"a":`+tt.a+`}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := canonjson.Sum([]byte(`{"a":`+tt.b+`}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Python == b.Python; got != tt.python {
			t.Errorf("python-v1: %s equals %s: %t, want %t", tt.a, tt.b, got, tt.python)
		}
		if got := a.Exact == b.Exact; got != tt.exact {
			t.Errorf("exact: %s equals %s: %t, want %t", tt.a, tt.b, got, tt.exact)
		}
	}
}

func TestNumberLimits(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		lim        *canonjson.Limits
		want       error
	}{
		{"4300 digits", strings.Repeat("9", 4300), nil, nil},
		{"4301 digits", strings.Repeat("9", 4301), nil, canonjson.ErrLimit},
		{"sign and 4300 digits", "-" + strings.Repeat("9", 4300), nil, nil},
		{"sign and 4301 digits", "-" + strings.Repeat("9", 4301), nil, canonjson.ErrLimit},
		{"4301 digits of a float", strings.Repeat("9", 4301) + ".0", nil, nil},
		{"exponent of 6 digits", "1e123456", nil, nil},
		{"exponent of 7 digits", "1e1234567", nil, canonjson.ErrLimit},
		{"sign and 6 digits", "1e-123456", nil, nil},
		{"sign and 7 digits", "1e+1234567", nil, canonjson.ErrLimit},
		{"leading zeros, 6 digits", "1e000001", nil, nil},
		{"leading zeros, 7 digits", "1e0000001", nil, canonjson.ErrLimit},
		{"huge exponent", "1e" + strings.Repeat("9", 100_000), nil, canonjson.ErrLimit},
		{"own digits", "123", &canonjson.Limits{MaxIntDigits: 3}, nil},
		{"own digits + 1", "1234", &canonjson.Limits{MaxIntDigits: 3}, canonjson.ErrLimit},
		{"own exponent", "1e12", &canonjson.Limits{MaxExponentDigits: 2}, nil},
		{"own exponent + 1", "1e123", &canonjson.Limits{MaxExponentDigits: 2}, canonjson.ErrLimit},
		{"exponent cap", "1e999999999", &canonjson.Limits{MaxExponentDigits: 1000}, nil},
		{"exponent cap + 1", "1e9999999999", &canonjson.Limits{MaxExponentDigits: 1000}, canonjson.ErrLimit},
	} {
		t.Run(tt.name, func(t *testing.T) { checkEveryDoor(t, tt.text, tt.lim, tt.want) })
	}
}

// checkEveryDoor asserts that all functions judge a document alike.
func checkEveryDoor(t *testing.T, text string, lim *canonjson.Limits, want error) {
	t.Helper()
	b := []byte(text)
	sums, err := canonjson.Sum(b, lim)
	check := func(door string, err error) {
		t.Helper()
		if want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", door, err, want)
		}
	}
	check("Sum", err)
	if err != nil && sums != (canonjson.Sums{}) {
		t.Error("Sum: sums with an error")
	}
	got, err := canonjson.Append([]byte("x"), b, lim)
	check("Append", err)
	if err != nil && got != nil {
		t.Error("Append: text with an error")
	}
	got, err = canonjson.AppendExact([]byte("x"), b, lim)
	check("AppendExact", err)
	if err != nil && got != nil {
		t.Error("AppendExact: text with an error")
	}
	n, err := canonjson.Skip(b, lim)
	if want != nil && err == nil && n < len(text) {
		n, err = 0, canonjson.ErrSyntax // trailing data, which Skip leaves alone
	}
	check("Skip", err)
	if err != nil && n != 0 {
		t.Error("Skip: a length with an error")
	}
	if want == nil && text[:n] != strings.TrimRight(text, " \t\r\n") {
		t.Errorf("Skip: %d of %d bytes", n, len(text))
	}
}

func TestAppendFloat(t *testing.T) {
	for _, tt := range []struct {
		f    float64
		want string
	}{
		{1790496035.087092, "1790496035.087092"},
		{1, "1.0"},
		{0, "0.0"},
		{math.Copysign(0, -1), "-0.0"},
		{1e16, "1e+16"},
		{-1e16, "-1e+16"},
		{math.Nextafter(1e16, 0), "9999999999999998.0"},
		{1e-4, "0.0001"},
		{math.Nextafter(1e-4, 0), "9.999999999999999e-05"},
		{1e-5, "1e-05"},
		{1.5e300, "1.5e+300"},
		{math.MaxFloat64, "1.7976931348623157e+308"},
		{math.SmallestNonzeroFloat64, "5e-324"},
		{math.Inf(1), "Infinity"},
		{math.Inf(-1), "-Infinity"},
		{math.NaN(), "NaN"},
	} {
		if got := string(canonjson.AppendFloat([]byte("x"), tt.f)); got != "x"+tt.want {
			t.Errorf("%g: %s, want x%s", tt.f, got, tt.want)
		}
	}
}

var reprShape = regexp.MustCompile(`^-?(\d+\.\d+|\d(\.\d+)?e[+-]\d{2,3})$`)

// reprOracle finds the repr of f without strconv's shortest formatting: the
// fewest digits whose decimal rounds back to f, in exact arithmetic.
func reprOracle(t *testing.T, f float64) string {
	for prec := range 17 {
		s := new(big.Float).SetFloat64(f).Text('e', prec)
		r, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatalf("big.Rat does not read %s", s)
		}
		if back, _ := r.Float64(); back != f {
			continue
		}
		mantissa, e, _ := strings.Cut(s, "e")
		exp, _ := strconv.Atoi(e)
		if exp < -4 || exp >= 16 {
			return s
		}
		whole, frac, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
		digits := whole + frac
		if exp < 0 {
			digits = strings.Repeat("0", -exp) + digits
			exp = 0
		}
		digits += strings.Repeat("0", max(0, exp+2-len(digits)))
		sign := ""
		if f < 0 {
			sign = "-"
		}
		return sign + digits[:exp+1] + "." + digits[exp+1:]
	}
	t.Fatalf("no 17 digits round to %g", f)
	return ""
}

func TestFloatsAgainstExactArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for i := range 2_000 {
		var f float64
		switch i % 4 {
		case 0:
			f = math.Float64frombits(r.Uint64())
		case 1:
			f = r.NormFloat64()
		case 2: // few digits, any point
			f, _ = strconv.ParseFloat(strconv.Itoa(r.IntN(1e6)+1)+"e"+strconv.Itoa(r.IntN(60)-30), 64)
		default: // around the edges of notation
			f = []float64{1e16, 1e-4, 1e15, 1e-5}[r.IntN(4)] * (1 + float64(r.IntN(9)-4)*0x1p-52)
		}
		if math.IsNaN(f) || math.IsInf(f, 0) || f == 0 {
			continue
		}
		want := reprOracle(t, f)
		got := string(canonjson.AppendFloat(nil, f))
		if got != want {
			t.Errorf("AppendFloat %s, want %s", got, want)
		}
		if !reprShape.MatchString(got) {
			t.Errorf("AppendFloat %s: not a repr", got)
		}
		// The same number as text, spelled with all its digits and with few.
		for _, text := range []string{strconv.FormatFloat(f, 'e', 25, 64), strconv.FormatFloat(f, 'E', -1, 64)} {
			if !strings.ContainsAny(text, ".eE") {
				text += ".0"
			}
			if got, err := canonjson.Append(nil, []byte(text), nil); err != nil || string(got) != want {
				t.Errorf("%s: %s, %v, want %s", text, got, err, want)
			}
		}
	}
}

// TestHardFloats compares the conversion of numbers that need exact arithmetic
// with that of strconv: half way between two neighbours, and a digit far down
// above or below; subnormal; at the upper end of the range.
func TestHardFloats(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	check := func(text string) {
		t.Helper()
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		f, _ := strconv.ParseFloat(text, 64)
		want := string(canonjson.AppendFloat(nil, f))
		if got, err := canonjson.Append(nil, []byte(text), nil); err != nil || string(got) != want {
			t.Fatalf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	half := func(f float64) string { // exactly between f and its upper neighbour
		next := math.Nextafter(f, math.Inf(1))
		a, b := new(big.Float).SetPrec(2000), new(big.Float).SetPrec(2000)
		a.SetFloat64(f)
		if math.IsInf(next, 0) {
			b.SetMantExp(big.NewFloat(1), 1024)
		} else {
			b.SetFloat64(next)
		}
		return a.Add(a, b).Quo(a, big.NewFloat(2)).Text('e', 800)
	}
	edges := []float64{0, math.SmallestNonzeroFloat64, 0x1p-1022, math.Nextafter(0x1p-1022, 0), math.MaxFloat64, math.Nextafter(math.MaxFloat64, 0), 1, 0.1, 1e22, 0x1p53}
	for i := range 250 {
		var f float64
		switch {
		case i < len(edges):
			f = edges[i]
		case i%3 == 0: // subnormal, with few bits and with many
			f = math.Float64frombits(r.Uint64() >> (12 + r.IntN(52)))
		default:
			f = math.Abs(math.Float64frombits(r.Uint64()))
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		h := half(f)
		mantissa, e, _ := strings.Cut(h, "e")
		mantissa = strings.TrimRight(mantissa, "0")
		check(mantissa + "0e" + e)
		check(mantissa + "1e" + e)
		check(mantissa + strings.Repeat("0", 900) + "1e" + e)
		for _, n := range []int{17, 18, 19, 20, 21, 30, 300, 766, 767, 768, 769} { // just below
			if n < len(mantissa) {
				check(mantissa[:n] + "e" + e)
			}
		}
		last := len(mantissa) - 1
		if mantissa[last] > '0' && mantissa[last] <= '9' {
			check(mantissa[:last] + string(mantissa[last]-1) + strings.Repeat("9", r.IntN(900)) + "e" + e)
		}
		check(strconv.FormatFloat(f, 'e', r.IntN(25), 64))
	}
	for range 3_000 {
		check(strconv.FormatUint(r.Uint64(), 10) + "e" + strconv.Itoa(-290-r.IntN(60)))
		check(strconv.FormatUint(r.Uint64(), 10) + "e" + strconv.Itoa(285+r.IntN(10)))
		check(strconv.FormatUint(r.Uint64(), 10) + strconv.FormatUint(r.Uint64(), 10) + "e" + strconv.Itoa(r.IntN(650)-350))
		check(strconv.Itoa(1+r.IntN(999)) + "e" + strconv.Itoa(-300-r.IntN(30)))
		check(strconv.Itoa(1+r.IntN(999)) + "e" + strconv.Itoa(300+r.IntN(12)))
	}
}

// TestShortDecimalsNeedNoConversion pins the short cut for up to 15 digits to
// the conversion that it saves.
func TestShortDecimalsNeedNoConversion(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for range 20_000 {
		digits := 1 + r.IntN(16)
		text := strconv.FormatUint(r.Uint64()%uint64(math.Pow10(digits)), 10) + "e" + strconv.Itoa(r.IntN(640)-330)
		f, _ := strconv.ParseFloat(text, 64)
		want := string(canonjson.AppendFloat(nil, f))
		if got, err := canonjson.Append(nil, []byte(text), nil); err != nil || string(got) != want {
			t.Fatalf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}
