package foil_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/claimcheck"
)

// What can be sealed under a MaxToken can be opened under it.
func TestLargeStates(t *testing.T) {
	b := newBench(t, func(o *foil.Options) { o.MaxToken = 16 << 20 })
	for name, state := range map[string]string{
		"1 MiB":              strings.Repeat("x", 1<<20),
		"escaped sixfold":    strings.Repeat("é", 1<<18) + strings.Repeat("\x00", 1<<18),
		"quotes and slashes": strings.Repeat(`"\`, 1<<19),
	} {
		token := b.seal(t, purge(), foil.Outgoing{State: state})
		if o, err := b.Open(ctx, purge(), token); err != nil || o.State() != state {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := foil.New(b.codec, &foil.Options{Audience: "a", Once: foil.Off, MaxToken: 16<<20 + 1}); err == nil {
		t.Error("a MaxToken that cannot be kept was taken")
	}
}

func TestSealUpToMaxToken(t *testing.T) {
	b := newBench(t, nil)
	token := b.seal(t, purge(), confirm())
	limit := func(n int) *foil.Guard {
		return b.guard(t, b.codec, func(o *foil.Options) { o.MaxToken = n })
	}
	if _, err := limit(len(token)).Seal(ctx, purge(), confirm()); err != nil {
		t.Errorf("a token of exactly MaxToken: %v", err)
	}
	if _, err := limit(len(token)-1).Seal(ctx, purge(), confirm()); err == nil {
		t.Error("a token longer than MaxToken was sealed")
	}
}

// Text that is no Unicode is nobody and nothing; it does not become a
// replacement character that others share.
func TestInvalidText(t *testing.T) {
	b := newBench(t, nil)
	for name, p := range map[string]foil.Principal{
		"client":            foil.OAuth("\xff", "i", "s"),
		"issuer":            foil.OAuth("c", "\xff", "s"),
		"subject":           foil.OAuth("c", "i", "a\xfe"),
		"CESU-8":            foil.OAuth("c", "i", "\xed\xa0\xbd\xed\xb8\x80"),
		"string":            foil.PrincipalString("\xff"),
		"nobody by OAuth":   foil.OAuth("", "", ""),
		"fixed to nobody":   foil.Fixed(""),
		"fixed to nonsense": foil.Fixed("\xff"),
		"fixed by a login":  foil.OAuth("", "fixed", "local"),
	} {
		if !p.IsZero() {
			t.Errorf("%s: a principal was made", name)
		}
	}
	for name, change := range map[string]func(*foil.Request){
		"method": func(r *foil.Request) { r.Method = "\xff" },
		"target": func(r *foil.Request) { r.Target = "\xff" },
	} {
		req := purge()
		change(&req)
		if token, err := b.Seal(ctx, req, confirm()); err == nil || token != "" {
			t.Errorf("%s: sealed", name)
		}
		if _, err := b.Open(ctx, req, b.seal(t, purge(), confirm())); !errors.Is(err, foil.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeysSetSkewAndTTL(t *testing.T) {
	b := newBench(t, nil)
	keys := plain{foil.KeyLimits{Skew: 5 * time.Second, MaxTTL: 2 * time.Minute}}
	g := b.guard(t, keys, func(o *foil.Options) { o.Once = foil.Off })
	token, err := g.Seal(ctx, purge(), confirm())
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Duration]foil.Reason{
		-6 * time.Second:                 foil.ReasonNotYetValid,
		-5 * time.Second:                 "",
		2*time.Minute - time.Millisecond: "",
		2 * time.Minute:                  foil.ReasonExpired,
	} {
		b.now = epoch.Add(at)
		if _, err := g.Open(ctx, purge(), token); foil.ReasonOf(err) != want {
			t.Errorf("at %v: %v, want %q", at, err, want)
		}
	}
	b.now = epoch.Add(-30 * time.Second)
	own := b.guard(t, keys, func(o *foil.Options) { o.Once = foil.Off; o.Skew = time.Minute })
	if _, err := own.Open(ctx, purge(), token); err != nil {
		t.Errorf("Options.Skew does not count: %v", err)
	}
}

func TestPoliciesAddToOptions(t *testing.T) {
	b := newBench(t, func(o *foil.Options) {
		o.Once = foil.Off
		o.Without = foil.BindAudience
		o.PolicyFor = func(_, target string) foil.Policy {
			if target == "odd" {
				return foil.Policy{Without: 1 << 7}
			}
			return foil.Policy{Without: foil.BindPrincipal}
		}
	})
	other := b.guard(t, b.codec, func(o *foil.Options) { o.Audience = "another" })
	token, err := other.Seal(ctx, purge(), confirm())
	if err != nil {
		t.Fatal(err)
	}
	bob := purge()
	bob.Principal = foil.OAuth("app", "https://issuer.example", "bob")
	if _, err := b.Open(ctx, bob, token); err != nil {
		t.Errorf("without audience by Options and principal by PolicyFor: %v", err)
	}
	bob.Principal = foil.Principal{}
	if _, err := b.Seal(ctx, bob, confirm()); err != nil {
		t.Errorf("nobody, where the principal is not compared: %v", err)
	}
	odd := purge()
	odd.Target = "odd"
	if _, err := b.Seal(ctx, odd, confirm()); err == nil {
		t.Error("an unknown binding was taken from PolicyFor")
	}
	for name, change := range map[string]func(*foil.Options){
		"Without":   func(o *foil.Options) { o.Without = 1 << 7 },
		"FlowLimit": func(o *foil.Options) { o.FlowLimit = -1 },
		"MaxRounds": func(o *foil.Options) { o.MaxRounds = -1 },
	} {
		o := foil.Options{Audience: "a", Once: foil.Off}
		change(&o)
		if _, err := foil.New(b.codec, &o); err == nil {
			t.Errorf("%s: a value that makes no sense was taken", name)
		}
	}
}

// odd is a codec that answers as it is told and must not be asked for the key of
// what is too long.
type odd struct {
	plain
	err error
}

func (o odd) Open(context.Context, string) ([]byte, error) { return nil, o.err }

func (o odd) KeyID(token string) string {
	if len(token) > foil.DefaultMaxToken {
		panic("a token beyond the limit is read")
	}
	return ""
}

func TestErrorsOfCodecs(t *testing.T) {
	b := newBench(t, nil)
	open := func(err error) error {
		_, got := b.guard(t, odd{err: err}, nil).Open(ctx, purge(), "x")
		return got
	}
	wantReason(t, open(foil.ErrInvalid), foil.ReasonMalformed)
	wantReason(t, open(foil.Reject(foil.ReasonTampered)), foil.ReasonTampered)
	if err := open(errDisk); !errors.Is(err, foil.ErrUnavailable) || !errors.Is(err, errDisk) || errors.Is(err, foil.ErrInvalid) {
		t.Errorf("a failure: %v", err)
	}
	_, err := b.guard(t, odd{}, nil).Open(ctx, purge(), strings.Repeat("x", 1<<20))
	wantReason(t, err, foil.ReasonTooLarge)
}

// The identity of a token that has none of its own is fixed: other replicas of
// the same ring must come to the same.
func TestAdoptedIdentity(t *testing.T) {
	var id []byte
	s := &scripted{
		use:  func(_ context.Context, got []byte, _ time.Time) (bool, error) { id = got; return true, nil },
		ping: func(context.Context) error { return nil },
	}
	b := newBench(t, nil)
	g := b.guard(t, plain{foil.KeyLimits{Interop: true}}, func(o *foil.Options) {
		o.Audience, o.NoAudience, o.AcceptUnenforcedReplicas, o.Replay = "", true, true, s
	})
	payload := pythonPayload(epoch)
	req := foil.Request{Method: foil.MethodToolsCall, Target: "purge_objects", Principal: foil.Anonymous()}
	o, err := g.Open(ctx, req, forge(payload))
	if err != nil {
		t.Fatal(err)
	}
	var want [8]byte
	binary.BigEndian.PutUint64(want[:], uint64(epoch.UnixMilli()))
	sum := sha256.Sum256([]byte(payload)) // the decoded bytes of the token
	whole := append(want[2:], sum[:10]...)
	if string(id) != string(whole) || o.Flow() != base64.RawURLEncoding.EncodeToString(whole) {
		t.Errorf("identity %x, flow %s, want %x", id, o.Flow(), whole)
	}
}

// A minting peer with an absurd clock must not take the store down for others.
func TestAbsurdExpiry(t *testing.T) {
	s := &scripted{
		use: func(_ context.Context, _ []byte, expires time.Time) (bool, error) {
			if expires.UTC().Year() > 9999 {
				return false, errDisk
			}
			return true, nil
		},
		ping: func(context.Context) error { return nil },
	}
	b := newBench(t, nil)
	g := b.guard(t, plain{foil.KeyLimits{Interop: true}}, func(o *foil.Options) {
		o.Audience, o.NoAudience, o.AcceptUnenforcedReplicas, o.Replay = "", true, true, s
	})
	req := foil.Request{Method: foil.MethodToolsCall, Target: "purge_objects", Principal: foil.Anonymous()}
	for _, exp := range []string{"253402300800", "1e300", "1.7976931348623157e308"} {
		_, payload, _ := strings.Cut(pythonPayload(epoch), `"m"`)
		if _, err := g.Open(ctx, req, forge(`{"v":1,"iat":1,"exp":`+exp+`,"m"`+payload)); err != nil && foil.ReasonOf(err) != foil.ReasonFlowExpired {
			t.Errorf("exp %s: %v", exp, err)
		}
	}
}

// The log tells an operator what to do so that somebody is known.
func TestNobodySaysWhy(t *testing.T) {
	b := newBench(t, nil)
	token := b.seal(t, purge(), confirm())
	req := purge()
	for _, p := range []foil.Principal{{}, foil.Nobody("let the verifier set the subject")} {
		b.log.Reset()
		req.Principal = p
		if !p.IsZero() {
			t.Fatal("nobody is somebody")
		}
		want := "let the verifier set the subject"
		if p == (foil.Principal{}) {
			want = "say Anonymous by name"
		}
		_, err := b.Open(ctx, req, token)
		wantReason(t, err, foil.ReasonPrincipalMissing)
		if _, err := b.Seal(ctx, req, confirm()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("seal: %v, want %q", err, want)
		}
		if n := strings.Count(b.log.String(), want); n != 2 || strings.Count(b.log.String(), "\n") != 2 {
			t.Errorf("the log tells it %d times:\n%s", n, b.log.String())
		}
	}
}

func TestBlankAudience(t *testing.T) {
	if _, err := foil.New(newBench(t, nil).codec, &foil.Options{Audience: " ", Once: foil.Off}); err == nil {
		t.Error("a blank audience was taken")
	}
}

// Plans that die with the process are lost, not dangerous: it is said.
func TestMemoryOfClaimsIsSaid(t *testing.T) {
	for _, tt := range []struct {
		codec foil.Codec
		want  bool
	}{{newBench(t, nil).codec, true}, {aesgcm.Ephemeral(), false}} {
		b := newBench(t, nil)
		b.guard(t, tt.codec, func(o *foil.Options) { o.Claims = claimcheck.NewMemory(nil) })
		if got := strings.Contains(b.log.String(), "claim checks die with this process"); got != tt.want {
			t.Errorf("said %v, want %v:\n%s", got, tt.want, b.log.String())
		}
	}
}
