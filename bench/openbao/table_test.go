package openbao

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/bench/load"
	"github.com/foilmcp/foil/internal/baotest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/openbao"
)

var (
	table  = flag.Bool("table", false, "measure")
	rounds = flag.Int("rounds", 5, "how often each load is measured")
	each   = flag.Duration("each", 2*time.Second, "how long a load lasts")
	write  = flag.String("write", "", "file to put the table into, between its marks")
)

func TestMain(m *testing.M) { flag.Parse(); os.Exit(baotest.Main(m)) }

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A contender is one thing that callers do.
type contender struct {
	name    string
	callers int
	do      func(ctx context.Context) error
	calls   func() uint64 // HTTP requests so far

	rate, p50, p99, perCall []float64
}

// sealAndOpen is what a token costs in all.
func sealAndOpen(codec foil.Codec) func(context.Context) error {
	payload := make([]byte, 512)
	_, _ = rand.Read(payload)
	return func(ctx context.Context) error {
		token, err := codec.Seal(ctx, payload, time.Now().Add(time.Hour))
		if err != nil {
			return err
		}
		got, err := codec.Open(ctx, token)
		if err == nil && string(got) != string(payload) {
			err = errors.New("another payload came back")
		}
		return err
	}
}

func contenders(t *testing.T) []*contender {
	srv := baotest.Real(t)
	c := must(openbao.Open(t.Context(), &openbao.Options{Address: srv.Addr, Auth: openbao.Token(srv.Token), Timeout: time.Minute, Plaintext: true}))(t)
	t.Cleanup(func() { _ = c.Close() })
	store := must(openbao.OpenRing(c, srv.KV(t)+"/ring"))(t)
	if err := store.Create(t.Context(), must(keyring.NewRing(time.Now(), nil))(t)); err != nil {
		t.Fatal(err)
	}
	ring := must(keyring.NewRefresher(t.Context(), store, nil))(t)
	t.Cleanup(func() { _ = ring.Close() })
	local := must(aesgcm.New(ring, nil))(t)
	key := srv.Transit(t)
	shared := must(openbao.NewTransit(t.Context(), c, key, nil))(t)
	single := must(openbao.NewTransit(t.Context(), c, key, &openbao.TransitOptions{Batch: 1}))(t)
	claims := must(openbao.OpenClaims(c, nil))(t)
	plan := make([]byte, 1024)
	wrap := func(ctx context.Context) error {
		claim, err := claims.Issue(ctx, plan, 10*time.Minute)
		if err != nil {
			return err
		}
		_, err = claims.Redeem(ctx, claim, "operation")
		return err
	}
	spent := must(openbao.OpenReplay(c, srv.KV(t), nil))(t)
	spend := func(ctx context.Context) error {
		id := make([]byte, 16)
		_, _ = rand.Read(id)
		first, err := spent.Use(ctx, id, time.Now().Add(10*time.Minute))
		if err == nil && !first {
			err = errors.New("a fresh ID was not first")
		}
		return err
	}
	var all []*contender
	for _, n := range []int{1, 64} {
		for _, x := range []contender{
			{name: localName, do: sealAndOpen(local)},
			{name: sharedName, do: sealAndOpen(shared)},
			{name: singleName, do: sealAndOpen(single)},
			{name: "response wrapping, issue and redeem", do: wrap},
			{name: "KV create, one use", do: spend},
		} {
			x.callers, x.calls = n, c.Calls
			all = append(all, &x)
		}
	}
	return all
}

const (
	localName  = "local codec, ring from OpenBao, seal and open"
	sharedName = "Transit, calls shared, seal and open"
	singleName = "Transit, a call for each token, seal and open"
)

// measure loads the contender for a time.
func (x *contender) measure(t *testing.T, d time.Duration) {
	t.Helper()
	before := x.calls()
	r, err := load.Run(x.callers, d, x.do)
	if err != nil {
		t.Fatalf("%s: %v", x.name, err)
	}
	x.rate = append(x.rate, r.PerSecond)
	x.p50 = append(x.p50, r.P50.Seconds()*1000)
	x.p99 = append(x.p99, r.P99.Seconds()*1000)
	x.perCall = append(x.perCall, float64(x.calls()-before)/float64(r.N))
}

func median(s []float64) float64 { c := slices.Sorted(slices.Values(s)); return c[len(c)/2] }

// TestTable measures side by side: round by round, each load once.
func TestTable(t *testing.T) {
	if !*table {
		t.Skip("to measure: see the package comment")
	}
	all := contenders(t)
	for r := range *rounds {
		for _, x := range all {
			x.measure(t, *each)
		}
		fmt.Fprintf(os.Stderr, "round %d of %d done\n", r+1, *rounds)
	}
	find := func(name string) *contender {
		return all[slices.IndexFunc(all, func(x *contender) bool { return x.name == name && x.callers == 64 })]
	}
	var b strings.Builder
	b.WriteString("| | callers | per second | p50 ms | p99 ms | requests each |\n|---|---|---|---|---|---|\n")
	for _, x := range all {
		fmt.Fprintf(&b, "| %s | %d | %.0f (%.0f–%.0f) | %.2f | %.2f | %.2f |\n", x.name, x.callers,
			median(x.rate), slices.Min(x.rate), slices.Max(x.rate), median(x.p50), median(x.p99), median(x.perCall))
	}
	var ratio []float64
	shared, single := find(sharedName), find(singleName)
	for i := range shared.rate {
		ratio = append(ratio, shared.rate[i]/single.rate[i])
	}
	verdict := func(ok bool) string {
		if ok {
			return "kept"
		}
		return "**missed**"
	}
	b.WriteString("\n| promise | bound | measured, median of rounds |\n|---|---|---|\n")
	fmt.Fprintf(&b, "| Transit at 64 callers: calls shared / a call for each token | at least 5 | %.1f (%.1f–%.1f), %s |\n", median(ratio), slices.Min(ratio), slices.Max(ratio), verdict(median(ratio) >= 5))
	local := find(localName)
	fmt.Fprintf(&b, "| requests for each token with a local codec | 0 | %.4f, %s |\n", median(local.perCall), verdict(median(local.perCall) < 0.001))
	fmt.Fprintf(&b, "\nMedians of %d rounds of %v, the least and the greatest in brackets. GOMAXPROCS %d; server and callers share one machine, and the server keeps everything in memory (dev mode): a disk makes wrapping and KV slower.\n", *rounds, *each, runtime.GOMAXPROCS(0))
	fmt.Println(b.String())
	if *write != "" {
		put(t, *write, b.String())
	}
}

// put replaces what is between the marks of a file.
func put(t *testing.T, file, text string) {
	t.Helper()
	const open, end = "<!-- measured -->\n", "<!-- end of measured -->"
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(old), open)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks", file)
	}
	if err := os.WriteFile(file, []byte(before+open+text+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
