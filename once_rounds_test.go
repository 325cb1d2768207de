package foil_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/replay"
)

// A state of any round is spent once, under its own identity, and its mark lasts for
// as long as the token does.
func TestSpendingInEveryRound(t *testing.T) {
	for _, round := range everyRound {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			var ids []string
			var until time.Time
			memory := replay.NewMemory(&replay.MemoryOptions{Now: func() time.Time { return epoch }})
			s := &scripted{use: func(ctx context.Context, id []byte, expires time.Time) (bool, error) {
				ids, until = append(ids, string(id)), expires
				return memory.Use(ctx, id, expires)
			}, ping: func(context.Context) error { return nil }}
			b := newBench(t, func(o *foil.Options) { o.Replay = s })
			token := b.inRound(t, purge(), confirm(), round)
			o, err := b.Open(ctx, purge(), token)
			if err != nil {
				t.Fatal(err)
			}
			if until.Before(o.Expires()) || until.Before(epoch.Add(10*time.Minute-time.Millisecond)) {
				t.Errorf("the mark ends at %v, the token at %v", until, o.Expires())
			}
			for range 3 {
				_, err = b.Open(ctx, purge(), token)
				wantReason(t, err, foil.ReasonReplayed)
			}
			if _, err := b.Open(ctx, purge(), b.inRound(t, purge(), confirm(), round)); err != nil {
				t.Errorf("another flow: %v", err)
			}
			if len(ids) != 5 || ids[0] != ids[3] || ids[0] == ids[4] {
				t.Errorf("marked %x", ids)
			}
		})
	}
}

// A mark that ended before its token would let it through again: until the very
// end, and a store that sweeps all that has ended by then.
func TestMarkOutlivesToken(t *testing.T) {
	for _, round := range everyRound {
		b := newBench(t, nil)
		memory := replay.NewMemory(&replay.MemoryOptions{Now: b.clock})
		b.Guard = b.guard(t, b.codec, func(o *foil.Options) { o.Replay = durable{memory} })
		token := b.inRound(t, purge(), confirm(), round)
		if _, err := b.Open(ctx, purge(), token); err != nil {
			t.Fatal(err)
		}
		b.now = epoch.Add(10*time.Minute - time.Millisecond)
		if n, err := memory.Sweep(ctx); err != nil || n != 0 {
			t.Errorf("round %d: %d marks were swept before the token had ended, %v", round, n, err)
		}
		_, err := b.Open(ctx, purge(), token)
		wantReason(t, err, foil.ReasonReplayed)
	}
}

func TestRaceInEveryRound(t *testing.T) {
	for _, round := range everyRound {
		b := newBench(t, nil)
		token := b.inRound(t, purge(), confirm(), round)
		var passed atomic.Int32
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if _, err := b.Open(ctx, purge(), token); err == nil {
					passed.Add(1)
				}
			})
		}
		wg.Wait()
		if passed.Load() != 1 {
			t.Errorf("round %d: %d of 16 passed", round, passed.Load())
		}
	}
}

func TestSettleInEveryRound(t *testing.T) {
	const declined, result = `{"confirm":{"action":"decline"}}`, `{"content":[]}`
	for _, round := range everyRound {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			s := newSettled(t, nil)
			token := s.inRound(t, purge(), confirm(), round)
			o := s.start(t, answering(accepted), token)
			s.conclude(t, o, foil.Conclusion{Result: []byte(result)})
			s.wantRecorded(t, answering(accepted), token, result)
			for what, req := range map[string]foil.Request{"declined": answering(declined), "silent": purge()} {
				if _, err := s.Open(ctx, req, token); foil.ReasonOf(err) == "" {
					t.Errorf("%s: %v", what, err)
				}
			}
			bob := answering(accepted)
			bob.Principal = foil.OAuth("app", "https://issuer.example", "bob")
			_, err := s.Open(ctx, bob, token)
			wantReason(t, err, foil.ReasonPrincipal)
			s.now = epoch.Add(11 * time.Minute)
			s.wantRecorded(t, answering(accepted), token, result)
			s.now = epoch
			late := s.inRound(t, purge(), confirm(), round)
			s.now = epoch.Add(11 * time.Minute)
			_, err = s.Open(ctx, answering(accepted), late)
			wantReason(t, err, foil.ReasonExpired)
		})
	}
}

