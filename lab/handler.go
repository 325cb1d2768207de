package lab

import (
	"bytes"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// policy is the content security policy: the page's own scripts and styles, an icon
// that is in the page itself, and nothing else from anywhere; no connection of any kind; no markup out of
// strings. The page says the same of itself, for whoever serves an export, but for
// frame-ancestors, which counts in a header only.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// headers are sent with every answer.
var headers = map[string]string{
	"Content-Security-Policy":      policy + "; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Embedder-Policy": "require-corp",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
	"Cache-Control":                "no-cache",
}

// Handler serves the page to browsers that reach it on this port by a name of their
// own machine. It refuses every other name in the Host header, so that no web site
// can point a name of its own at it (DNS rebinding), and every method but GET and
// HEAD. It is safe for concurrent use.
func Handler(port int) http.Handler {
	h := &handler{hosts: map[string]bool{}, files: map[string]file{}}
	for _, name := range []string{"127.0.0.1", "::1", "localhost"} {
		h.hosts[net.JoinHostPort(name, strconv.Itoa(port))] = true
		if port == 80 { // browsers leave it out
			h.hosts[strings.TrimSuffix(net.JoinHostPort(name, ""), ":")] = true
		}
	}
	for _, f := range files() {
		h.files["/"+f.name] = f
		if f.name == "index.html" {
			h.files["/"] = f
		}
	}
	return h
}

type handler struct {
	hosts map[string]bool
	files map[string]file
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	if !h.hosts[strings.ToLower(r.Host)] {
		http.Error(w, "foil lab answers to localhost and to loopback addresses only, with its port", http.StatusMisdirectedRequest)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "there is nothing to send here: the page works by itself", http.StatusMethodNotAllowed)
		return
	}
	f, ok := h.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.text))
}
