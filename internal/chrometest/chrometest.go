// Package chrometest opens pages in a real Chromium for tests, and keeps what they
// ask the network for and what they write to the console.
package chrometest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long one step may take. It is far more than any takes, also on a
// machine that is busy with other things.
const patience = 3 * time.Minute

// names are those under which Chromium is installed.
var names = []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome"}

// A Browser is a Chromium with a profile of its own.
type Browser struct{ ctx context.Context }

// Start starts Chromium and ends it with the test. Without one the test is skipped,
// with word of how to get it, and fails where CI=true.
func Start(t *testing.T) *Browser {
	t.Helper()
	path := find()
	if path == "" {
		const help = "Chromium is not installed; get it with: apt-get install chromium"
		if os.Getenv("CI") == "true" {
			t.Fatal(help)
		}
		t.Skip(help)
	}
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.WSURLReadTimeout(patience))
	if os.Getuid() == 0 {
		opts = append(opts, chromedp.NoSandbox) // it refuses to run as root with one
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc, chromedp.WithErrorf(t.Logf))
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return &Browser{ctx}
}

func find() string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// A Tab is a page in a profile of its own.
type Tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	requests []string
	trouble  []string
}

// Open opens a page and waits until it has loaded. The tab closes with the test.
func (b *Browser) Open(t *testing.T, url string) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	tab := &Tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, tab.hear); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	tab.Go(url)
	return tab
}

// hear notes what matters of the events.
func (tab *Tab) hear(event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		tab.requests = append(tab.requests, e.Request.URL)
	case *network.EventWebSocketCreated:
		tab.requests = append(tab.requests, e.URL)
	case *runtime.EventConsoleAPICalled:
		text, _ := json.Marshal(e.Args) // it came as JSON
		tab.trouble = append(tab.trouble, fmt.Sprintf("console.%s: %s", e.Type, text))
	case *runtime.EventExceptionThrown:
		text, _ := json.Marshal(e.ExceptionDetails)
		tab.trouble = append(tab.trouble, "uncaught: "+string(text))
	case *log.EventEntryAdded:
		tab.trouble = append(tab.trouble, fmt.Sprintf("log, %s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	}
}

// Requests returns the URLs that the page has asked for so far.
func (tab *Tab) Requests() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return slices.Clone(tab.requests)
}

// Trouble returns what the page, or the browser about it, has written to the console
// so far, and the exceptions that nobody caught.
func (tab *Tab) Trouble() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return slices.Clone(tab.trouble)
}

// do runs steps, and ends the test if one fails.
func (tab *Tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		tab.t.Fatalf("%s: %v", what, err)
	}
}

// Go goes to a page and waits until it has loaded.
func (tab *Tab) Go(url string) {
	tab.t.Helper()
	tab.do("go to "+url, chromedp.Navigate(url))
}

// Reload loads the page anew.
func (tab *Tab) Reload() {
	tab.t.Helper()
	tab.do("reload", chromedp.Reload())
}

// Size sets the size of the viewport in CSS pixels.
func (tab *Tab) Size(width, height int64) {
	tab.t.Helper()
	tab.do("resize", chromedp.EmulateViewport(width, height))
}

// Prefer sets media features, as prefers-color-scheme, for the pages in this tab.
func (tab *Tab) Prefer(features map[string]string) {
	tab.t.Helper()
	p := emulation.SetEmulatedMediaParams{}
	for name, value := range features {
		p.Features = append(p.Features, &emulation.MediaFeature{Name: name, Value: value})
	}
	tab.do("set media features", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, p)
		return err
	}))
}

// Keys types keys, as a person does who has no mouse; see package kb of chromedp for
// those that are no characters.
func (tab *Tab) Keys(keys string) {
	tab.t.Helper()
	tab.do("type", chromedp.KeyEvent(keys))
}

// Screenshot returns a picture of the whole page, as PNG.
func (tab *Tab) Screenshot() []byte {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		tab.t.Fatalf("screenshot: %v", err)
	}
	return png
}

// Eval runs the body of an async function in the page, with the arguments as args,
// and returns what it returns. Both ways values travel as JSON.
func Eval[T any](tab *Tab, body string, args ...any) T {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	text, err := json.Marshal(args)
	if err != nil {
		tab.t.Fatal(err)
	}
	if args == nil {
		text = []byte("[]")
	}
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T]("(async (...args) => {"+body+"})(..."+string(text)+")", chromedp.EvalAwaitPromise))
	if err != nil {
		tab.t.Fatalf("in the page: %v", err)
	}
	return v
}
