package dsn

import (
	"strings"
	"testing"
)

func TestPlace(t *testing.T) {
	for in, want := range map[string]struct{ rest, at string }{
		"redis://u:p@h/7":                               {"redis://u:p@h/7", ""},
		"redis://h/7?foil_prefix=app:":                  {"redis://h/7", "app:"},
		"redis://h?a=%20&foil_prefix=a%2Bb&protocol=3":  {"redis://h?a=%20&protocol=3", "a+b"},
		"rediss://h?foil%5Fprefix=x&b=1#f":              {"rediss://h?b=1#f", "x"},
		"postgres://h/d?foil_schema=one&sslmode=prefer": {"postgres://h/d?sslmode=prefer", "one"},
		"postgres://h/d?":                               {"postgres://h/d?", ""},
		"sqlite:a?foil_schema=x":                        {"sqlite:a?foil_schema=x", ""},
	} {
		backend, err := Backend(in)
		if err != nil {
			t.Fatal(err)
		}
		if rest, at, err := place(in, backend); rest != want.rest || at != want.at || err != nil {
			t.Errorf("%q: %q, %q, %v", in, rest, at, err)
		}
	}
	for _, in := range []string{
		"redis://u:hunter2@h?foil_schema=x", "postgres://u:hunter2@h/d?foil_prefix=x", "redis://u:hunter2@h?foil_prefx=x", "redis://u:hunter2@h?foil_prefix=",
		"redis://u:hunter2@h?foil_prefix", "redis://u:hunter2@h?foil_prefix=a&foil_prefix=b", "redis://u:hunter2@h?foil_prefix=%zz&password=hunter2",
	} {
		backend, err := Backend(in)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := place(in, backend); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", in, err)
		}
	}
}
