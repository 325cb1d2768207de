package foil_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/claimcheck"
)

const (
	askRoots    = `{"method":"roots/list","params":{}}`
	askSampling = `{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`
)

func TestUnaskedAnswersAreDropped(t *testing.T) {
	const (
		elicit = `{"action":"accept","content":{"ok":true}}`
		roots  = `{"roots":[]}`
		sample = `{"role":"assistant","content":{"type":"text","text":"x"},"model":"m"}`
	)
	tests := []struct {
		name, questions, answers string
		want                     []string
	}{
		{"asked", `{"confirm":` + confirmQuestion + `}`, `{"confirm":` + elicit + `}`, []string{"confirm"}},
		{"another round's", `{"confirm":` + confirmQuestion + `}`, `{"confirm":` + elicit + `,"count":` + elicit + `}`, []string{"confirm"}},
		{"only unasked", `{"confirm":` + confirmQuestion + `}`, `{"count":` + elicit + `}`, nil},
		{"nothing asked", ``, `{"confirm":` + elicit + `}`, nil},
		{"empty questions", `{}`, `{"confirm":` + elicit + `}`, nil},
		{"roots for a form", `{"confirm":` + confirmQuestion + `}`, `{"confirm":` + roots + `}`, nil},
		{"sampling for a form", `{"confirm":` + confirmQuestion + `}`, `{"confirm":` + sample + `}`, nil},
		{"two kinds at once", `{"confirm":` + confirmQuestion + `}`, `{"confirm":{"action":"accept","roots":[]}}`, nil},
		{"no kind", `{"confirm":` + confirmQuestion + `}`, `{"confirm":{}}`, nil},
		{"not an object", `{"confirm":` + confirmQuestion + `}`, `{"confirm":"accept"}`, nil},
		{"null", `{"confirm":` + confirmQuestion + `}`, `{"confirm":null}`, nil},
		{"all three", `{"a":` + confirmQuestion + `,"b":` + askRoots + `,"c":` + askSampling + `}`,
			`{"a":` + elicit + `,"b":` + roots + `,"c":` + sample + `}`, []string{"a", "b", "c"}},
		{"crossed", `{"a":` + confirmQuestion + `,"b":` + askRoots + `}`, `{"a":` + roots + `,"b":` + elicit + `}`, nil},
		{"no answers", `{"confirm":` + confirmQuestion + `}`, ``, nil},
		{"null answers", `{"confirm":` + confirmQuestion + `}`, `null`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, nil)
			token := b.seal(t, purge(), foil.Outgoing{Questions: []byte(tt.questions)})
			req := purge()
			req.Answers = []byte(tt.answers)
			o, err := b.Open(ctx, req, token)
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Sorted(maps.Keys(o.Answers())); !slices.Equal(got, tt.want) {
				t.Errorf("kept %q, want %q", got, tt.want)
			}
			for _, k := range tt.want {
				if !o.Has(k) {
					t.Errorf("Has(%q) = false", k)
				}
			}
		})
	}
}

func TestAnswersThatParsersReadDifferently(t *testing.T) {
	for _, answers := range []string{
		`{"confirm":{"action":"decline"},"confirm":{"action":"accept"}}`,
		`{"confirm":{"action":"decline","action":"accept"}}`,
		`{"confirm":{"action":"decline","Action":"accept"}}`,
		`{"confirm":{"action":"accept","content":{"ok":false,"ok":true}}}`,
		`{"confirm":{"action":"accept","content":{"n":` + strings.Repeat("9", 5000) + `}}}`,
		`[]`, `{`, `{"confirm":}`, `x`,
	} {
		b := newBench(t, nil)
		token := b.seal(t, purge(), confirm())
		req := purge()
		req.Answers = []byte(answers)
		if _, err := b.Open(ctx, req, token); !errors.Is(err, foil.ErrAmbiguous) {
			t.Errorf("%s: %v", answers, err)
		}
		if _, err := b.Open(ctx, purge(), token); err != nil {
			t.Errorf("%s spent the token: %v", answers, err)
		}
	}
}

