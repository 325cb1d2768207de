package attack

import (
	"slices"
	"time"

	"github.com/foilmcp/foil"
)

// principals present somebody's token as somebody else.
func principals() []Attack {
	as := func(b *bout, who Login) variant {
		return b.changed(who.Name, func(f *flow) *Request { return f.as(who) })
	}
	row := func(name, does string, run func(*bout) (string, error)) Attack {
		return Attack{Name: name, Does: does, StoppedBy: "principal", must: []string{Refused}, binding: foil.BindPrincipal, run: run}
	}
	return []Attack{
		row("other-user", "B presents A's token; A that of somebody of nearly A's name", func(b *bout) (string, error) {
			return b.andClose(
				b.closeNames(near("alice"), func(subject string) foil.Principal { return foil.OAuth(castClient, castIssuer, subject) }),
				as(b, Bob))
		}),
		row("same-client-other-user", "another user of the same OAuth client", func(b *bout) (string, error) { return b.each(as(b, BobSameClient)) }),
		row("other-issuer", "the same subject at another issuer, by a certificate, or through another client", func(b *bout) (string, error) {
			return b.andClose(slices.Concat(
				b.closeNames(near(castIssuer), func(issuer string) foil.Principal { return foil.OAuth(castClient, issuer, "alice") }),
				b.closeNames(list("another client", "phone-app"), func(client string) foil.Principal { return foil.OAuth(client, castIssuer, "alice") }),
				b.closeNames(near(castClient), func(client string) foil.Principal { return foil.OAuth(client, castIssuer, "alice") }),
			), as(b, AliceElsewhere), as(b, AliceCertificate))
		}),
		row("dropped-login", "no credentials where there were some", func(b *bout) (string, error) { return b.each(as(b, Nobody)) }),
		row("added-login", "credentials where there were none", func(b *bout) (string, error) {
			nobodys := b.closeTo("a token of nobody", func(m *Minting) { m.Login = Nobody })
			return b.andClose([]closeToken{nobodys}, variant{what: "alice", make: func() (*flow, *Request, error) {
				f, err := b.beginAs(Nobody, nil)
				if err != nil {
					return nil, nil, err
				}
				return f, f.as(Alice), nil
			}})
		}),
	}
}

// expiry presents tokens too late or too early, and flows without end.
func expiry() []Attack {
	return []Attack{
		{
			Name: "late", Does: "at exactly exp, and after", StoppedBy: "expiry", must: []string{Refused}, binding: foil.BindExpiry,
			// A store that was used before may have forgotten what is so old.
			without: []string{Accepted, Unavailable},
			settle:  []string{Recorded}, run: runLate,
		},
		{
			Name: "from-the-future", Does: "iat further ahead than clocks may differ (a second less is fine)", StoppedBy: "expiry",
			must: []string{Refused}, binding: foil.BindExpiry,
			run: func(b *bout) (string, error) {
				m := b.Minter
				ahead := func(d time.Duration) func(*Minting) {
					return func(t *Minting) { t.At = m.now().Add(d) }
				}
				// Its flow ends with what a token of now may live: a store that
				// forgets it later must not take others to be as old.
				near := func(t *Minting) {
					ahead(m.skew() - time.Second)(t)
					t.FlowLimit = m.ttl() - m.skew()
				}
				if v, err := b.same(b.minted("a second less than the skew", near)); v != Accepted {
					return "within the skew " + v, err
				}
				return b.each(
					b.minted("a second more than the skew", ahead(m.skew()+time.Second)),
					b.minted("a day ahead", ahead(24*time.Hour)),
				)
			},
		},
	}
}

// noArguments hides what is done to arguments.
var noArguments = map[string]string{foil.MethodResourcesRead: "resources/read has no arguments"}

