package logtext_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/foilmcp/foil/internal/logtext"
)

func TestCut(t *testing.T) {
	for _, s := range []string{"", "tools/call", strings.Repeat("x", 128)} {
		if got := logtext.Cut(s); got != s {
			t.Errorf("%q is cut to %q", s, got)
		}
	}
	for _, s := range []string{strings.Repeat("x", 129), "x" + strings.Repeat("é", 100), strings.Repeat("😀", 1<<16)} {
		got := logtext.Cut(s)
		if len(got) > 128+len("…") || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") || !strings.HasPrefix(s, strings.TrimSuffix(got, "…")) {
			t.Errorf("%.20q… is cut to %q", s, got)
		}
	}
}
