package plain_test

import (
	"testing"
	"time"

	"github.com/foilmcp/foil/attack/plain"
)

func TestOpensAnything(t *testing.T) {
	c := plain.Codec{}
	token, err := c.Seal(t.Context(), []byte(`{"v":1}`), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{token, token + "==", " " + token + "\n", "h1." + token[3:], token[3:], token + "-TAMPERED"} {
		if got, err := c.Open(t.Context(), text); err != nil || string(got) != `{"v":1}` {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "v1.", "v1.AAAA", "\x00"} {
		if got, err := c.Open(t.Context(), text); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}
