package foil_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/replay"
)

// outage is a store that is away until it is told to be back.
type outage struct {
	scripted
	away  atomic.Bool
	pings atomic.Int32
}

func newOutage() *outage {
	o := &outage{}
	answer := func() error {
		if o.away.Load() {
			return errDisk
		}
		return nil
	}
	o.use = func(context.Context, []byte, time.Time) (bool, error) { err := answer(); return err == nil, err }
	o.ping = func(context.Context) error { o.pings.Add(1); return answer() }
	o.away.Store(true)
	return o
}

// knock presents a good token to a store that is away, so that it is known.
func (o *outage) knock(t *testing.T, b *bench) (good string) {
	t.Helper()
	good = b.seal(t, purge(), confirm())
	if _, err := b.Open(ctx, purge(), good); !errors.Is(err, foil.ErrUnavailable) {
		t.Fatalf("a store that is away: %v", err)
	}
	return good
}

// What one client finds out is for all: its hanging up must not decide.
func TestPingOutlivesItsCaller(t *testing.T) {
	o := newOutage()
	b := newBench(t, func(opts *foil.Options) { opts.Replay = o })
	good := o.knock(t, b)
	o.away.Store(false)
	o.ping = func(ctx context.Context) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, ok := ctx.Deadline(); !ok {
			t.Error("a ping without a deadline")
		}
		return nil
	}
	b.now = b.now.Add(time.Second)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, _ = b.Open(gone, purge(), "v1.forged")
	if _, err := b.Open(ctx, purge(), good); err != nil {
		t.Errorf("after a caller that had gone away pinged: %v", err)
	}
}

func TestClockSetBackWhileDown(t *testing.T) {
	o := newOutage()
	b := newBench(t, func(opts *foil.Options) { opts.Replay = o })
	good := o.knock(t, b)
	o.away.Store(false)
	b.now = b.now.Add(-30 * time.Second)
	if _, err := b.Open(ctx, purge(), good); err != nil {
		t.Errorf("the store is back and the clock was set back: %v", err)
	}
}

// Of many callers at once one asks the store; the others have their answer.
func TestOnePingAtATime(t *testing.T) {
	o := newOutage()
	b := newBench(t, func(opts *foil.Options) { opts.Replay = o })
	o.knock(t, b)
	entered, leave := make(chan struct{}), make(chan struct{})
	o.ping = func(context.Context) error {
		o.pings.Add(1)
		close(entered)
		<-leave
		return errDisk
	}
	b.now = b.now.Add(time.Second)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = b.Open(ctx, purge(), "v1.forged") })
	<-entered
	for range 8 {
		if _, err := b.Open(ctx, purge(), "v1.forged"); !errors.Is(err, foil.ErrUnavailable) {
			t.Errorf("while another asks: %v", err)
		}
	}
	close(leave)
	wg.Wait()
	if n := o.pings.Load(); n != 1 {
		t.Errorf("%d pings, want 1", n)
	}
}

// A store that cannot be asked stays known as down until a call of it worked.
func TestDownWithoutPing(t *testing.T) {
	o := newOutage()
	b := newBench(t, func(opts *foil.Options) { opts.Replay = struct{ replay.Store }{o} })
	good := o.knock(t, b)
	for range 3 {
		b.now = b.now.Add(time.Second)
		// One presentation in a second is let through, here a forged one.
		_, err := b.Open(ctx, purge(), "v1.forged")
		wantReason(t, err, foil.ReasonMalformed)
		for _, token := range []string{"v1.forged", good} {
			if _, err := b.Open(ctx, purge(), token); !errors.Is(err, foil.ErrUnavailable) {
				t.Errorf("within the second: %v", err)
			}
		}
	}
	o.away.Store(false)
	b.now = b.now.Add(time.Second)
	if _, err := b.Open(ctx, purge(), good); err != nil {
		t.Errorf("the store is back: %v", err)
	}
	_, err := b.Open(ctx, purge(), "v1.forged")
	wantReason(t, err, foil.ReasonMalformed)
}

