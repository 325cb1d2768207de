package aesgcm_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/keyring"
)

// A vector is one case that the Python SDK's own code sealed.
type vector struct {
	Name      string   `json:"name"`
	Keys      []string `json:"keys_hex"`
	Now       float64  `json:"now_unix"`
	TTL       float64  `json:"ttl_s"`
	Method    string   `json:"method"`
	Params    string   `json:"params_json"`
	Principal *string  `json:"principal"`
	Audience  *string  `json:"audience"`
	Target    string   `json:"target"`
	Token     string   `json:"token"`
	Claims    string   `json:"claims_json"`

	state string // with its lone surrogates, which encoding/json would lose
}

func vectors(t *testing.T) []vector {
	t.Helper()
	text, err := os.ReadFile("../testdata/vectors/python-sdk.json")
	if err != nil {
		t.Fatal(err)
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	out := make([]vector, len(raw))
	for i, r := range raw {
		if err := json.Unmarshal(r, &out[i]); err != nil {
			t.Fatal(err)
		}
		out[i].state = member(t, r, "state")
	}
	if len(out) < 24 {
		t.Fatalf("%d vectors, want 24", len(out))
	}
	return out
}

func member(t *testing.T, object []byte, name string) (s string) {
	t.Helper()
	err := canonjson.Object(object, nil, func(key string, value []byte) bool {
		if key == name {
			var err error
			if s, _, err = canonjson.DecodeString(value); err != nil {
				t.Fatal(err)
			}
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (v *vector) guard(t *testing.T, opts foil.Options) *foil.Guard {
	t.Helper()
	var secrets [][]byte
	for _, k := range v.Keys {
		b, err := hex.DecodeString(k)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, b)
	}
	ring, err := keyring.FromSecrets(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	if opts.Now == nil {
		opts.Now = func() time.Time { return unix(v.Now) }
	}
	codec, err := aesgcm.New(keyring.Fixed(ring), &aesgcm.Options{Now: opts.Now})
	if err != nil {
		t.Fatal(err)
	}
	opts.Logger = slog.New(slog.DiscardHandler)
	opts.Once = foil.Off
	if opts.AmbiguousArguments == foil.Default {
		opts.AmbiguousArguments = foil.Allow
	}
	opts.NoAudience = v.Audience == nil
	if v.Audience != nil {
		opts.Audience = *v.Audience
	}
	g, err := foil.New(codec, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func unix(s float64) time.Time {
	whole, frac := math.Modf(s)
	return time.Unix(int64(whole), int64(math.Round(frac*1e9)))
}

func (v *vector) request(t *testing.T) foil.Request {
	t.Helper()
	req := foil.Request{Method: v.Method, Target: v.Target, Principal: foil.Anonymous()}
	if v.Principal != nil {
		req.Principal = foil.PrincipalString(*v.Principal)
	}
	var params struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal([]byte(v.Params), &params); err != nil {
		t.Fatal(err)
	}
	req.Arguments = params.Arguments
	return req
}

func TestPythonTokensOpen(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			o, err := v.guard(t, foil.Options{}).Open(context.Background(), v.request(t), v.Token)
			if err != nil {
				t.Fatal(err)
			}
			if o.State() != v.state {
				t.Errorf("state %q, want %q", o.State(), v.state)
			}
			if o.Round() != 1 {
				t.Errorf("round %d, want 1", o.Round())
			}
			_, err = v.guard(t, foil.Options{AmbiguousArguments: foil.Refuse}).Open(context.Background(), v.request(t), v.Token)
			if ambiguous := strings.Contains(v.Name, "duplicate"); errors.Is(err, foil.ErrAmbiguous) != ambiguous || err != nil && !ambiguous {
				t.Errorf("as a server is set: %v", err)
			}
			late := v.guard(t, foil.Options{Now: func() time.Time { return unix(v.Now + v.TTL) }})
			if _, err := late.Open(context.Background(), v.request(t), v.Token); foil.ReasonOf(err) != foil.ReasonExpired {
				t.Errorf("at exp: %v, want %v", err, foil.ReasonExpired)
			}
		})
	}
}

// What we mint begins with just the claims that the Python SDK mints.
func TestMintsPythonClaims(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			g := v.guard(t, foil.Options{})
			token, err := g.Seal(context.Background(), v.request(t), foil.Outgoing{State: v.state})
			if err != nil {
				t.Fatal(err)
			}
			got := claimsOf(t, &v, token)
			want := []byte(v.Claims)
			// Times are cut to milliseconds, which Python's are not.
			for _, name := range []string{"iat", "exp"} {
				g, gerr := strconv.ParseFloat(rawMember(t, got, name), 64)
				w, werr := strconv.ParseFloat(rawMember(t, want, name), 64)
				if gerr != nil || werr != nil || g != math.Floor(w*1000)/1000 {
					t.Errorf("claim %s = %v, want %v cut to milliseconds", name, g, w)
				}
			}
			for _, name := range []string{"v", "m", "t", "a", "s", "aud"} {
				if g, w := rawMember(t, got, name), rawMember(t, want, name); g != w {
					t.Errorf("claim %s = %s, want %s", name, g, w)
				}
			}
			if (rawMember(t, got, "p") == "") != (v.Principal == nil) {
				t.Errorf("claim p = %s with principal %v", rawMember(t, got, "p"), v.Principal != nil)
			}
			if _, err := g.Open(context.Background(), v.request(t), token); err != nil {
				t.Errorf("own token: %v", err)
			}
		})
	}
}

func claimsOf(t *testing.T, v *vector, token string) []byte {
	t.Helper()
	var secrets [][]byte
	for _, k := range v.Keys {
		b, _ := hex.DecodeString(k)
		secrets = append(secrets, b)
	}
	ring, err := keyring.FromSecrets(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	c, err := aesgcm.New(keyring.Fixed(ring), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Open(context.Background(), token)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func rawMember(t *testing.T, object []byte, name string) (raw string) {
	t.Helper()
	if err := canonjson.Object(object, nil, func(key string, value []byte) bool {
		if key == name {
			raw = string(value)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return raw
}

// The tokens of the other SDKs are not of this format, under the same secret.
func TestForeignFormatsAreMalformed(t *testing.T) {
	text, err := os.ReadFile("../testdata/vectors/sdk-tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.FromSecrets([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	codec, err := aesgcm.New(keyring.Fixed(ring), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for sdk, raw := range all {
		var fields map[string]any
		if json.Unmarshal(raw, &fields) != nil {
			continue // the note
		}
		for _, name := range []string{"token", "rs1", "rs2"} {
			token, ok := fields[name].(string)
			if !ok {
				continue
			}
			payload, err := codec.Open(ctx, token)
			switch {
			case sdk == "python":
				if err != nil || string(payload) != fields["payload"].(string) {
					t.Errorf("python: payload %s, %v", payload, err)
				}
				if kid := codec.KeyID(token); kid != fields["kid_hex"].(string) {
					t.Errorf("python: kid %s, want %s", kid, fields["kid_hex"])
				}
			case foil.ReasonOf(err) != foil.ReasonMalformed && foil.ReasonOf(err) != foil.ReasonUnknownKey:
				t.Errorf("%s %s: %v, want a refusal", sdk, name, err)
			}
		}
	}
}
