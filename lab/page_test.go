package lab_test

import (
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/foilmcp/foil/internal/chrometest"
	"github.com/foilmcp/foil/lab"
)

// serve serves the page as foil lab does, and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	site := httptest.NewUnstartedServer(nil)
	site.Config.Handler = lab.Handler(site.Listener.Addr().(*net.TCPAddr).Port)
	site.Start()
	t.Cleanup(site.Close)
	return site.URL + "/"
}

// bare is a file of the page that shows and computes nothing: from there a test
// imports the modules that it is about.
const bare = "style.css"

// settled waits until the page has computed its first table.
const settled = `await (await import(location.origin + "/main.js")).ready;`

// TestInChromium runs all that needs a browser in one, since starting it takes long.
func TestInChromium(t *testing.T) {
	browser := chrometest.Start(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *chrometest.Browser)
	}{
		{"page", testPage},
		{"key", testKey},
		{"link", testLink},
		{"keyboard", testKeyboard},
		{"export", testExport},
		{"canonical", testCanonical},
		{"vectors", testVectors},
		{"reasons", testReasons},
		{"tokens", testTokens},
		{"taken away", testTakenAway},
		{"accessibility", testAccessibility},
		{"verdicts", testVerdicts},
		{"screenshots", testScreenshots},
		{"measure", testMeasure},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, browser) })
	}
}

// quiet checks that a page asked nobody else for anything and had nothing to say.
func quiet(t *testing.T, tab *chrometest.Tab, site string) {
	t.Helper()
	for _, url := range tab.Requests() {
		if !strings.HasPrefix(url, site) && !strings.HasPrefix(url, "data:") {
			t.Errorf("the page asked for %s", url)
		}
	}
	for _, text := range tab.Trouble() {
		t.Errorf("the page says: %s", text)
	}
}

// testPage uses all that there is on the page: nothing may leave it, and nothing
// may go wrong.
func testPage(t *testing.T, browser *chrometest.Browser) {
	site := serve(t)
	tab := browser.Open(t, site)
	chrometest.Eval[any](tab, settled)
	loaded := len(tab.Requests())
	if loaded < 20 {
		t.Errorf("%d requests were seen, fewer than there are files", loaded)
	}
	got := chrometest.Eval[struct {
		On, Off, Replayed, Row, Bits, Honest string
		Minted                               []string
	}](tab, `
		const { ready } = await import(location.origin + "/main.js");
		await ready;
		const $ = (id) => document.getElementById(id);
		const until = async (what, test) => {
			for (let i = 0; i < 2000; i++) { if (test()) return; await new Promise((r) => setTimeout(r, 20)); }
			throw new Error("waited in vain for " + what);
		};
		const out = { On: $("summary").textContent };
		$("mint").click();
		await until("a token", () => $("minted").children.length === 2);
		$("new-key").click();
		await until("the old tokens to end", () => $("key-said").textContent !== "" && $("minted").children.length === 3);
		out.Minted = [...$("minted").children].map((li) => li.textContent);
		$("bind-once").click();
		await until("single use off", () => /Single use is off/.test($("summary").textContent));
		out.Off = $("summary").textContent;
		$("replay").click();
		await until("the timeline", () => /Five/.test($("replay-said").textContent));
		out.Replayed = $("replay-said").textContent;
		const open = (name) => document.querySelector('[data-row="' + name + '"] button').click();
		open("replay-5");
		out.Row = $("more-replay-5").textContent;
		open("tamper-each-part");
		const row = document.querySelector('[data-row="tamper-each-part"]');
		const before = row.querySelector(".forms").textContent;
		$("more-tamper-each-part").querySelector("button").click();
		await until("all bits", () => row.querySelector(".forms").textContent !== before);
		out.Bits = row.querySelector(".forms").textContent;
		$("codec-h1").click();
		await until("readable claims", () => /anybody reads/.test($("token-claims").textContent));
		$("all-off").click();
		await until("all off", () => /Everything is off/.test($("summary").textContent));
		out.Honest = [...document.querySelectorAll(".honest .verdict")].map((e) => e.textContent).join();
		$("demo").click();
		await until("a demo key", () => /demo key is in force/.test($("summary").textContent));
		$("all-on").click();
		await until("all on", () => /Everything is on/.test($("summary").textContent));
		return out;
	`)
	for _, test := range []struct{ what, got, want string }{
		{"everything on", got.On, "All 19 attacks are stopped."},
		{"single use off", got.Off, "3 of 19 attacks get through: replay-5, decline-then-accept, fork."},
		{"replayed", got.Replayed, "Five passes."},
		{"the row", got.Row, "The server deleted 5 times."},
		{"the honest rows with everything off", got.Honest, "✓accepted,✓accepted"},
	} {
		if !strings.Contains(got.Honest, "✓accepted") || !strings.Contains(test.got, test.want) {
			t.Errorf("%s: %q, want %q", test.what, test.got, test.want)
		}
	}
	if len(got.Minted) != 3 || !strings.HasSuffix(got.Minted[0], "opens") || !strings.Contains(got.Minted[1], "opens no more (unknown_key)") || !strings.Contains(got.Minted[2], "opens no more (unknown_key)") {
		t.Errorf("after a new key: %q", got.Minted)
	}
	if bits := strings.TrimSuffix(strings.ReplaceAll(got.Bits, ",", ""), " tries"); len(bits) < 4 {
		t.Errorf("all bits are %q", got.Bits)
	}
	quiet(t, tab, site)
	if after := tab.Requests()[loaded:]; len(after) > 0 {
		t.Errorf("after the page had loaded it asked for %q", after)
	}
}

