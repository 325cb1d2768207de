package attack

import (
	"fmt"
	"strings"

	"github.com/foilmcp/foil"
)

// parsing are requests that two JSON parsers may read differently.
func parsing() []Attack {
	return []Attack{
		{
			Name: "duplicate-key", Does: "one argument twice, in either order", StoppedBy: "strict parsing",
			must: []string{Refused}, strict: true, hidden: noArguments,
			run: func(b *bout) (string, error) {
				twice := func(what string, args func(*flow) Members) variant {
					return b.changed(what, func(f *flow) *Request {
						c := f.call
						c.Arguments = args(f)
						return f.retryOf(c)
					})
				}
				return b.each(
					twice("the decoy last", func(f *flow) Members {
						return f.call.Arguments.After(M(f.scene.Changed, quote(f.scene.Decoy)))
					}),
					twice("the decoy first", func(f *flow) Members {
						return f.call.Arguments.Before(M(f.scene.Changed, quote(f.scene.Decoy)))
					}),
					twice("the same value twice", func(f *flow) Members {
						v, _ := f.call.Arguments.Get(f.scene.Changed)
						return f.call.Arguments.After(M(f.scene.Changed, v))
					}),
					twice("one key spelt with an escape", func(f *flow) Members {
						return f.call.Arguments.After(Member{escaped(f.scene.Changed), quote(f.scene.Decoy)})
					}),
					b.ambiguous("a token that was minted for the decoy last", func(f *flow) Members {
						return f.call.Arguments.After(M(f.scene.Changed, quote(f.scene.Decoy)))
					}),
					b.free("inside another object", Members{M("x", `{"a":1}`)}, Members{M("x", `{"a":1,"a":1}`)}),
					b.nested("inside another object, with a token that was minted for it", `{"a":[{"b":1,"b":2}]}`),
				)
			},
		},
		{
			Name: "case-twin", Does: "a member that differs in case beside the real one", StoppedBy: "strict parsing",
			must: []string{Refused}, strict: true, envelope: true, run: runCaseTwin,
		},
		{
			Name: "two-states", Does: "two requestState members", StoppedBy: "strict parsing",
			must: []string{Refused, NotVisible}, run: runTwoStates,
		},
		{
			Name: "ambiguous-answers", Does: "an answer, or a member of one, twice or beside one that differs in case", StoppedBy: "strict parsing",
			must: []string{Refused, NotVisible}, strict: true, run: runAmbiguousAnswers,
		},
	}
}

// ambiguous is a variant with arguments that the token was minted for, so that
// only strict parsing can refuse them.
func (b *bout) ambiguous(what string, args func(*flow) Members) variant {
	return variant{what: what, make: func() (*flow, *Request, error) {
		f, err := b.begin()
		if err != nil {
			return nil, nil, err
		}
		c := f.call
		c.Arguments = args(f)
		token, err := b.mint(f, func(m *Minting) { m.Call = c })
		r := f.retryOf(c)
		r.Params = r.Params.Set("requestState", quote(token))
		return f, r, err
	}}
}

// nested is such a variant with a further argument.
func (b *bout) nested(what, value string) variant {
	return b.ambiguous(what, func(f *flow) Members { return f.call.Arguments.After(M("x", value)) }).anyValue()
}

// title writes a name with its first letter in upper case.
func title(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

func runCaseTwin(b *bout) (string, error) {
	twin := func(last bool) variant {
		return b.changed(fmt.Sprintf("a twin of an argument (last: %t)", last), func(f *flow) *Request {
			m := M(title(f.scene.Changed), quote(f.scene.Decoy))
			c := f.call
			if c.Arguments = f.call.Arguments.Before(m); last {
				c.Arguments = f.call.Arguments.After(m)
			}
			return f.retryOf(c)
		})
	}
	names := []string{"requestState", "arguments", "name", "inputResponses"}
	if b.Mode.kind() == foil.MethodResourcesRead {
		names = []string{"requestState", "uri", "inputResponses"}
	} else {
		v, err := b.each(twin(true), twin(false), b.ambiguous("a token that was minted for the twin", func(f *flow) Members {
			return f.call.Arguments.After(M(title(f.scene.Changed), quote(f.scene.Decoy)))
		}),
			b.nested("twins inside another object", `{"a":1,"A":2}`),
			b.nested("twins far inside", `[{"x":{"key":"logs/","Key":"secrets/"}}]`),
			b.nested("twins by the Kelvin sign", `{"k":1,"\u212a":2}`),
		)
		if err != nil || v != Refused {
			return v, err
		}
	}
	// In the envelope a server that reads the real member alone is no worse
	// off: the twin must not win.
	read, decided := 0, b.last
	for _, name := range names {
		for _, last := range []bool{true, false} {
			f, err := b.begin()
			if err != nil {
				return "", err
			}
			value := map[string]string{
				"requestState": quote("v1.AAAA"), "arguments": f.call.With(f.scene.Changed, quote(f.scene.Decoy)).Arguments.JSON(),
				"name": quote(f.scene.Free.Target), "uri": quote(f.scene.OtherResource.Target), "inputResponses": "{}",
			}[name]
			r := f.retry()
			if m := M(title(name), value); last {
				r.Params = r.Params.After(m)
			} else {
				r.Params = r.Params.Before(m)
			}
			o, err := b.send(r)
			if err != nil {
				return "", err
			}
			what := fmt.Sprintf("%s beside %s (last: %t)", title(name), name, last)
			switch o.kind {
			case Refused, ambiguous, serverError:
			case Accepted:
				if v, err := b.finished(f, o); err != nil || v != Accepted {
					b.note("with %s", what)
					return v, err
				}
				read++
			default:
				b.note("with %s", what)
				return o.kind, nil
			}
		}
	}
	if decided != nil {
		b.last = decided
	}
	if read == 0 {
		return Refused, nil
	}
	b.note("twins of the envelope are not read, which is no gain")
	if b.Mode.kind() == foil.MethodResourcesRead {
		return NotVisible, nil
	}
	return Refused, nil
}

func runTwoStates(b *bout) (string, error) {
	refused, accepted := 0, 0
	for _, goodFirst := range []bool{true, false} {
		f, err := b.begin()
		if err != nil {
			return "", err
		}
		r := f.retry()
		bad := M("requestState", quote("v1.AAAA"))
		if goodFirst {
			r.Params = r.Params.After(bad)
		} else {
			r.Params = r.Params.Before(bad)
		}
		o, err := b.send(r)
		if err != nil {
			return "", err
		}
		switch o.kind {
		case Refused, ambiguous, serverError:
			refused++
		case Accepted:
			if v, err := b.finished(f, o); err != nil || v != Accepted {
				return v, err
			}
			accepted++
		default:
			return o.kind, nil
		}
	}
	if accepted == 0 {
		return Refused, nil
	}
	if accepted == 1 && refused == 1 {
		b.note("the server reads one of two members and never sees the other: one reading, no gain")
		return NotVisible, nil
	}
	return "accepted with either of two states", nil
}
