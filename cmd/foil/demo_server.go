package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/examples/storagejanitor"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/foilmcp/foil/signed"
)

// What the demo's server offers beside the storage janitor, so that there is
// another tool, prompt and resource to take a token to.
const (
	demoAudience    = "foil-demo"
	demoTagTool     = "tag_objects"
	demoPrompt      = storagejanitor.PurgeTool
	demoOtherPrompt = "explain_purge"
	demoResource    = "demo://reports/usage"
	demoOtherReport = "demo://reports/costs"
	demoPath        = "/mcp"
	demoMetrics     = "/metrics"
)

// demoStoreTimeout is how long a replica waits for the store. It is short, so
// that the attack which takes the store away does not take long.
const demoStoreTimeout = 2 * time.Second

// A demoSetup is what one replica needs to know. All replicas share the files.
type demoSetup struct {
	Ring    string `json:"ring"`    // the key document
	Storage string `json:"storage"` // the key document of what the store keeps
	Store   string `json:"store"`   // as in --store
	Bucket  string `json:"bucket"`  // the directory
	Once    string `json:"once"`

	Without string `json:"without"` // bindings, as foil.ParseBindings reads them
	Codec   string `json:"codec"`   // as in --codec; aesgcm if empty
}

// A demoSite is the MCP server of one replica.
type demoSite struct {
	http.Handler
	closers []func() error
}

// Close ends the site; its requests must have ended.
func (s *demoSite) Close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}

// newDemoSite builds the server as a user of the library would: keys, store,
// Guard, janitor, and one line that protects it all.
func newDemoSite(ctx context.Context, setup *demoSetup, log *slog.Logger) (site *demoSite, err error) {
	site = &demoSite{}
	defer func() {
		if err != nil {
			err = errors.Join(err, site.Close())
		}
	}()
	once, err := foil.ParseOnce(setup.Once)
	if err != nil {
		return site, err
	}
	without, err := foil.ParseBindings(setup.Without)
	if err != nil {
		return site, err
	}
	keys, err := keyring.NewRefresher(ctx, keyring.OpenFile(setup.Ring), &keyring.RefresherOptions{Logger: log})
	if err != nil {
		return site, err
	}
	site.closers = append(site.closers, keys.Close)
	codec, err := demoCodec(setup.Codec, keys, log)
	if err != nil {
		return site, err
	}
	storage, err := keyring.NewRefresher(ctx, keyring.OpenFile(setup.Storage), &keyring.RefresherOptions{Logger: log})
	if err != nil {
		return site, err
	}
	site.closers = append(site.closers, storage.Close)
	store, err := setup.open(ctx, storage, false)
	if err != nil {
		return site, err
	}
	site.closers = append(site.closers, store.Close)
	observer, metrics, err := newDemoObserver(store, log)
	if err != nil {
		return site, err
	}
	guard, err := foil.New(codec, &foil.Options{
		Audience: demoAudience, Replay: store.Replay(), Ledger: store.Ledger(), Claims: store.Claims(), Once: once, Without: without,
		// Nobody is one of those who attack.
		SettleAnonymous: true,
		StoreTimeout:    demoStoreTimeout, Logger: log, Observer: observer,
	})
	if err != nil {
		return site, err
	}
	plans := &storagejanitor.Options{Bucket: setup.Bucket, Claims: store.Claims(), Logger: log}
	if e, ok := codec.(foil.Encrypter); !ok || !e.Encrypts() {
		// A claim check must not be where the client can read it.
		plans.Claims, plans.PlanInState = nil, true
	}
	janitor, err := storagejanitor.New(plans)
	if err != nil {
		return site, err
	}
	site.closers = append(site.closers, janitor.Close)

	server := mcp.NewServer(&mcp.Implementation{Name: "foil-demo", Version: version().Version}, &mcp.ServerOptions{Logger: log})
	janitor.Register(server)
	addDemoOthers(server)
	server.AddReceivingMiddleware(mcpsdk.Protect(guard, &mcpsdk.Options{Principal: demoPrincipal, Logger: log}))

	mux := http.NewServeMux()
	mux.Handle(demoPath, demoLogin(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, Logger: log})))
	mux.Handle(demoMetrics, metrics)
	site.Handler = mux
	return site, nil
}

