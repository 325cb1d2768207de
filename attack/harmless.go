package attack

import (
	"fmt"
	"slices"
	"strings"
)

// harmless are the retries that must pass: nothing in them is an attack.
func harmless() []Attack {
	return []Attack{
		{
			Name: "honest", Does: "nothing", must: []string{Accepted},
			run: func(b *bout) (string, error) {
				f, err := b.begin()
				if err != nil {
					return "", err
				}
				req := f.retry()
				req.Replica = b.elsewhere(f.asked)
				o, err := b.send(req)
				if err != nil {
					return "", err
				}
				if f.asked > 0 && o.reply.Replica > 0 {
					b.note("asked by replica %d, confirmed on replica %d", f.asked, o.reply.Replica)
				}
				return b.finished(f, o)
			},
		},
		{
			Name: "replica-killed", Does: "nothing; the replica that asked is killed between the rounds",
			must: []string{Accepted, NotVisible}, run: runReplicaKilled,
		},
		{
			Name: "key-order", Does: "the members of the arguments in another order", must: []string{Accepted},
			run: func(b *bout) (string, error) {
				nested := `{"y":1,"x":[{"q":2,"p":null}]}`
				return b.same(
					b.changed("the tool's own arguments reversed", func(f *flow) *Request {
						c := f.call
						c.Arguments = slices.Clone(c.Arguments)
						slices.Reverse(c.Arguments)
						return f.retryOf(c)
					}),
					b.changed("the params reversed", func(f *flow) *Request {
						r := f.retry()
						slices.Reverse(r.Params)
						return r
					}),
					b.free("nested objects reversed", Members{M("nested", nested), M("a", "1")}, Members{M("a", "1"), M("nested", `{"x":[{"p":null,"q":2}],"y":1}`)}),
				)
			},
		},
		{
			Name: "white-space", Does: "the arguments with other white space", must: []string{Accepted},
			run: func(b *bout) (string, error) {
				return b.same(b.changed("white space", func(f *flow) *Request {
					r := f.retry()
					if uri, ok := r.Params.Get("uri"); ok {
						r.Params = r.Params.Set("uri", "\n\t "+uri+" \r\n")
						return r
					}
					text := "{ \n"
					for i, m := range f.call.Arguments {
						if i > 0 {
							text += " ,\r\n\t"
						}
						text += "  " + m.Name + " :\t" + m.Value
					}
					r.Params = r.Params.Set("arguments", text+" \n}")
					return r
				}))
			},
		},
		{
			Name: "escape-spelling", Does: "the strings of the arguments spelt with escapes", must: []string{Accepted},
			run: func(b *bout) (string, error) {
				return b.same(b.changed("escapes", func(f *flow) *Request {
					if uri, ok := f.retry().Params.Get("uri"); ok {
						r := f.retry()
						r.Params = r.Params.Set("uri", escaped(uri))
						return r
					}
					c := f.call
					c.Arguments = slices.Clone(c.Arguments)
					for i, m := range c.Arguments {
						c.Arguments[i].Name = escaped(m.Name)
						if strings.HasPrefix(m.Value, `"`) {
							c.Arguments[i].Value = escaped(m.Value)
						}
					}
					return f.retryOf(c)
				}))
			},
		},
		{
			Name: "meta-changes", Does: "other _meta, another JSON-RPC id, unknown params", must: []string{Accepted},
			run: func(b *bout) (string, error) {
				return b.same(b.changed("all three", func(f *flow) *Request {
					r := f.retry()
					r.ID = `"a-string-this-time"`
					r.Meta = Members{M("example.org/trace", `"another"`)}
					r.Params = r.Params.Before(M("future", `{"a":[1,2]}`))
					return r
				}))
			},
		},
		{
			Name: "token-refresh", Does: "the same person with a renewed bearer token", must: []string{Accepted},
			run: func(b *bout) (string, error) {
				return b.same(b.changed("a renewed token", func(f *flow) *Request { return f.as(AliceRenewed) }))
			},
		},
	}
}

// elsewhere is another replica than r, or 0 if there is none or r is unknown.
func (b *bout) elsewhere(r int) int {
	if n := b.Door.Replicas(); r > 0 && n > 1 {
		return r%n + 1
	}
	return 0
}

// same plays variants that are worth an honest retry.
func (b *bout) same(variants ...variant) (string, error) {
	for _, v := range variants {
		if !b.takes(v) {
			continue
		}
		f, req, err := v.make()
		if err != nil {
			return "", fmt.Errorf("%s: %w", v.what, err)
		}
		o, err := b.send(req)
		if err != nil {
			return "", fmt.Errorf("%s: %w", v.what, err)
		}
		verdict, err := b.finished(f, o)
		if err != nil || verdict != Accepted {
			b.note("with %s", v.what)
			return verdict, err
		}
	}
	return Accepted, nil
}

// free is a variant on the call that takes further arguments: asked with some,
// retried with others.
func (b *bout) free(what string, asked, presented Members) variant {
	kind := b.Mode.kind()
	v := variant{what: what, make: func() (*flow, *Request, error) {
		f, err := b.beginAs(Alice, func(s *Scene) Call { return withAll(s.free(kind), asked) })
		if err != nil {
			return nil, nil, err
		}
		return f, f.retryOf(withAll(f.scene.free(kind), presented)), nil
	}}
	for _, m := range slices.Concat(asked, presented) {
		v.values = v.values || !strings.HasPrefix(m.Value, `"`) && m.Value != "null"
	}
	return v
}

// withAll adds arguments to those that the call has.
func withAll(c Call, more Members) Call {
	c.Arguments = c.Arguments.After(more...)
	return c
}

// escaped spells every character of a JSON string of plain text as an escape.
func escaped(text string) string {
	var b strings.Builder
	for _, c := range strings.Trim(text, `"`) {
		fmt.Fprintf(&b, `\u%04X`, c)
	}
	return `"` + b.String() + `"`
}

func runReplicaKilled(b *bout) (string, error) {
	crash, ok := b.Door.(Crasher)
	if !ok || b.Door.Replicas() < 2 {
		b.note("this door has no replica that can die")
		return NotVisible, nil
	}
	f, err := b.begin()
	if err != nil {
		return "", err
	}
	if f.asked == 0 {
		b.note("this door cannot tell which replica asked")
		return NotVisible, nil
	}
	if err := crash.Kill(b.ctx, f.asked); err != nil {
		return "", err
	}
	req := f.retry()
	req.Replica = b.elsewhere(f.asked)
	o, err := b.send(req)
	if err := crash.Start(b.ctx, f.asked); err != nil {
		return "", err
	}
	if err != nil {
		return "", err
	}
	b.note("replica %d asked and was killed, replica %d confirmed", f.asked, o.reply.Replica)
	return b.finished(f, o)
}
