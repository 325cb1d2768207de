package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Every vector of the Python SDK, through the command line. The state is
// compared as raw JSON text, for its lone surrogates.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("../../testdata/vectors/python-sdk.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name      string          `json:"name"`
		Keys      []string        `json:"keys_hex"`
		Now       json.Number     `json:"now_unix"`
		Method    string          `json:"method"`
		Params    string          `json:"params_json"`
		Principal json.RawMessage `json:"principal"`
		Audience  json.RawMessage `json:"audience"`
		Token     string          `json:"token"`
		Claims    json.RawMessage `json:"claims_json"`
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			args := []string{"token", "open", "--at", c.Now.String()}
			for _, k := range c.Keys {
				args = append(args, "--secret-hex", k)
			}
			call := func(op, last string, args []string) (string, int) {
				in := fmt.Sprintf(`{"method":%q,"params":%s,"principal":%s,"audience":%s,%s}`, c.Method, c.Params, c.Principal, c.Audience, last)
				var out, errs bytes.Buffer
				args[1] = op
				code := run(args, strings.NewReader(in), &out, &errs)
				return strings.TrimSpace(out.String()), code
			}
			var claims string
			if err := json.Unmarshal(c.Claims, &claims); err != nil {
				t.Fatal(err)
			}
			got, code := call("open", `"token":"`+c.Token+`"`, args)
			if code != exitOK || !strings.HasPrefix(got, `{"ok":true,"state":"`) || !strings.Contains(got, `,"claims":`+claims) {
				t.Fatalf("open: exit %d: %s\nwant claims %s", code, got, claims)
			}
			if ambiguous := strings.Contains(got, `"ambiguous":true`); ambiguous != strings.Contains(c.Name, "duplicate") {
				t.Errorf("ambiguous %v", ambiguous)
			}
			sealed, code := call("seal", `"state":"again"`, args)
			if code != exitOK {
				t.Fatalf("seal: exit %d: %s", code, sealed)
			}
			var reply struct{ Token string }
			if err := json.Unmarshal([]byte(sealed), &reply); err != nil {
				t.Fatal(err)
			}
			if got, code := call("open", `"token":"`+reply.Token+`"`, args); code != exitOK || !strings.HasPrefix(got, `{"ok":true,"state":"again"`) {
				t.Errorf("own token: exit %d: %s", code, got)
			}
		})
	}
}