// testKey looks for a way to the key.
func testKey(t *testing.T, browser *chrometest.Browser) {
	site := serve(t)
	tab := browser.Open(t, site)
	got := chrometest.Eval[struct {
		Keys    int
		Leaks   []string
		Stored  []string
		Usages  []string
		Renewed bool
	}](tab, settled+`
		const { session } = await import(location.origin + "/main.js");
		const out = { Keys: 0, Leaks: [], Stored: [], Usages: [] };
		const seen = new Set();
		const walk = async (value, path) => {
			if (value === null || typeof value !== "object" || seen.has(value)) return;
			seen.add(value);
			if (value instanceof CryptoKey) {
				out.Keys++;
				out.Usages.push([...value.usages].sort().join("+"));
				if (value.extractable) out.Leaks.push(path + " is extractable");
				for (const format of ["raw", "jwk", "pkcs8", "spki"]) {
					try { await crypto.subtle.exportKey(format, value); out.Leaks.push(path + " can be exported as " + format); } catch {}
				}
				return;
			}
			if (ArrayBuffer.isView(value) && value.byteLength >= 32) out.Leaks.push(path + " holds " + value.byteLength + " bytes");
			for (const [name, inner] of Object.entries(value)) await walk(inner, path + "." + name);
		};
		await walk(session, "session");
		out.Stored = [...Object.keys(localStorage), ...Object.keys(sessionStorage), document.cookie, ...(await indexedDB.databases()).map((d) => d.name), ...(await caches.keys())].filter(Boolean);
		const before = session.key;
		await session.renew();
		out.Renewed = session.key !== before && session.demo === null;
		return out;
	`)
	if got.Keys != 2 || len(got.Leaks) > 0 || len(got.Stored) > 0 || !got.Renewed {
		t.Errorf("%+v", got)
	}
	for _, u := range got.Usages {
		if u != "decrypt+encrypt" && u != "sign+verify" {
			t.Errorf("a key may %s", u)
		}
	}
	// Only a demo key shows its secret, and only as long as it is in force.
	demo := chrometest.Eval[[]any](tab, `
		const { session } = await import(location.origin + "/main.js");
		await session.useDemo();
		const on = session.demo.length;
		await session.endDemo();
		return [on, session.demo];
	`)
	if len(demo) != 2 || demo[0] != 64.0 || demo[1] != nil {
		t.Errorf("demo key: %v", demo)
	}
	quiet(t, tab, site)
}