func TestRewordedQuestion(t *testing.T) {
	b := newBench(t, func(o *foil.Options) { o.Once = foil.Off })
	token := b.seal(t, purge(), confirm())
	req := purge()
	req.Answers = []byte(accepted)
	tests := []struct {
		name, question string
		want           foil.AnswerStatus
	}{
		{"same", confirmQuestion, foil.Answered},
		{"same in another text", `{"params":{"requestedSchema":{"type":"object"},"message":"Purge \u0033?","mode":"form"}, "method":"elicitation/create"}`, foil.Answered},
		{"other number", strings.Replace(confirmQuestion, "Purge 3", "Purge 300", 1), foil.Reworded},
		{"other schema", strings.Replace(confirmQuestion, `"object"`, `"string"`, 1), foil.Reworded},
		{"other method", strings.Replace(confirmQuestion, "elicitation/create", "roots/list", 1), foil.Reworded},
		{"not JSON", `{`, foil.Reworded},
		{"empty", ``, foil.Reworded},
	}
	for _, tt := range tests {
		o, err := b.Open(ctx, req, token)
		if err != nil {
			t.Fatal(err)
		}
		answer, status := o.Answer("confirm", []byte(tt.question))
		if status != tt.want || (answer != nil) != (tt.want == foil.Answered) {
			t.Errorf("%s: %s, %v; want %v", tt.name, answer, status, tt.want)
		}
		if answer, status := o.Answer("count", []byte(tt.question)); status != foil.Missing || answer != nil {
			t.Errorf("%s: an answer never given: %v", tt.name, status)
		}
	}
	// With the binding off, everything passes.
	off := b.guard(t, b.codec, func(o *foil.Options) { o.Once = foil.Off; o.Without = foil.BindQuestions })
	req.Answers = []byte(`{"confirm":{"action":"accept"},"count":{"action":"accept"}}`)
	o, err := off.Open(ctx, req, token)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"confirm", "count"} {
		if _, status := o.Answer(k, []byte(askRoots)); status != foil.Answered {
			t.Errorf("without questions: %s is %v", k, status)
		}
	}
}

func TestSealRefusesMistakes(t *testing.T) {
	tests := map[string]foil.Outgoing{
		"unknown method":       {Questions: []byte(`{"a":{"method":"tools/call"}}`)},
		"question twice":       {Questions: []byte(`{"a":` + askRoots + `,"a":` + askRoots + `}`)},
		"question not object":  {Questions: []byte(`{"a":1}`)},
		"questions not object": {Questions: []byte(`[]`)},
		"questions not JSON":   {Questions: []byte(`{`)},
		"state not UTF-8":      {State: "\xff"},
		"CESU-8 pair":          {State: "\xed\xa0\xbd\xed\xb8\x80"},
		"state too long":       {State: strings.Repeat("x", 64<<10)},
	}
	for name, out := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			token, err := b.Seal(ctx, purge(), out)
			if err == nil || token != "" || errors.Is(err, foil.ErrInvalid) || errors.Is(err, foil.ErrUnavailable) {
				t.Errorf("token %q, error %v; want a mistake of the server", token, err)
			}
			if w := foil.Wire(err); w.Code != -32603 {
				t.Errorf("wire %+v", w)
			}
			if err != nil && strings.Contains(err.Error(), strings.Repeat("x", 20)) {
				t.Error("the error quotes the state")
			}
		})
	}
	b := newBench(t, nil)
	token := b.seal(t, purge(), foil.Outgoing{State: "\xed\xa0\x80 lone"})
	if o, err := b.Open(ctx, purge(), token); err != nil || o.State() != "\xed\xa0\x80 lone" {
		t.Errorf("a lone surrogate: %v", err)
	}
}

func TestTooLarge(t *testing.T) {
	b := newBench(t, func(o *foil.Options) { o.MaxToken = 600 })
	token := b.seal(t, purge(), confirm())
	if len(token) > 800 {
		t.Fatalf("token has %d bytes", len(token))
	}
	small := b.guard(t, b.codec, func(o *foil.Options) { o.MaxToken = len(token) - 1 })
	_, err := small.Open(ctx, purge(), token)
	wantReason(t, err, foil.ReasonTooLarge)
	exact := b.guard(t, b.codec, func(o *foil.Options) { o.MaxToken = len(token) })
	if _, err := exact.Open(ctx, purge(), token); err != nil {
		t.Error(err)
	}
	_, err = b.Open(ctx, purge(), strings.Repeat("A", 1<<20))
	wantReason(t, err, foil.ReasonTooLarge)
}

