package dsn

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Parameters of a DSN that are foil's own: where in its database a store is. They do
// for a program that has nothing but a DSN what Options.Schema of store/postgres and
// Options.Prefix of store/redis do for a server.
const (
	SchemaParameter = "foil_schema"
	PrefixParameter = "foil_prefix"

	ownParameters = "foil_"
)

// place takes foil's own parameter out of a DSN, so that no driver sees it; the rest
// stays as it was written. at is empty without one. Whether it can be a schema or a
// prefix the store checks. No error holds more of the DSN than a name that begins
// with foil_.
func place(dsn, backend string) (rest, at string, err error) {
	own := map[string]string{Postgres: SchemaParameter, Redis: PrefixParameter}[backend]
	if own == "" { // the name of a file
		return dsn, "", nil
	}
	dsn, fragment, fragmented := strings.Cut(dsn, "#")
	base, query, ok := strings.Cut(dsn, "?")
	rest = base
	sep, given := "?", false
	for part := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if !strings.HasPrefix(name, ownParameters) {
			if ok {
				rest, sep = rest+sep+part, "&"
			}
			continue
		}
		if name != own {
			return "", "", fmt.Errorf("dsn: a %s:// DSN has no parameter %.64q, but %s", backend, name, own)
		}
		at, err = url.QueryUnescape(value)
		if given || err != nil || at == "" {
			return "", "", errors.New("dsn: " + own + " is to be given once, with a value, percent-encoded where it has other characters than letters, digits and _.:-")
		}
		given = true
	}
	if fragmented {
		rest += "#" + fragment
	}
	return rest, at, nil
}

// missing says which file is not there.
type missing struct {
	file string
	err  error
}

func (m *missing) Error() string {
	return fmt.Sprintf("sqlite: there is no file %s: is the name right? The first server that uses it makes it, or foil store migrate", m.file)
}

func (m *missing) Unwrap() error { return m.err }