// testLink checks that a link restores all switches, in a tab that knows nothing.
func testLink(t *testing.T, browser *chrometest.Browser) {
	site := serve(t)
	const state = `return [...document.querySelectorAll("input[id^=bind-]")].filter((b) => !b.checked).map((b) => b.id.slice(5)).join() + "/" + document.querySelector("input[name=codec]:checked").value;`
	first := browser.Open(t, site)
	link := chrometest.Eval[string](first, settled+`
		for (const name of ["principal", "expiry", "once"]) document.getElementById("bind-" + name).click();
		document.getElementById("codec-h1").click();
		return location.href;
	`)
	if !strings.HasPrefix(link, site+"#") {
		t.Fatalf("the link is %q: more than a fragment, or less", link)
	}
	second := browser.Open(t, link)
	if got := chrometest.Eval[string](second, settled+state); got != "principal,expiry,once/h1" {
		t.Errorf("%s restores %q", link, got)
	}
	quiet(t, second, site)
	odd := map[string]string{
		"#off=integrity,nonsense,&codec=x": "integrity/v1",
		"#%%%=&off":                        "/v1",
		"#off=once&off=principal":          "once/v1",
		"#off=__proto__,constructor":       "/v1",
		"":                                 "/v1",
	}
	read := chrometest.Eval[map[string]string](second, `
		const { fromLink, toLink } = await import(location.origin + "/ui/state.js");
		const said = (c) => Object.keys(c.policy).filter((n) => !c.policy[n]).join() + "/" + c.format;
		return Object.fromEntries(Object.keys(args[0]).map((link) => {
			const c = fromLink(link);
			return [link, said(c) === said(fromLink(toLink(c))) ? said(c) : "not the same when written again"];
		}));
	`, odd)
	if !maps.Equal(read, odd) {
		t.Errorf("links restore %q, want %q", read, odd)
	}
}

// testKeyboard works the page without a mouse.
func testKeyboard(t *testing.T, browser *chrometest.Browser) {
	site := serve(t)
	tab := browser.Open(t, site)
	chrometest.Eval[any](tab, settled)
	focused := func() string {
		return chrometest.Eval[string](tab, `const e = document.activeElement; return e.id || e.textContent.trim() || e.tagName;`)
	}
	visited := map[string]bool{}
	for range 120 {
		tab.Keys("\t")
		at := focused()
		if visited[at] && at == "Skip to the attacks" {
			break // once around
		}
		visited[at] = true
		switch at {
		case "bind-audience":
			tab.Keys(" ")
		case "tamper-each-part":
			tab.Keys("\r")
		}
	}
	for _, want := range []string{"Skip to the attacks", "theme", "all-off", "bind-integrity", "codec-v1", "bind-once", "honest", "no-state", "replay", "token-text", "mint", "new-key", "go-text", "demo"} {
		if !visited[want] {
			t.Errorf("the tab key never gets to %s", want)
		}
	}
	got := chrometest.Eval[string](tab, `return document.getElementById("bind-audience").checked + " " + document.querySelector('[data-row="tamper-each-part"] button').getAttribute("aria-expanded") + " " + document.getElementById("more-tamper-each-part").hidden;`)
	if got != "false true false" {
		t.Errorf("after keys: %s", got)
	}
	quiet(t, tab, site)
}

// testExport serves an export from another kind of server.
func testExport(t *testing.T, browser *chrometest.Browser) {
	dir := t.TempDir()
	if err := lab.Export(dir); err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(http.StripPrefix("/some/where/", http.FileServer(http.Dir(dir))))
	t.Cleanup(site.Close)
	url := site.URL + "/some/where/"
	tab := browser.Open(t, url)
	got := chrometest.Eval[string](tab, `
		await (await import(location.href + "main.js")).ready;
		return document.getElementById("summary").textContent;`)
	if !strings.Contains(got, "All 19 attacks are stopped.") {
		t.Errorf("it says %q", got)
	}
	quiet(t, tab, url)
}
