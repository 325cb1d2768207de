package storagejanitor

import (
	"strings"
	"testing"
	"time"
)

func TestShown(t *testing.T) {
	for in, want := range map[string]string{
		"logs/a.log":            "logs/a.log",
		"日誌/a.log":              "日誌/a.log",
		"a b":                   `"a b"`,
		"a, b":                  `"a, b"`,
		"a?":                    `"a?"`,
		`q"uote`:                `"q\"uote"`,
		`back\slash`:            `back\\slash`,
		"line\nbreak":           `line\nbreak`,
		"esc\x1b[2J":            `"esc\x1b[2J"`,
		"bidi\u202egol.txt":     `bidi\u202egol.txt`,
		"isolate\u2066x\u2069":  `isolate\u2066x\u2069`,
		"zero\u200bwidth":       `zero\u200bwidth`,
		"filler\u3164":          `filler\u3164`,
		"variation\ufe0f":       `variation\ufe0f`,
		"tag\U000e0061":         `tag\U000e0061`,
		"nbsp\u00a0":            `nbsp\u00a0`,
		"bom\ufeff":             `bom\ufeff`,
		"del\x7f":               `del\x7f`,
		"c1\u0085":              `c1\u0085`,
		"":                      "",
		strings.Repeat("x", 80): strings.Repeat("x", 80),
		strings.Repeat("x", 50) + strings.Repeat("y", 50): `"` + strings.Repeat("x", 39) + "…" + strings.Repeat("y", 40) + `"`,
	} {
		if got := shown(in); got != want {
			t.Errorf("shown(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestFilterArguments(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	minus := int64(-1)
	for _, tc := range []struct {
		prefix, older string
		max           *int64
		bad           string // part of the error
		want          time.Time
	}{
		{prefix: ""},
		{prefix: "logs"},
		{prefix: "logs/"},
		{prefix: "logs/.hid"},
		{prefix: "a..b/c"},
		{prefix: "."},
		{prefix: "/", bad: "prefix"},
		{prefix: "/etc/", bad: "prefix"},
		{prefix: "..", bad: "prefix"},
		{prefix: "../", bad: "prefix"},
		{prefix: "logs/../secrets/", bad: "prefix"},
		{prefix: "logs/..", bad: "prefix"},
		{prefix: "./logs", bad: "prefix"},
		{prefix: "logs//a", bad: "prefix"},
		{prefix: "a\x00b", bad: "NUL"},
		{prefix: strings.Repeat("a", 1025), bad: "1024"},
		{max: &minus, bad: "max_bytes"},
		{max: new(int64)},
		{older: "1h30m", want: now.Add(-90 * time.Minute)},
		{older: "0", want: now},
		{older: "2026-08-01T00:00:00+02:00", want: time.Date(2026, 7, 31, 22, 0, 0, 0, time.UTC)},
		{older: "-1h", bad: "negative"},
		{older: "30d", bad: "older_than"},
		{older: "yesterday", bad: "older_than"},
		{older: "2026-08-01", bad: "older_than"},
		{older: "2027-01-01T00:00:00Z", bad: "future"},
	} {
		f, err := newFilter(tc.prefix, tc.max, tc.older, now)
		switch {
		case tc.bad == "" && err != nil:
			t.Errorf("%+v: %v", tc, err)
		case tc.bad != "" && (err == nil || !strings.Contains(err.Error(), tc.bad)):
			t.Errorf("%+v: error %v, want one about %s", tc, err, tc.bad)
		case err == nil && (f.Prefix != tc.prefix || !f.OlderThan.Equal(tc.want)):
			t.Errorf("%+v: %+v", tc, f)
		}
	}
}
