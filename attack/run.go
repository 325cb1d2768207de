package attack

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// A Config is what [Run] needs. All fields but Progress are required.
type Config struct {
	Door   Door
	App    App
	Minter *Minter
	// Mode is how the server under attack is set; it decides what is expected.
	Mode Mode
	// Progress is called before and after each attack; after it with its result.
	Progress func(a *Attack, r *Result)
}

// A Result is what came of one attack.
type Result struct {
	Name      string `json:"name"`
	Expected  string `json:"expected"`
	Got       string `json:"got"`
	StoppedBy string `json:"stopped_by"`
	// Wire is the reply that decided, as text, with token and state redacted.
	Wire string `json:"wire"`

	// OK is whether Got is as expected.
	OK bool `json:"-"`
	// Note is for people: what was seen beside the verdict.
	Note string `json:"-"`
	// Took is how long it took.
	Took time.Duration `json:"-"`
}

// Run carries out the attacks one after the other. An attack that could not be
// carried out is a result that is not OK. The error is that of ctx, or a mistake
// in the configuration.
func Run(ctx context.Context, cfg *Config, attacks []Attack) ([]Result, error) {
	if cfg.Door == nil || cfg.App == nil || cfg.Minter == nil {
		return nil, errors.New("attack: Config needs a Door, an App and a Minter")
	}
	var results []Result
	for i := range attacks {
		a := &attacks[i]
		if cfg.Progress != nil {
			cfg.Progress(a, nil)
		}
		r := fight(ctx, cfg, a)
		if err := ctx.Err(); err != nil {
			return results, err
		}
		results = append(results, r)
		if cfg.Progress != nil {
			cfg.Progress(a, &r)
		}
	}
	return results, nil
}

// fight carries out one attack.
func fight(ctx context.Context, cfg *Config, a *Attack) Result {
	start := time.Now()
	expect := a.Expect(cfg.Mode)
	b := &bout{Config: cfg, ctx: ctx, attack: a, expect: expect}
	got, err := "", error(nil)
	if blind, ok := cfg.Door.(Blind); ok {
		if reason := blind.Blind(a.Name); reason != "" {
			got = NotVisible
			b.note("%s", reason)
		}
	}
	if got == "" {
		got, err = a.run(b)
	}
	if err != nil {
		got = "not carried out"
		b.note("%s", redact([]byte(err.Error()), b.secrets))
	}
	var wire string
	if b.last != nil {
		wire = redact(b.last.Body, b.secrets)
	}
	return Result{
		Name: a.Name, Expected: strings.Join(expect, " or "), Got: got, StoppedBy: a.StoppedBy,
		Wire: wire, Note: strings.Join(b.notes, "; "), Took: time.Since(start),
		OK: slices.Contains(expect, got),
	}
}