// A claim check must not ride in a token that anyone can read.
func TestClaimNeedsEncryption(t *testing.T) {
	b := newBench(t, nil)
	readable := b.guard(t, plain{}, nil)
	state := foil.Outgoing{State: `{"claim":"` + claimcheck.Prefix + `abc"}`}
	if token, err := readable.Seal(ctx, purge(), state); err == nil || token != "" {
		t.Errorf("a readable codec carried a claim: %v", err)
	}
	if _, err := readable.Seal(ctx, purge(), foil.Outgoing{State: "no claim"}); err != nil {
		t.Error(err)
	}
	if _, err := b.Seal(ctx, purge(), state); err != nil {
		t.Errorf("an encrypting codec: %v", err)
	}
}

func TestClaimChecksOfAPresentation(t *testing.T) {
	store := claimcheck.NewMemory(nil)
	b := newBench(t, func(o *foil.Options) { o.Claims = store; o.Once = foil.Off })
	claim, err := store.Issue(ctx, []byte("plan"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	token := b.seal(t, purge(), foil.Outgoing{State: claim})
	one, err := b.Open(ctx, purge(), token)
	if err != nil {
		t.Fatal(err)
	}
	two, err := b.Open(ctx, purge(), token)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if plan, err := one.Claims().Redeem(ctx, claim); err != nil || string(plan) != "plan" {
			t.Errorf("redeem: %q, %v", plan, err)
		}
	}
	if plan, err := two.Claims().Redeem(ctx, claim); !errors.Is(err, claimcheck.ErrRedeemed) || plan != nil {
		t.Errorf("another presentation: %q, %v", plan, err)
	}
	other, err := store.Issue(ctx, []byte("plan"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Claims().Revoke(ctx, other); err != nil {
		t.Error(err)
	}
	if _, err := two.Claims().Redeem(ctx, other); !errors.Is(err, claimcheck.ErrRedeemed) {
		t.Errorf("a revoked claim: %v", err)
	}
	none := newBench(t, nil)
	o, err := none.Open(context.Background(), purge(), none.seal(t, purge(), confirm()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Claims().Redeem(ctx, claim); err == nil || !strings.Contains(err.Error(), "Options.Claims") {
		t.Errorf("no store: %v", err)
	}
	if s := fmt.Sprintf("%v %+v %#v %s", one.Claims(), one.Claims(), one.Claims(), one.Claims()); strings.Contains(s, "by") {
		t.Errorf("prints %s", s)
	}
}

// Answers that cannot be read get one reply, whatever the token is: else the
// reply would tell whether the token fits, without spending it.
func TestUnreadableAnswersTellNothing(t *testing.T) {
	b := newBench(t, nil)
	token := b.seal(t, purge(), confirm())
	deep := `{"confirm":{"action":"accept","content":{"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}}}`
	for _, answers := range []string{deep, `{"a":1,"a":1}`, `{`, `{"confirm":"` + strings.Repeat("x", 5<<20) + `"}`} {
		for name, change := range map[string]func(*foil.Request, *string){
			"fits":        func(*foil.Request, *string) {},
			"other user":  func(r *foil.Request, _ *string) { r.Principal = foil.OAuth("app", "https://issuer.example", "bob") },
			"other tool":  func(r *foil.Request, _ *string) { r.Target = "other" },
			"forged":      func(_ *foil.Request, tok *string) { *tok = "v1.forged" },
			"other store": func(_ *foil.Request, tok *string) { *tok = newBench(t, nil).seal(t, purge(), confirm()) },
		} {
			req, tok := purge(), token
			req.Answers = []byte(answers)
			change(&req, &tok)
			_, err := b.Open(ctx, req, tok)
			if !errors.Is(err, foil.ErrAmbiguous) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, err := b.Open(ctx, purge(), token); err != nil {
		t.Errorf("a refusal spent the token: %v", err)
	}
}