// Answers count in every round as in the first: to what was asked, of its kind, to
// the wording that was asked, and if they can be read in one way only.
func TestAnswersInEveryRound(t *testing.T) {
	const (
		elicit = `{"action":"accept","content":{"ok":true}}`
		roots  = `{"roots":[]}`
		sample = `{"role":"assistant","content":{"type":"text","text":"accept"},"model":"m"}`
	)
	three := foil.Outgoing{Questions: []byte(`{"a":` + confirmQuestion + `,"b":` + askRoots + `,"c":` + askSampling + `}`)}
	for _, round := range everyRound {
		b := newBench(t, func(o *foil.Options) { o.Once = foil.Off })
		token := b.inRound(t, purge(), three, round)
		for _, tt := range []struct {
			answers string
			want    []string
		}{
			{`{"a":` + elicit + `,"b":` + roots + `,"c":` + sample + `}`, []string{"a", "b", "c"}},
			{`{"a":` + elicit + `,"d":` + elicit + `,"A":` + elicit + `}`, []string{"a"}},
			{`{"d":` + elicit + `}`, nil},
			{`{"a":` + roots + `,"b":` + sample + `,"c":` + elicit + `}`, nil},
			{`{"a":` + sample + `,"b":` + elicit + `,"c":` + roots + `}`, nil},
			{`{"a":{"action":"accept","roots":[]},"b":{"roots":[],"role":"user"},"c":{"role":"user","action":"accept"}}`, nil},
			{`{"a":{"roots":[],"action":"accept"},"b":{"role":"user","roots":[]},"c":{"action":"accept","role":"user"}}`, nil},
			{`{"a":{},"b":[],"c":"accept"}`, nil},
		} {
			o, err := b.Open(ctx, answering(tt.answers), token)
			if err != nil {
				t.Fatalf("round %d: %s: %v", round, tt.answers, err)
			}
			if got := slices.Sorted(maps.Keys(o.Answers())); !slices.Equal(got, tt.want) {
				t.Errorf("round %d: %s: kept %q, want %q", round, tt.answers, got, tt.want)
			}
		}
		for _, answers := range []string{
			`{"a":{"action":"decline"},"a":` + elicit + `}`, `{"a":` + elicit + `,"\u0061":{"action":"decline"}}`,
			`{"a":{"action":"decline","action":"accept"}}`, `{"a":{"action":"accept","Action":"decline"}}`,
			`{"a":{"action":"accept","content":{"x":[{"y":1,"Y":2}]}}}`, `{"a":{"action":"accept","content":{"k":1,"\u212a":2}}}`,
		} {
			if _, err := b.Open(ctx, answering(answers), token); !errors.Is(err, foil.ErrAmbiguous) {
				t.Errorf("round %d: %s: %v", round, answers, err)
			}
		}
		o, err := b.Open(ctx, answering(`{"a":`+elicit+`}`), token)
		if err != nil {
			t.Fatal(err)
		}
		for question, want := range map[string]foil.AnswerStatus{
			confirmQuestion: foil.Answered,
			strings.Replace(confirmQuestion, "Purge 3", "Purge 300", 1): foil.Reworded,
			askRoots: foil.Reworded,
		} {
			if _, got := o.Answer("a", []byte(question)); got != want {
				t.Errorf("round %d: %s: %v, want %v", round, question, got, want)
			}
		}
		if _, got := o.Answer("b", []byte(askRoots)); got != foil.Missing {
			t.Errorf("round %d: an answer never given: %v", round, got)
		}
	}
}

// Arguments that read two ways are refused however far inside they do, and in every
// round, though the token was made for just this text.
func TestNestedTwinsInEveryRound(t *testing.T) {
	for _, round := range everyRound {
		b := newBench(t, func(o *foil.Options) { o.Once = foil.Off })
		lax := b.guard(t, b.codec, func(o *foil.Options) { o.Once, o.AmbiguousArguments = foil.Off, foil.Allow })
		for _, args := range []string{
			`{"x":{"a":1,"A":2}}`, `{"x":[[{"key":"logs/","Key":"secrets/"}]]}`, `{"x":{"a":1,"a":1}}`,
			`{"x":{"y":{"z":{"k":1,"\u212a":2}}}}`, `{"x":{"s":1,"\u017f":2}}`, `{"x":{"a":1,"\u0061":2}}`,
		} {
			req := purge()
			req.Arguments = []byte(args)
			token := chain(t, lax, req, confirm(), round)
			if _, err := b.Open(ctx, req, token); !errors.Is(err, foil.ErrAmbiguous) {
				t.Errorf("round %d: %s: %v", round, args, err)
			}
			if _, err := lax.Open(ctx, req, token); err != nil {
				t.Errorf("round %d: %s, allowed: %v", round, args, err)
			}
		}
	}
}
