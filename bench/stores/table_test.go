package stores

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/bench/load"
	"github.com/foilmcp/foil/internal/pgtest"
	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/store/postgres"
	"github.com/foilmcp/foil/store/redis"
	"github.com/foilmcp/foil/store/sqlite"
)

var (
	table  = flag.Bool("table", false, "measure all stores side by side")
	rounds = flag.Int("rounds", 3, "how often each load is measured")
	each   = flag.Duration("each", 2*time.Second, "how long a load lasts")
	write  = flag.String("write", "", "file to put the table into, between its marks")
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// A contender is a store under load; a nil ledger has none.
type contender struct {
	name   string
	replay replay.Store
	ledger ledger.Store
}

func contenders(t *testing.T) []contender {
	ctx := t.Context()
	ring, err := keyring.NewRing(time.Now(), &keyring.RingOptions{Storage: true})
	if err != nil {
		t.Fatal(err)
	}
	seal, err := atrest.New(keyring.Fixed(ring))
	if err != nil {
		t.Fatal(err)
	}
	lite, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "bench.db"), &sqlite.Options{AtRest: seal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lite.Close() })
	server := pgtest.Start(t, "fsync=on", "synchronous_commit=on", "full_page_writes=on", "shared_buffers=128MB", "max_connections=100")
	pg, err := postgres.Open(ctx, server.Database(t), &postgres.Options{AtRest: seal, Migrate: true, MaxConns: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pg.Close() })
	always := redistest.Start(t, redistest.Durable...)
	strict, err := redis.Open(ctx, "redis://"+always.Addr, &redis.Options{AtRest: seal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { strict.Close() })
	everysec := redistest.Start(t, "appendonly yes", "appendfsync everysec", "maxmemory-policy noeviction")
	lax, err := redis.Open(ctx, "redis://"+everysec.Addr, &redis.Options{AtRest: seal, Durability: redis.Everysec, LedgerMayForget: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lax.Close() })
	return []contender{
		{"memory", replay.NewMemory(&replay.MemoryOptions{MaxIDs: 1 << 26}), ledger.NewMemory(&ledger.MemoryOptions{MaxOperations: 1 << 24, MaxTotalBytes: 16 << 30})},
		{"SQLite", lite.Replay(), lite.Ledger()},
		{"PostgreSQL", pg.Replay(), pg.Ledger()},
		{"Redis, always", strict.Replay(), strict.Ledger()},
		{"Redis, everysec", lax.Replay(), lax.Ledger()},
	}
}

// settle is a load of operations that begin and end with an outcome of 1 KiB.
func settle(l ledger.Store) func(context.Context) error {
	outcome := make([]byte, 1024)
	return func(ctx context.Context) error {
		now := time.Now()
		s := &ledger.Start{
			ID: [16]byte(newID()), Flow: [16]byte(newID()), Round: 1, Method: "tools/call", Target: "purge_objects",
			Principal: make([]byte, ledger.PrincipalLen), Expires: now.Add(10 * time.Minute), Lease: 30 * time.Second,
			Keep: now.Add(time.Hour), Retention: 24 * time.Hour,
		}
		if _, started, err := l.Begin(ctx, s); err != nil || !started {
			return fmt.Errorf("begin: %v, %w", started, err)
		}
		return l.Finish(ctx, s.ID, 1, ledger.Finish{State: ledger.Succeeded, Outcome: outcome})
	}
}

// A row is one line of the table: rounds of one load.
type row struct {
	rate     spread
	p50, p99 spread
}

func (r *row) add(x load.Result) {
	r.rate = append(r.rate, x.PerSecond)
	r.p50 = append(r.p50, float64(x.P50.Microseconds()))
	r.p99 = append(r.p99, float64(x.P99.Microseconds()))
}

// The stores side by side: round by round, each load of each store once.
func TestTable(t *testing.T) {
	if !*table {
		t.Skip("to measure: make bench-stores")
	}
	all := contenders(t)
	callers := []int{1, 16, 64, 256}
	redeems := map[string]map[int]*row{}
	settles := map[string]map[int]*row{}
	var raw row
	at := func(m map[string]map[int]*row, name string, n int) *row {
		if m[name] == nil {
			m[name] = map[int]*row{}
		}
		if m[name][n] == nil {
			m[name][n] = &row{}
		}
		return m[name][n]
	}
	sync := fsyncs(t, t.TempDir())
	for r := range *rounds {
		raw.add(measure(t, 1, *each, sync))
		for _, n := range callers {
			for _, c := range all {
				at(redeems, c.name, n).add(measure(t, n, *each, redeem(c.replay)))
				if n != 256 {
					at(settles, c.name, n).add(measure(t, n, *each, settle(c.ledger)))
				}
			}
			fmt.Fprintf(os.Stderr, "round %d of %d, %d callers done\n", r+1, *rounds, n)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| redemptions per second, p50 and p99 in ms | 1 caller | 16 | 64 | 256 |\n|---|---|---|---|---|\n")
	for _, c := range all {
		fmt.Fprintf(&b, "| %s |", c.name)
		for _, n := range callers {
			x := redeems[c.name][n]
			fmt.Fprintf(&b, " %v; %.2f, %.2f |", x.rate, x.p50.median()/1000, x.p99.median()/1000)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "| one page appended and synced | %v; %.2f, %.2f | | | |\n\n", raw.rate, raw.p50.median()/1000, raw.p99.median()/1000)
	fmt.Fprintf(&b, "| settled operations per second (two writes each) | 1 caller | 16 | 64 |\n|---|---|---|---|\n")
	for _, c := range all {
		fmt.Fprintf(&b, "| %s |", c.name)
		for _, n := range callers[:3] {
			x := settles[c.name][n]
			fmt.Fprintf(&b, " %v; %.2f, %.2f |", x.rate, x.p50.median()/1000, x.p99.median()/1000)
		}
		b.WriteString("\n")
	}
	lite, always := redeems["SQLite"], redeems["Redis, always"]
	b.WriteString("\n| promise | bound | measured, median of rounds |\n|---|---|---|\n")
	for _, p := range []struct {
		what  string
		bound float64
		a, b  spread
	}{
		{"SQLite at 64 callers / Redis with appendfsync always at 64", 1, lite[64].rate, always[64].rate},
		{"SQLite at 1 caller / one page appended and synced", 0.6, lite[1].rate, raw.rate},
	} {
		var ratio spread
		for i := range p.a {
			ratio = append(ratio, p.a[i]/p.b[i])
		}
		fmt.Fprintf(&b, "| %s | at least %.1f | %.2f, %s |\n", p.what, p.bound, ratio.median(), verdict(ratio.median() >= p.bound))
	}
	fmt.Fprintf(&b, "\nMedians of %d rounds of %v, the least and the greatest in brackets. GOMAXPROCS %d; servers, clients and disk share one machine.\n", *rounds, *each, runtime.GOMAXPROCS(0))
	fmt.Println(b.String())
	if *write != "" {
		put(t, *write, "stores", b.String())
	}
}

func verdict(kept bool) string {
	if kept {
		return "kept"
	}
	return "**missed**"
}

// put replaces what is between the marks of a file.
func put(t *testing.T, file, mark, text string) {
	t.Helper()
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	open, end := "<!-- "+mark+" -->\n", "<!-- end of "+mark+" -->"
	before, rest, ok := strings.Cut(string(old), open)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks for %s", file, mark)
	}
	if err := os.WriteFile(file, []byte(before+open+text+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