// requests present a token with another request than it was minted for.
func requests() []Attack {
	row := func(name, does string, variants func(*bout) []variant) Attack {
		a := Attack{
			Name: name, Does: does, StoppedBy: "request", must: []string{Refused}, binding: foil.BindRequest,
			run: func(b *bout) (string, error) { return b.each(variants(b)...) },
		}
		switch name {
		case "other-method":
			a.run = func(b *bout) (string, error) { return b.andClose(b.closeMethods(), variants(b)...) }
			// What the other call asks may be another question.
			a.without = []string{Accepted, AskedAgain}
		case "other-target":
			a.run = func(b *bout) (string, error) { return b.andClose(b.closeTargets(), variants(b)...) }
			a.without = []string{Accepted, AskedAgain}
		case "changed-argument":
			a.without, a.hidden = []string{Accepted, AskedAgain}, noArguments
		case "number-games":
			a.hidden = map[string]string{foil.MethodPromptsGet: "the arguments of a prompt are strings", foil.MethodResourcesRead: noArguments[foil.MethodResourcesRead]}
		default:
			a.hidden = noArguments
		}
		return a
	}
	return []Attack{
		row("other-method", "the tool's token on a prompt of the same name, and the reverse", otherMethod),
		row("other-target", "another tool, prompt, uri; a stray name beside uri", otherTarget),
		row("changed-argument", "one value differs", func(b *bout) []variant {
			return []variant{
				b.changed("what is acted on", func(f *flow) *Request {
					return f.retryOf(f.call.With(f.scene.Changed, quote(f.scene.Decoy)))
				}),
				b.free("a nested value", Members{M("x", `{"a":[1,{"b":true}]}`)}, Members{M("x", `{"a":[1,{"b":false}]}`)}),
				b.free("the order of an array", Members{M("x", `[1,2]`)}, Members{M("x", `[2,1]`)}),
				b.free("the case of a string", Members{M("x", `"logs"`)}, Members{M("x", `"Logs"`)}),
			}
		}),
		row("added-argument", "one argument more", func(b *bout) []variant {
			return []variant{
				b.changed("one of the tool's own", func(f *flow) *Request {
					c := f.call
					c.Arguments = c.Arguments.After(M("also", `"x"`))
					return f.retryOf(c)
				}),
				b.free("an empty one", nil, Members{M("x", `{}`)}),
			}
		}),
		row("removed-argument", "one argument less", func(b *bout) []variant {
			return []variant{
				b.changed("the last of the tool's own", func(f *flow) *Request {
					c := f.call
					c.Arguments = c.Arguments[:len(c.Arguments)-1]
					return f.retryOf(c)
				}),
				b.free("one of any form", Members{M("x", `1`), M("y", `2`)}, Members{M("x", `1`)}),
			}
		}),
		row("null-for-absent", "null where there was nothing, nothing where there was null", func(b *bout) []variant {
			return []variant{
				b.free("null for nothing", nil, Members{M("x", `null`)}),
				b.free("nothing for null", Members{M("x", `null`)}, nil),
				b.free("an empty string for null", Members{M("x", `null`)}, Members{M("x", `""`)}).anyValue(),
				b.free("false for null", Members{M("x", `null`)}, Members{M("x", `false`)}),
			}
		}),
		row("number-games", "numbers that some parsers take for equal", func(b *bout) []variant {
			var vs []variant
			for _, n := range [][2]string{
				{"9007199254740992", "9007199254740993"},
				{"1.0", "1"}, {"1", "1.0"}, {"1", "1e0"},
				{"9007199254740992.0", "9007199254740993.0"},
				{"1e400", "1e999"},
				{"0.1", "0.1000000000000000055511151231257827"},
				{"0", "-0.0"},
				{"1", "true"}, {"1", `"1"`},
			} {
				v := b.free(n[1]+" for "+n[0], Members{M("n", n[0])}, Members{M("n", n[1])})
				v.own = n[0] == "1e400" // more than a float64 holds
				vs = append(vs, v)
			}
			return vs
		}),
		row("lone-surrogate", `\ud800 for \ud801`, func(b *bout) []variant {
			return []variant{
				b.free("in a value", Members{M("x", `"\ud801"`)}, Members{M("x", `"\ud800"`)}),
				b.free("in a key", Members{{`"\ud801"`, "1"}}, Members{{`"\ud800"`, "1"}}),
				b.free("the replacement character", Members{M("x", `"\ud801"`)}, Members{M("x", `"\ufffd"`)}),
			}
		}),
	}
}