// A codec whose backend is away gives every token one answer, and is asked once a
// second whether it is back.
func TestCodecAway(t *testing.T) {
	b := newBench(t, nil)
	c := &awayCodec{Codec: b.codec}
	b.Guard = b.guard(t, c, nil)
	good := b.seal(t, purge(), confirm())
	c.away = errDisk
	for range 3 {
		for _, token := range []string{good, "v1.forged", ""} {
			if _, err := b.Open(ctx, purge(), token); !errors.Is(err, foil.ErrUnavailable) {
				t.Errorf("%.9q: %v", token, err)
			}
		}
	}
	if c.opens != 1 || c.pings != 0 {
		t.Errorf("%d opens, %d pings within the second", c.opens, c.pings)
	}
	b.now = b.now.Add(time.Second)
	_, _ = b.Open(ctx, purge(), good)
	if c.opens != 1 || c.pings != 1 {
		t.Errorf("%d opens, %d pings after it", c.opens, c.pings)
	}
	c.away = nil
	b.now = b.now.Add(time.Second)
	_, err := b.Open(ctx, purge(), "v1.forged")
	wantReason(t, err, foil.ReasonMalformed) // a refusal is an answer
	if _, err := b.Open(ctx, purge(), good); err != nil {
		t.Error(err)
	}
}

// A token that is refused without asking the backend does not show that the
// backend is back, although it was presented before the outage was known.
func TestRefusalIsNoSignOfLife(t *testing.T) {
	b := newBench(t, nil)
	c := &awayCodec{Codec: b.codec}
	b.Guard = b.guard(t, c, nil)
	good := b.seal(t, purge(), confirm())
	c.before = func() {
		c.before, c.away = nil, errDisk
		if _, err := b.Open(ctx, purge(), good); !errors.Is(err, foil.ErrUnavailable) {
			t.Errorf("a codec that is away: %v", err)
		}
		c.away = nil
	}
	_, err := b.Open(ctx, purge(), "v1.forged")
	wantReason(t, err, foil.ReasonMalformed)
	if _, err := b.Open(ctx, purge(), good); !errors.Is(err, foil.ErrUnavailable) {
		t.Errorf("a refusal is taken for an answer of the backend: %v", err)
	}
}

type awayCodec struct {
	foil.Codec
	away         error
	before       func() // called at the start of Open
	opens, pings int
}

func (c *awayCodec) Open(ctx context.Context, token string) ([]byte, error) {
	c.opens++
	if c.before != nil {
		c.before()
	}
	if c.away != nil {
		return nil, c.away
	}
	return c.Codec.Open(ctx, token)
}

func (c *awayCodec) Ping(context.Context) error { c.pings++; return c.away }

// While a fleet moves, the backend of one format says nothing of the other.
func TestMigrationAway(t *testing.T) {
	for _, down := range []string{"new", "old"} {
		t.Run(down, func(t *testing.T) {
			b := newBench(t, nil)
			codecs := map[string]*prefixed{
				"new": {awayCodec: awayCodec{Codec: b.codec}, prefix: "n1."},
				"old": {awayCodec: awayCodec{Codec: b.codec}, prefix: "o1."},
			}
			m, err := foil.Migrate(codecs["new"], codecs["old"], b.now.Add(time.Hour), &foil.MigrateOptions{Now: b.clock})
			if err != nil {
				t.Fatal(err)
			}
			g := b.guard(t, m, func(o *foil.Options) { o.Once = foil.Off })
			token, err := g.Seal(ctx, purge(), confirm())
			if err != nil {
				t.Fatal(err)
			}
			tokens := map[string]string{"new": token, "old": "o1." + strings.TrimPrefix(token, "n1.")}
			codecs[down].away = errDisk
			for range 3 {
				for name, token := range tokens {
					_, err := g.Open(ctx, purge(), token)
					if name == down && !errors.Is(err, foil.ErrUnavailable) || name != down && err != nil {
						t.Errorf("the %s format is away, and a token of the %s: %v", down, name, err)
					}
				}
				if _, err := g.Open(ctx, purge(), tokens[down][:3]+"forged"); !errors.Is(err, foil.ErrUnavailable) {
					t.Errorf("a forged token of the format that is away: %v", err)
				}
				b.now = b.now.Add(2 * time.Second)
			}
			_, err = g.Open(ctx, purge(), "neither")
			wantReason(t, err, foil.ReasonMalformed)
		})
	}
}

// prefixed is a codec under another prefix.
type prefixed struct {
	awayCodec
	prefix string
}

func (p *prefixed) Prefix() string { return p.prefix }

func (p *prefixed) Seal(ctx context.Context, payload []byte, expires time.Time) (string, error) {
	token, err := p.awayCodec.Codec.Seal(ctx, payload, expires)
	return p.prefix + strings.TrimPrefix(token, "v1."), err
}

func (p *prefixed) Open(ctx context.Context, token string) ([]byte, error) {
	return p.awayCodec.Open(ctx, "v1."+strings.TrimPrefix(token, p.prefix))
}
