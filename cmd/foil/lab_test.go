package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/chrometest"
	"github.com/foilmcp/foil/lab"
)

// TestLabAgreesWithToken types into this command what the page says to type: a token
// that was minted in the page opens here, and one that was sealed here opens there.
func TestLabAgreesWithToken(t *testing.T) {
	browser := chrometest.Start(t)
	site := httptest.NewUnstartedServer(nil)
	site.Config.Handler = lab.Handler(site.Listener.Addr().(*net.TCPAddr).Port)
	site.Start()
	t.Cleanup(site.Close)
	tab := browser.Open(t, site.URL)

	type shown struct{ Open, Seal string }
	demo := chrometest.Eval[shown](tab, `
		await (await import(location.origin + "/main.js")).ready;
		globalThis.until = async (test) => {
			for (let i = 0; i < 2000 && !test(); i++) await new Promise((r) => setTimeout(r, 20));
			if (!test()) throw new Error("waited in vain");
		};
		const $ = (id) => document.getElementById(id);
		if (!$("demo-on").hidden || $("open-text").textContent !== "") throw new Error("a secret is shown unasked");
		$("demo").click();
		await until(() => !$("demo-on").hidden && /demo key is in force/.test($("summary").textContent));
		return { Open: $("open-text").textContent, Seal: $("seal-text").textContent };
	`)
	signed := chrometest.Eval[shown](tab, `
		const $ = (id) => document.getElementById(id);
		const before = $("open-text").textContent;
		$("codec-h1").click();
		await until(() => /Tokens are signed/.test($("summary").textContent));
		return { Open: $("open-text").textContent, Seal: $("seal-text").textContent };
	`)
	for format, command := range map[string]shown{"h1": signed, "v1": demo} {
		// The newest tokens are signed; the choice goes back to what the command is for.
		chrometest.Eval[any](tab, `document.getElementById("codec-" + args[0]).click(); document.getElementById("paste").value = "";`, format)
		out, code := shell(t, command.Open)
		if code != exitOK || !strings.HasPrefix(out, `{"ok":true,"state":"{\"step\":1}"`) {
			t.Errorf("%s: open: exit %d: %s", format, code, out)
		}
		out, code = shell(t, command.Seal)
		if code != exitOK || !strings.HasPrefix(out, `{"token":"`+format+".") {
			t.Fatalf("%s: seal: exit %d: %s", format, code, out)
		}
		said := chrometest.Eval[string](tab, `
			const $ = (id) => document.getElementById(id);
			$("paste").value = args[0];
			$("paste-result").textContent = "";
			$("paste-form").requestSubmit();
			await until(() => $("paste-result").textContent !== "");
			return $("paste-result").textContent;
		`, out)
		if said != `It opens. Its state is {"step":1}` {
			t.Errorf("%s: the page says %q of %s", format, said, out)
		}
	}
	for _, text := range tab.Trouble() {
		t.Errorf("the page says: %s", text)
	}
}

// shell runs one of the page's commands: words of no special meaning, and a here
// document that is taken as it is.
func shell(t *testing.T, command string) (stdout string, code int) {
	t.Helper()
	line, rest, ok := strings.Cut(command, " <<'END'\n")
	input, _, ended := strings.Cut(rest, "\nEND\n")
	words := strings.Fields(line)
	if !ok || !ended || len(words) < 3 || words[0] != "foil" || strings.ContainsAny(line, "'\"\\$`") {
		t.Fatalf("no command that a shell would run: %q", command)
	}
	var out, errs bytes.Buffer
	code = run(words[1:], strings.NewReader(input+"\n"), &out, &errs)
	if code != exitOK {
		t.Log(errs.String())
	}
	return out.String(), code
}

// labServer starts foil lab with more arguments and returns the page's address, what
// it says on standard error once it has ended, and what ends it as an interrupt does.
func labServer(t *testing.T, args ...string) (url string, end func() (stderr string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	root := newRootCmd()
	out := &lines{ready: make(chan string, 1)}
	var errs bytes.Buffer
	root.SetArgs(append([]string{"lab", "--listen", "127.0.0.1:0"}, args...))
	root.SetOut(out)
	root.SetErr(&errs)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	end = sync.OnceValue(func() string {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("interrupted: %v", err)
		}
		return errs.String()
	})
	select {
	case url = <-out.ready:
	case err := <-ended:
		t.Fatalf("it ended: %v", err)
	}
	t.Cleanup(func() { end() })
	return url, end
}

// TestLabServes starts the command, looks at the page, and interrupts it.
func TestLabServes(t *testing.T) {
	url, end := labServer(t)
	client := &http.Client{Timeout: time.Minute}
	for host, want := range map[string]int{"": http.StatusOK, "rebound.example": http.StatusMisdirectedRequest} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			req.Host = host
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("host %q: %d, want %d", host, resp.StatusCode, want)
		}
	}
	if said := end(); said != "" {
		t.Errorf("it says %q", said)
	}
	client.CloseIdleConnections()
	if resp, err := client.Get(url); err == nil {
		_ = resp.Body.Close()
		t.Error("it serves on after the interrupt")
	}
}

// TestLabOpensABrowser has one in the path that notes what it is told to open.
func TestLabOpensABrowser(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems start a browser in other ways")
	}
	dir := t.TempDir()
	told := filepath.Join(dir, "told")
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte("#!/bin/sh\necho \"$1\" >"+told+".new && mv "+told+".new "+told+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/bin:/usr/bin")
	url, end := labServer(t, "--open")
	for {
		text, err := os.ReadFile(told)
		if err == nil {
			if got := strings.TrimSpace(string(text)); got != url {
				t.Errorf("the browser is told to open %q, not %q", got, url)
			}
			break
		}
		select {
		case <-t.Context().Done():
			t.Fatal("no browser was started")
		case <-time.After(10 * time.Millisecond):
		}
	}
	if said := end(); said != "" {
		t.Errorf("it says %q", said)
	}

	// Without one the page is served all the same.
	t.Setenv("PATH", t.TempDir())
	url, end = labServer(t, "--open")
	if resp, err := http.Get(url); err != nil {
		t.Error(err)
	} else {
		_ = resp.Body.Close()
	}
	if said := end(); !strings.Contains(said, "open the address above yourself") {
		t.Errorf("without a browser it says %q", said)
	}
}

// lines tells the first line that is written.
type lines struct {
	ready chan string
	told  bool
}

func (l *lines) Write(p []byte) (int, error) {
	if !l.told {
		l.told = true
		l.ready <- strings.TrimSpace(string(p))
	}
	return len(p), nil
}

// An address that others reach is refused. The context has ended, so that what listens
// all the same ends at once, without an error.
func TestLabListensOnLoopbackOnly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, address := range []string{"0.0.0.0:0", ":8400", "[::]:0", "192.0.2.1:0", "lab.example:0", "127.0.0.1", ""} {
		root := newRootCmd()
		root.SetArgs([]string{"lab", "--listen", address})
		err := root.ExecuteContext(ctx)
		var exit *exitError
		if !errors.As(err, &exit) || exit.code != exitUsage {
			t.Errorf("%q: %v", address, err)
		}
	}
}
