package lab_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/attack/guarddoor"
	"github.com/foilmcp/foil/attack/plain"
	"github.com/foilmcp/foil/internal/chrometest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/replay"
)

// A policy is a position of all switches, as the page has them.
type policy struct {
	Integrity bool `json:"integrity"`
	Principal bool `json:"principal"`
	Expiry    bool `json:"expiry"`
	Request   bool `json:"request"`
	Audience  bool `json:"audience"`
	Questions bool `json:"questions"`
	Once      bool `json:"once"`
}

// policies are all 128.
func policies() []policy {
	all := make([]policy, 128)
	for i := range all {
		on := func(bit int) bool { return i>>bit&1 == 0 }
		all[i] = policy{on(0), on(1), on(2), on(3), on(4), on(5), on(6)}
	}
	return all
}

// mode is the policy as the attack package knows it, but for integrity.
func (p policy) mode() attack.Mode {
	m := attack.Mode{Once: foil.Off}
	if p.Once {
		m.Once = foil.Redeem
	}
	for b, on := range map[foil.Binding]bool{
		foil.BindPrincipal: p.Principal, foil.BindExpiry: p.Expiry, foil.BindRequest: p.Request, foil.BindAudience: p.Audience, foil.BindQuestions: p.Questions,
	} {
		if !on {
			m.Without |= b
		}
	}
	return m
}

// open is a codec in clear that says it encrypts, so that a Guard takes any state.
type open struct{ plain.Codec }

func (open) Encrypts() bool { return true }

// lasting is a memory of spent tokens that does not say that it dies with the
// process. The whole service is in this one.
type lasting struct{ replay.Store }

// verdicts are those of the attack package on a Guard with this policy.
func (p policy) verdicts(ctx context.Context, rows []string) (map[string]string, error) {
	doc, minter, err := attack.NewRingFor(time.Now(), attack.AESGCM)
	if err != nil {
		return nil, err
	}
	minter.Audience = "lab-test"
	ring, err := keyring.Parse(doc)
	if err != nil {
		return nil, err
	}
	var codec foil.Codec
	if codec, err = aesgcm.New(keyring.Fixed(ring), nil); err != nil {
		return nil, err
	}
	if !p.Integrity {
		codec = open{}
		for k := range minter.Codecs {
			minter.Codecs[k] = codec
		}
	}
	mode := p.mode()
	store := lasting{replay.NewMemory(nil)}
	door, err := guarddoor.New(1, func() (*foil.Guard, io.Closer, error) {
		g, err := foil.New(codec, &foil.Options{
			Audience: minter.Audience, Replay: store, Once: mode.Once, Without: mode.Without, Logger: slog.New(slog.DiscardHandler),
		})
		return g, nil, err
	})
	if err != nil {
		return nil, err
	}
	results, err := attack.Run(ctx, &attack.Config{Door: door, App: door, Minter: minter, Mode: mode}, attack.Named(rows...))
	got := map[string]string{}
	for _, r := range results {
		got[r.Name] = r.Got
	}
	return got, err
}

// heavy are the rows of very many forms, which are about the token alone. By default
// the battery plays them under one policy of eight, the ends among them; the page
// plays them under each, in full at the ends and else one form of sixteen. -all plays
// them everywhere in full.
var (
	heavy = []string{"tamper-each-part", "truncate"}
	full  = flag.Bool("all", false, "compare the rows of very many forms in full under every policy")
)

func inFull(i int) bool { return *full || i%16 < 2 || i >= 126 }

