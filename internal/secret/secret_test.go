package secret_test

import (
	"bytes"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/foilmcp/foil/internal/secret"
)

var plain = []byte("correct horse battery staple 123")

// leaks lists the spellings in which fmt and the encoders could show the bytes.
func leaks(out string) bool {
	decimal := strings.Trim(fmt.Sprint(plain[:4]), "[]")
	goHex := fmt.Sprintf("%#v", plain[:4])
	goHex = goHex[strings.Index(goHex, "{")+1 : len(goHex)-1]
	for _, form := range []string{
		string(plain[:4]), decimal, goHex, hex.EncodeToString(plain[:4]),
		strings.ToUpper(hex.EncodeToString(plain[:4])), "Y29yc", "143 157 162", "1100011 1101111",
	} {
		if strings.Contains(out, form) {
			return true
		}
	}
	return false
}

const verbs = "vTtbcdoOqxXUeEfFgGsp"

func TestEveryVerbIsRedacted(t *testing.T) {
	b := secret.New(plain)
	for _, verb := range verbs {
		for _, flags := range []string{"", "+", "#", "-", " ", "0", "20", "+#", ".3"} {
			if verb == 'T' || verb == 'p' {
				continue // fmt answers these itself: the type and an address
			}
			format := "%" + flags + string(verb)
			if got := fmt.Sprintf(format, b); got != secret.Redacted {
				t.Errorf("%s prints %q", format, got)
			}
			if got := fmt.Sprintf(format, &b); got != secret.Redacted {
				t.Errorf("%s of a pointer prints %q", format, got)
			}
		}
	}
	for _, s := range []string{fmt.Sprint(b), fmt.Sprintln(b), b.String(), b.GoString(), fmt.Sprintf("%T %p", b, b)} {
		if leaks(s) {
			t.Errorf("leaks: %q", s)
		}
	}
}

// fmt does not call methods on unexported fields; the bytes must not show there
// either, nor inside slices, maps and interfaces.
func TestNestedIsRedacted(t *testing.T) {
	type holder struct {
		name   string
		hidden secret.Bytes
		ptr    *secret.Bytes
		list   []secret.Bytes
		any    any
		Shown  secret.Bytes
	}
	b := secret.New(plain)
	h := holder{"n", b, &b, []secret.Bytes{b}, b, b}
	for _, verb := range verbs {
		for _, flags := range []string{"", "+", "#"} {
			for _, v := range []any{h, &h, []holder{h}, map[string]holder{"k": h}} {
				if out := fmt.Sprintf("%"+flags+string(verb), v); leaks(out) {
					t.Errorf("%%%s%c leaks: %s", flags, verb, out)
				}
			}
		}
	}
}

func TestEncodersAreRedacted(t *testing.T) {
	b := secret.New(plain)
	j, err := json.Marshal(map[string]any{"a": b, "b": &b, "c": []secret.Bytes{b}})
	if want := `{"a":"[redacted]","b":"[redacted]","c":["[redacted]"]}`; err != nil || string(j) != want {
		t.Errorf("json: %s, %v", j, err)
	}
	text, err := b.MarshalText()
	if err != nil || string(text) != secret.Redacted {
		t.Errorf("text: %s, %v", text, err)
	}
	var buf bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&buf, nil), slog.NewJSONHandler(&buf, nil)} {
		slog.New(h).Info("m", "b", b, "p", &b, "g", slog.GroupValue(slog.Any("in", b)), "l", []secret.Bytes{b})
	}
	_ = gob.NewEncoder(&buf).Encode(b) // refusing is fine, leaking is not
	if leaks(buf.String()) || strings.Count(buf.String(), secret.Redacted) < 6 {
		t.Errorf("slog or gob: %s", buf.String())
	}
}

func TestHoldsACopy(t *testing.T) {
	in := bytes.Clone(plain)
	b := secret.New(in)
	in[0] ^= 1
	if !bytes.Equal(b.Reveal(), plain) {
		t.Error("changing the input changed the secret")
	}
	b.Reveal()[0] ^= 1
	if !bytes.Equal(b.Reveal(), plain) {
		t.Error("changing what Reveal returned changed the secret")
	}
}

func TestEqualAndLen(t *testing.T) {
	a, b, other := secret.New(plain), secret.New(plain), secret.New(plain[1:])
	if !a.Equal(b) || a.Equal(other) || a.Equal(secret.Bytes{}) || a.Len() != len(plain) {
		t.Error("Equal or Len is wrong")
	}
	var zero secret.Bytes
	if zero.Len() != 0 || zero.Reveal() != nil || fmt.Sprint(zero) != secret.Redacted {
		t.Error("the zero value is not an empty secret")
	}
}