// on is a variant that takes the token of one call to another.
func (b *bout) on(what string, from, to func(*Scene) Call) variant {
	return variant{what: what, make: func() (*flow, *Request, error) {
		f, err := b.beginAs(Alice, from)
		if err != nil {
			return nil, nil, err
		}
		return f, f.retryOf(to(f.scene)), nil
	}}
}

// own picks the scene's own call of a kind. It is nil, so that what the call
// does is counted, if that kind is under attack.
func (b *bout) own(kind string) func(*Scene) Call {
	if kind == b.Mode.kind() {
		return nil
	}
	return func(s *Scene) Call { return s.own(kind) }
}

func otherMethod(b *bout) []variant {
	return []variant{
		b.on("the tool's token on the prompt of its name", b.own(foil.MethodToolsCall), func(s *Scene) Call { return s.Prompt }),
		b.on("the prompt's token on the tool of its name", b.own(foil.MethodPromptsGet), func(s *Scene) Call { return s.Tool }),
		b.on("the tool's token on a resource", b.own(foil.MethodToolsCall), func(s *Scene) Call { return s.Resource }),
		b.on("a resource's token on a tool", b.own(foil.MethodResourcesRead), func(s *Scene) Call { return s.Free }),
	}
}

func otherTarget(b *bout) []variant {
	tool, prompt, resource := b.own(foil.MethodToolsCall), b.own(foil.MethodPromptsGet), b.own(foil.MethodResourcesRead)
	return []variant{
		b.on("another tool with the same arguments", tool, func(s *Scene) Call {
			c := s.Free
			c.Arguments = s.Tool.Arguments
			return c
		}),
		b.on("another prompt", prompt, func(s *Scene) Call { return s.OtherPrompt }),
		b.on("another uri", resource, func(s *Scene) Call { return s.OtherResource }),
		{what: "another uri with the right one as a stray name", make: func() (*flow, *Request, error) {
			f, err := b.beginAs(Alice, resource)
			if err != nil {
				return nil, nil, err
			}
			uri := f.scene.OtherResource.Target
			return f, f.around(f.call.Method, uri, Members{M("uri", quote(uri)), M("name", quote(f.call.Target))}), nil
		}},
		{what: "another tool with the right one as a stray uri", make: func() (*flow, *Request, error) {
			f, err := b.beginAs(Alice, tool)
			if err != nil {
				return nil, nil, err
			}
			c := f.scene.Free
			c.Arguments = f.call.Arguments
			return f, f.around(c.Method, c.Target, c.Params().After(M("uri", quote(f.call.Target)))), nil
		}},
	}
}

// audience presents another service's token.
func audience() []Attack {
	return []Attack{{
		Name: "other-service", Does: "a token of another audience with the same keys", StoppedBy: "audience",
		must: []string{Refused}, binding: foil.BindAudience,
		run: func(b *bout) (string, error) {
			return b.andClose(b.closeAudiences(),
				b.minted("another audience", func(m *Minting) { m.Audience = "another-service" }),
				b.minted("an audience that begins alike", func(m *Minting) { m.Audience = b.Minter.Audience + "-2" }),
			)
		},
	}}
}

// keys present tokens under keys that no longer count, or never did.
func keys() []Attack {
	row := func(name, does string, k Key) Attack {
		return Attack{
			Name: name, Does: does, StoppedBy: "key ring", must: []string{Refused},
			run: func(b *bout) (string, error) {
				return b.each(b.minted(name, func(m *Minting) { m.Key = k }))
			},
		}
	}
	return []Attack{
		row("retired-key", "a token sealed under a key past its open_until", Retired),
		row("unknown-key", "a token sealed under a foreign key", Unknown),
		row("revoked-key", "a token sealed under a revoked key", Revoked),
	}
}
