package conformance_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/foilmcp/foil"
)

// A message is a tools/call as the suite sends it; the hop fills in an empty
// bearer.
type message struct {
	tool, bearer, args, state string
}

// call posts m and returns the result or the error.
func call(t *testing.T, url string, m message) (result, failure json.RawMessage) {
	t.Helper()
	params := map[string]any{"name": m.tool, "arguments": json.RawMessage(m.args), "_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]any{"name": "test", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{}},
	}}
	if m.state != "" {
		params["requestState"] = m.state
		params["inputResponses"] = map[string]any{"confirm": map[string]any{"action": "accept", "content": map[string]any{"ok": true}}}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": m.tool,
	} {
		req.Header.Set(k, v)
	}
	if m.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+m.bearer)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSpace(string(all))
	if _, event, ok := strings.Cut(text, "data: "); ok {
		text = event
	}
	var doc struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal([]byte(text), &doc); err != nil || (doc.Result == nil) == (doc.Error == nil) {
		t.Fatalf("%d %s: %v", res.StatusCode, all, err)
	}
	return doc.Result, doc.Error
}

// TestEveryBindingIsOn shows, without the suite, that its server is protected in
// full: what a state carries, and that each way to bend it is refused.
func TestEveryBindingIsOn(t *testing.T) {
	const tool = "test_input_required_result_request_state"
	srv := protect(t, foil.Allow)
	result, failure := call(t, srv.url, message{tool: tool, args: "{}"})
	var asked struct{ RequestState string }
	if err := json.Unmarshal(result, &asked); err != nil {
		t.Fatalf("%s%s: %v", result, failure, err)
	}
	payload, err := srv.codec.Open(t.Context(), asked.RequestState)
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	for _, claim := range []string{"exp", "m", "t", "a", "ax", "aud", "p", "jti", "fid", "rnd", "dl", "k"} {
		if claims[claim] == nil {
			t.Errorf("the state carries no claim %q", claim)
		}
	}

	good := message{tool: tool, args: "{}", state: asked.RequestState}
	refused := func(what, reason string, m message) {
		t.Helper()
		if result, failure := call(t, srv.url, m); failure == nil {
			t.Errorf("%s: got %s, want a refusal", what, result)
		}
		if all := srv.log.refusals(); len(all) == 0 || all[len(all)-1] != m.tool+" "+reason {
			t.Errorf("%s: refusals are %q, want the last for %s", what, all, reason)
		}
	}
	bent := good
	bent.bearer = "mallory#1"
	refused("other user", "principal", bent)
	bent = good
	bent.tool = "test_input_required_result_tampered_state"
	refused("other tool", "target", bent)
	bent = good
	bent.args = `{"now":1}`
	refused("other arguments", "arguments", bent)

	result, failure = call(t, srv.url, good)
	if !strings.Contains(string(result), "state-ok") {
		t.Fatalf("honest retry: %s%s", result, failure)
	}
	refused("again", "replayed", good)
	if n := len(srv.log.refusals()); n != 4 {
		t.Errorf("%d refusals in the log, want 4", n)
	}
}