// testVerdicts compares every row under every position of the switches: what the
// page computes, and what the attack package finds at a Guard.
func testVerdicts(t *testing.T, browser *chrometest.Browser) {
	tab := browser.Open(t, serve(t)+bare)
	rows := chrometest.Eval[[]string](tab, `return (await import(location.origin + "/attacks/rows.js")).ROWS.map((r) => r.name);`)
	if len(rows) != 21 || len(attack.Named(rows...)) != len(rows) {
		t.Fatalf("%d rows, of which the battery knows %d", len(rows), len(attack.Named(rows...)))
	}
	all := policies()
	want := make([]map[string]string, len(all))
	began := time.Now()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 2 {
		wg.Go(func() {
			for i := range next {
				var err error
				play := rows
				if !inFull(i) {
					play = slices.DeleteFunc(slices.Clone(rows), func(row string) bool { return slices.Contains(heavy, row) })
				}
				if want[i], err = all[i].verdicts(t.Context(), play); err != nil {
					t.Errorf("%+v: %v", all[i], err)
				}
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	wg.Wait()
	for i, w := range want {
		same := want[126+i%2] // as to integrity, and with nothing else on
		for _, row := range heavy {
			if _, played := w[row]; !played {
				w[row] = same[row]
			} else if w[row] != same[row] {
				t.Errorf("%s is %q under %+v, and %q where all else is off: compare with -all", row, w[row], all[i], same[row])
			}
		}
	}
	t.Logf("the battery took %v", time.Since(began).Round(time.Millisecond))

	const inPage = `
		const { run } = await import(location.origin + "/attacks/table.js");
		const { generate } = await import(location.origin + "/core/keys.js");
		const key = await generate();
		const out = [];
		for (const { policy, full } of args[0]) {
			const bench = { key, format: args[1], now: () => Date.now() / 1000, stride: full ? 1 : 16 };
			out.push(Object.fromEntries((await run(bench, policy)).map((r) => [r.row.name, r.verdict])));
		}
		return out;
	`
	compare := func(format string, list []policy) {
		type play struct {
			Policy policy `json:"policy"`
			Full   bool   `json:"full"`
		}
		var plays []play
		for _, p := range list {
			i := slices.Index(all, p)
			plays = append(plays, play{p, *full || i == 0 || i >= 126})
		}
		got := chrometest.Eval[[]map[string]string](tab, inPage, plays, format)
		for i, p := range list {
			for _, row := range rows {
				if w := want[slices.Index(all, p)][row]; got[i][row] != w {
					t.Errorf("%s, %+v: %s is %q in the page, %q in the battery", format, p, row, got[i][row], w)
				}
			}
		}
	}
	compare("v1", all)
	compare("h1", slices.DeleteFunc(slices.Clone(all), func(p policy) bool { return !p.Integrity || !inFull(slices.Index(all, p)) })) // without it there is one format
	t.Logf("%d verdicts after %v", len(all)*len(rows), time.Since(began).Round(time.Millisecond))

	// What stopped each, with everything on, is what the battery names.
	stopped := chrometest.Eval[map[string][]string](tab, `
		const { run } = await import(location.origin + "/attacks/table.js");
		const { generate } = await import(location.origin + "/core/keys.js");
		const results = await run({ key: await generate(), format: "v1", now: () => Date.now() / 1000 }, args[0]);
		return Object.fromEntries(results.map((r) => [r.row.name, r.stoppedBy]));
	`, all[0])
	words := map[string]string{"integrity": "integrity strict decoding", "strict decode": "strict decoding", "strict decode, ID inside the seal": "strict decoding"}
	for _, a := range attack.Named(rows...) {
		by := a.StoppedBy
		if w := words[by]; w != "" {
			by = w
		}
		for _, layer := range stopped[a.Name] {
			if !contains(by, layer) {
				t.Errorf("%s is stopped by %q in the page, by %q in the battery", a.Name, stopped[a.Name], a.StoppedBy)
			}
		}
		if (a.StoppedBy == "") != (len(stopped[a.Name]) == 0) {
			t.Errorf("%s is stopped by %q in the page, by %q in the battery", a.Name, stopped[a.Name], a.StoppedBy)
		}
	}
	if len(slices.Collect(maps.Keys(stopped))) != len(rows) {
		t.Error(fmt.Sprint("rows are missing: ", stopped))
	}
}

func contains(words, word string) bool {
	return words == word || len(words) > len(word) && (words[:len(word)] == word || words[len(words)-len(word):] == word)
}