// demoCodec makes the codec of that name.
func demoCodec(name string, keys keyring.Current, log *slog.Logger) (foil.Codec, error) {
	switch name {
	case "", "aesgcm":
		return aesgcm.New(keys, &aesgcm.Options{Logger: log})
	case "signed":
		return signed.New(keys, nil)
	}
	return nil, fmt.Errorf("there is no codec %q", name)
}

// demoLogin turns away bearer tokens that nobody has. No credentials at all is
// somebody too, for the demo: nobody.
func demoLogin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := demoLoginOf(r.Header); err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "unknown bearer token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func demoLoginOf(h http.Header) (attack.Login, error) {
	text := h.Get("Authorization")
	bearer, ok := strings.CutPrefix(text, "Bearer ")
	if text != "" && (!ok || bearer == "") {
		return attack.Login{}, errors.New("credentials that are no bearer token")
	}
	login, ok := attack.LoginFor(bearer)
	if !ok {
		return attack.Login{}, errors.New("unknown bearer token")
	}
	return login, nil
}

// demoPrincipal is a static table instead of a login server. Without
// credentials the principal is Anonymous by name, so that a dropped login
// reaches the Guard.
func demoPrincipal(_ context.Context, req mcp.Request) (foil.Principal, error) {
	extra := req.GetExtra()
	if extra == nil {
		return foil.Principal{}, errors.New("not an HTTP request")
	}
	login, err := demoLoginOf(extra.Header)
	return login.Principal, err
}

// addDemoOthers adds a tool with arguments of any form, two prompts and two
// resources. All ask before they answer.
func addDemoOthers(server *mcp.Server) {
	server.AddTool(&mcp.Tool{
		Name: demoTagTool, Description: "Tags objects. Takes any arguments; it asks and then only says what it would do.",
		InputSchema: map[string]any{"type": "object"},
	}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		q := demoQuestion("Tag these objects?")
		if !demoAgreed(ctx, req, q) {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{demoKey: q}, RequestState: "the state of the tags"}, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "The objects would be tagged now."}}}, nil
	})
	for _, name := range []string{demoPrompt, demoOtherPrompt} {
		server.AddPrompt(&mcp.Prompt{
			Name: name, Description: "A text about a purge, after a question.",
			Arguments: []*mcp.PromptArgument{{Name: "prefix"}, {Name: "older_than"}},
		}, func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			q := demoQuestion("Write about this purge?")
			if !demoAgreed(ctx, req, q) {
				return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{demoKey: q}, RequestState: "the state of the prompt " + name}, nil
			}
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{
				Role: "user", Content: &mcp.TextContent{Text: "Explain what the purge would delete."},
			}}}, nil
		})
	}
	for _, uri := range []string{demoResource, demoOtherReport} {
		server.AddResource(&mcp.Resource{
			URI: uri, Name: strings.TrimPrefix(uri, "demo://"), Description: "A report, after a question.",
		}, func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			q := demoQuestion(fmt.Sprintf("Read %s?", uri))
			if !demoAgreed(ctx, req, q) {
				return &mcp.ReadResourceResult{
					Contents:      []*mcp.ResourceContents{}, // nil is an error to clients of older protocols
					InputRequests: mcp.InputRequestMap{demoKey: q}, RequestState: "the state of the report",
				}, nil
			}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "text/plain", Text: "All is well."}}}, nil
		})
	}
}

const demoKey = "confirm"

func demoQuestion(text string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: "form", Message: text, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{demoKey: map[string]any{"type": "boolean"}}, "required": []string{demoKey},
	}}
}

// demoAgreed reports whether the person has agreed to just this question.
// Whatever else they said, the question is asked again.
func demoAgreed(ctx context.Context, req mcp.Request, q *mcp.ElicitParams) bool {
	answer, status := mcpsdk.Answer(ctx, req, demoKey, q)
	if status != foil.Answered {
		return false
	}
	a, ok := answer.(*mcp.ElicitResult)
	return ok && a.Action == "accept" && a.Content[demoKey] == true
}
