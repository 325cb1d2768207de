package attack

import (
	"fmt"
	"strings"
	"time"
)

// mostTime is how long a request of absurd size may take. It is far from what a
// request costs that does unbounded work, and from what a busy machine needs.
const mostTime = 10 * time.Second

// limits are requests that cost the server more than they should.
func limits() []Attack {
	row := func(name, does string, foreign bool, variants func(*bout) []variant) Attack {
		by := "limits"
		if foreign {
			by = "types"
		}
		a := Attack{
			Name: name, Does: does, StoppedBy: by, must: []string{Refused}, strict: true, foreign: foreign,
			run: func(b *bout) (string, error) {
				for _, v := range variants(b) {
					if !b.takes(v) {
						v.own = true // its type may be refused before its size
					}
					if got, err := b.bounded(v); err != nil || got != Refused {
						b.note("with %s", v.what)
						return got, err
					}
				}
				return Refused, nil
			},
		}
		if name == "deep" || name == "long-number" {
			a.hidden = noArguments
		}
		return a
	}
	return []Attack{
		row("wrong-type", "requestState is a number, an object, an array", true, func(b *bout) []variant {
			var vs []variant
			for _, raw := range []string{"42", "{}", "[]", "true", `["v1.AAAA"]`} {
				vs = append(vs, b.changed(raw, func(f *flow) *Request {
					r := f.retry()
					r.Params = r.Params.Set("requestState", raw)
					return r
				}))
			}
			return vs
		}),
		row("oversize", "a token of 1 MiB", false, func(b *bout) []variant {
			return []variant{
				b.changed("1 MiB after the prefix", func(f *flow) *Request {
					return f.with(dissect(f.token).prefix + strings.Repeat("A", 1<<20))
				}),
				b.changed("the token and 1 MiB more", func(f *flow) *Request { return f.with(f.token + strings.Repeat("A", 1<<20)) }),
				b.minted("a good token of a state of 64 KiB", func(m *Minting) { m.State = strings.Repeat("x", 64<<10) }),
				b.minted("a good token of a state of 1 MiB", func(m *Minting) { m.State = strings.Repeat("x", 1<<20) }),
				b.changed("1 MiB of line feeds", func(f *flow) *Request { return f.with(strings.Repeat("\n", 1<<20)) }),
			}
		}),
		row("deep", "arguments nested to a depth of 10,000", false, func(b *bout) []variant {
			arrays := func(n int) Members { return Members{M("x", strings.Repeat("[", n)+strings.Repeat("]", n))} }
			objects := func(n int) Members {
				return Members{M("x", strings.Repeat(`{"a":`, n)+"1"+strings.Repeat("}", n))}
			}
			return []variant{
				b.free("10,000 arrays", nil, arrays(10_000)).ownLimit(),
				b.free("10,000 objects", nil, objects(10_000)).ownLimit(),
				b.free("900 arrays", nil, arrays(900)),
				b.free("100 objects", nil, objects(100)),
			}
		}),
		row("long-number", "a number of 10,000 digits, an exponent that is expensive to compute", false, func(b *bout) []variant {
			return []variant{
				b.free("10,000 digits", nil, Members{M("n", strings.Repeat("9", 10_000))}).ownLimit(),
				b.free("an exponent of ten digits", nil, Members{M("n", "1e1234567890")}).ownLimit(),
				b.free("a negative exponent of ten digits", nil, Members{M("n", "1e-1234567890")}),
			}
		}),
	}
}

// bounded plays a variant that must be refused in little time.
func (b *bout) bounded(v variant) (string, error) {
	f, req, err := v.make()
	if err != nil {
		return "", fmt.Errorf("%s: %w", v.what, err)
	}
	start := time.Now()
	o, err := b.send(req)
	took := time.Since(start)
	if err != nil {
		return "", fmt.Errorf("%s: %w", v.what, err)
	}
	got := b.verdict(o)
	if v.own && got == serverError {
		b.note("%s met the server's own limit first", v.what)
		got = Refused
	}
	if got != Refused {
		return got, nil
	}
	if took > mostTime {
		return fmt.Sprintf("refused, but only after %v", took.Round(time.Millisecond)), nil
	}
	finding, err := b.unspent(f)
	if finding != "" || err != nil {
		return finding, err
	}
	return Refused, nil
}
