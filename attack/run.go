package attack

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// A Config is what [Run] needs. All fields but Progress are required; Logs and
// Store only by the attacks that use them.
type Config struct {
	Door   Door
	App    App
	Minter *Minter
	Logs   Logs
	Store  Store
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
	// Reason says why it is not to be seen, if Got is [NotVisible].
	Reason string `json:"reason,omitempty"`

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
	seen := &evidence{}
	for i := range attacks {
		a := &attacks[i]
		if cfg.Progress != nil {
			cfg.Progress(a, nil)
		}
		r := fight(ctx, cfg, a, seen)
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
func fight(ctx context.Context, cfg *Config, a *Attack, seen *evidence) Result {
	start := time.Now()
	res := Result{Name: a.Name, StoppedBy: a.StoppedBy}
	if res.Reason = hides(cfg, a); res.Reason != "" {
		res.Expected, res.Got, res.Note, res.OK = NotVisible, NotVisible, res.Reason, true
		return res
	}
	expect := a.Expect(cfg.Mode)
	b := &bout{Config: cfg, ctx: ctx, attack: a, expect: expect, seen: seen}
	got, err := a.run(b)
	if err != nil {
		got = "not carried out"
		b.note("%s", redact([]byte(err.Error()), b.secrets))
	}
	if b.last != nil {
		res.Wire = redact(b.last.Body, b.secrets)
	}
	res.Expected, res.Got, res.OK = strings.Join(expect, " or "), got, slices.Contains(expect, got)
	res.Note, res.Took = strings.Join(b.notes, "; "), time.Since(start)
	if got == NotVisible {
		res.Reason = res.Note
	}
	return res
}

// hides says why an attack cannot be seen: by calls of this kind, in this mode, at
// this door, or with this store.
func hides(cfg *Config, a *Attack) string {
	if reason := a.hidden[cfg.Mode.kind()]; reason != "" {
		return reason
	}
	if a.unseen != nil {
		if reason := a.unseen(cfg.Mode); reason != "" {
			return reason
		}
	}
	for _, seam := range []any{cfg.Door, cfg.Store} {
		if blind, ok := seam.(Blind); ok {
			if reason := blind.Blind(a.Name, cfg.Mode.kind()); reason != "" {
				return reason
			}
		}
	}
	return ""
}
