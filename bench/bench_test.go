package bench

import (
	"context"
	"testing"
)

// contestants are all that do the whole job, in the order of the tables.
var contestants = []struct {
	name string
	make func() (contestant, error)
}{
	{"foil", func() (contestant, error) {
		codec, err := newCodec()
		if err != nil {
			return nil, err
		}
		return newFoil(codec)
	}},
	{"securecookie", newSecurecookie},
	{"jwe", newJWE},
	{"paseto", newPaseto},
	{"tink", newTink},
}

func BenchmarkSeal(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		f, err := newFloor()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			f.seal()
		}
	})
	for _, c := range contestants {
		b.Run(c.name, func(b *testing.B) {
			ctx := context.Background()
			s, err := c.make()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.seal(ctx, &reference, state); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		f, err := newFloor()
		if err != nil {
			b.Fatal(err)
		}
		token := append([]byte(nil), f.seal()...)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := f.open(token); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, c := range contestants {
		b.Run(c.name, func(b *testing.B) {
			ctx := context.Background()
			s, err := c.make()
			if err != nil {
				b.Fatal(err)
			}
			token, err := s.seal(ctx, &reference, state)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				got, err := s.open(ctx, &reference, token)
				if err != nil || got != state {
					b.Fatalf("open = %q, %v", got, err)
				}
			}
		})
	}
}
