//go:build unix

package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/foilmcp/foil/store/dsn"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A worker is one replica: an MCP server of its own process, with the keys and the
// store of all.
type worker struct {
	*pause
	ledger   *pausing
	claims   claimcheck.Store
	provider string
}

// tick is how often a worker looks whether it was held up, and stalled how long a
// halt must be to be told. It is less than a heartbeat may be late.
const (
	tick    = 20 * time.Millisecond
	stalled = 400 * time.Millisecond
)

func work() error {
	ctx := context.Background()
	w := &worker{pause: newPause(), provider: os.Getenv("FOIL_CRASH_PROVIDER")}
	store, err := openStore(ctx, os.Getenv("FOIL_CRASH_DSN"), os.Getenv("FOIL_CRASH_KEYS"))
	if err != nil {
		return err
	}
	lease, err := time.ParseDuration(os.Getenv("FOIL_CRASH_LEASE"))
	if err != nil {
		return err
	}
	w.claims = store.Claims()
	w.ledger = &pausing{
		Store: store.Ledger(), pause: w.pause, slow: w.slow,
		flows: make(map[[ledger.IDLen]byte]string), fences: make(map[string]uint64),
	}
	ring, err := keyring.OpenFile(filepath.Join(os.Getenv("FOIL_CRASH_KEYS"), "ring.json")).Load(ctx)
	if err != nil {
		return err
	}
	codec, err := aesgcm.New(keyring.Fixed(ring), nil)
	if err != nil {
		return err
	}
	guard, err := foil.New(codec, &foil.Options{
		Audience: "crash", Once: foil.Settle, Ledger: w.ledger, Claims: w.claims, Lease: lease,
		StoreTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler),
		PolicyFor: func(_, target string) foil.Policy { return foil.Policy{Resumable: target == steps} },
	})
	if err != nil {
		return err
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "crash", Version: "1"}, nil)
	w.add(s, whole, w.whole)
	w.add(s, steps, w.steps)
	s.AddReceivingMiddleware(w.inside)
	s.AddReceivingMiddleware(mcpsdk.Protect(guard, &mcpsdk.Options{Issuer: "https://login.example"}))
	s.AddReceivingMiddleware(w.outside)
	go w.watch()
	login := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}, nil)
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	listening(httptest.NewServer(login(h)).URL, w.goOn)
	return nil
}

// openStore opens the store that all share, sealed with the storage ring in keys.
func openStore(ctx context.Context, name, keys string) (dsn.Store, error) {
	ring, err := keyring.OpenFile(filepath.Join(keys, "storage.json")).Load(ctx)
	if err != nil {
		return nil, err
	}
	sealer, err := atrest.New(keyring.Fixed(ring))
	if err != nil {
		return nil, err
	}
	return dsn.Open(ctx, name, &dsn.Options{AtRest: sealer, Migrate: true, Timeout: time.Minute})
}

// watch tells the provider when this process was held up for so long that its lease
// may have lapsed, so that a trial can be told apart from a machine that is too busy.
func (w *worker) watch() {
	last := time.Now()
	for range time.Tick(tick) {
		w.slow(time.Since(last))
		last = time.Now()
	}
}

func (w *worker) slow(took time.Duration) {
	if took >= stalled {
		_, _ = tell(context.Background(), w.provider, event{Kind: "stall", PID: os.Getpid()})
	}
}

type arguments struct {
	Trial string `json:"trial"`
}

func (w *worker) event(ctx context.Context, kind string, req *mcp.CallToolRequest) event {
	var a arguments
	_ = json.Unmarshal(req.Params.Arguments, &a)
	o := mcpsdk.Opened(ctx)
	return event{Kind: kind, Trial: a.Trial, Flow: o.Flow(), Fence: w.ledger.fence(o.Flow()), PID: os.Getpid()}
}

func question() *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: "Do it?", RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{"ok": map[string]any{"type": "boolean"}},
	}}
}

// add adds a tool that asks once.
func (w *worker) add(s *mcp.Server, name string, do func(context.Context, *mcp.CallToolRequest) ([]string, error)) {
	s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if _, status := mcpsdk.Answer(ctx, req, "confirm", question()); status != foil.Answered {
			plan := make([]string, parts)
			for i := range plan {
				plan[i] = stepName(i)
			}
			raw, err := json.Marshal(plan)
			if err != nil {
				return nil, err
			}
			claim, err := w.claims.Issue(ctx, raw, time.Hour)
			if err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"confirm": question()}, RequestState: claim}, nil
		}
		receipts, err := do(ctx, req)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(receipts)
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(raw)}}}, nil
	})
}

// whole has one effect, and no step.
func (w *worker) whole(ctx context.Context, req *mcp.CallToolRequest) ([]string, error) {
	receipt, err := w.effect(ctx, req, 0, stepName(0))
	return []string{receipt}, err
}

// steps does what the plan says, each part in a step.
func (w *worker) steps(ctx context.Context, req *mcp.CallToolRequest) (receipts []string, err error) {
	o := mcpsdk.Opened(ctx)
	raw, err := o.Claims().Redeem(ctx, req.Params.RequestState)
	if err != nil {
		return nil, err
	}
	var plan []string
	if err := json.Unmarshal(raw, &plan); err != nil {
		return nil, err
	}
	for i, name := range plan {
		receipt, err := o.Execution().Step(ctx, name, func(ctx context.Context) ([]byte, error) {
			receipt, err := w.effect(ctx, req, i, name)
			return []byte(receipt), err
		})
		if err != nil {
			return nil, err
		}
		receipts = append(receipts, string(receipt))
	}
	return receipts, nil
}

func (w *worker) effect(ctx context.Context, req *mcp.CallToolRequest, i int, name string) (string, error) {
	e := w.event(ctx, "effect", req)
	e.Step, e.Key = name, mcpsdk.Opened(ctx).IdempotencyKey(name, "provider")
	w.here(beforeEffect(i), e.Flow)
	// A process that is too slow calls the provider all the same: that is what
	// the key is for.
	receipt, err := tell(context.WithoutCancel(ctx), w.provider, e)
	if err == nil && receipt == "" {
		err = errors.New("the provider gave no receipt")
	}
	w.here(afterEffect(i), e.Flow)
	return receipt, err
}
