package guarddoor_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/attack/guarddoor"
)

// talker is a codec that tells what it must not.
type talker struct {
	foil.Codec
	tell func(payload []byte, token string)
}

func (talker) Encrypts() bool { return true }

func (c talker) Seal(ctx context.Context, payload []byte, expires time.Time) (string, error) {
	token, err := c.Codec.Seal(ctx, payload, expires)
	c.tell(payload, token)
	return token, err
}

// gossip is a door whose server writes a member of every request into its log.
type gossip struct {
	*guarddoor.Door
	member string
	log    *slog.Logger
}

func (d gossip) Send(ctx context.Context, req *attack.Request) (*attack.Reply, error) {
	value, _ := req.Params.Get(d.member)
	d.log.Debug("asked", "with", value)
	return d.Door.Send(ctx, req)
}

// TestNamesRedaction shows that the battery finds what a server lets slip into
// its log, at whatever level and in whatever form.
func TestNamesRedaction(t *testing.T) {
	for _, test := range []struct {
		name, want string
		tell       func(l *slog.Logger, payload []byte, token string)
	}{
		{"nothing", attack.Holds, func(l *slog.Logger, _ []byte, _ string) { l.Debug("sealed", "bytes", 7) }},
		{"token", "a token is in the log", func(l *slog.Logger, _ []byte, token string) { l.Debug("sealed", "token", token) }},
		{"part of a token", "a token is in the log", func(l *slog.Logger, _ []byte, token string) { l.Debug("sealed", "token", token[10:50]+"…") }},
		{"bytes of a token", "the inside of a token is in the log", func(l *slog.Logger, _ []byte, token string) {
			raw, _ := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "v1."))
			l.Debug(fmt.Sprintf("sealed %x", raw))
		}},
		{"subject", "a bearer token is in the log", func(l *slog.Logger, _ []byte, _ string) { l.Debug("sealed", "for", "alice") }},
		{"issuer", "a principal is in the log", func(l *slog.Logger, _ []byte, _ string) { l.Debug("sealed", "iss", "https://login.example") }},
		{"bearer", "a bearer token is in the log", func(l *slog.Logger, _ []byte, _ string) { l.Debug("sealed", "for", attack.BobSameClient.Bearer) }},
		{"claim", "a claim check is in the log", func(l *slog.Logger, _ []byte, _ string) { l.Debug("sealed", "claim", "foil-claim.x") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			var cfg *attack.Config
			cfg = site(t, attack.Mode{Once: foil.Redeem}, func(c foil.Codec) foil.Codec {
				return talker{c, func(payload []byte, token string) {
					test.tell(cfg.Logs.(*attack.Journal).Logger(), payload, token)
				}}
			})
			for _, r := range run(t, cfg, attack.Named("leak")) {
				if r.Got != test.want {
					t.Errorf("%s: got %q, want %q", r.Name, r.Got, test.want)
				}
			}
		})
	}
	for member, want := range map[string]string{"arguments": "an argument is in the log", "inputResponses": "an answer is in the log"} {
		t.Run(member, func(t *testing.T) {
			cfg := site(t, attack.Mode{Once: foil.Redeem}, nil)
			cfg.Door = gossip{cfg.Door.(*guarddoor.Door), member, cfg.Logs.(*attack.Journal).Logger()}
			for _, r := range run(t, cfg, attack.Named("leak")) {
				if r.Got != want {
					t.Errorf("%s: got %q, want %q", r.Name, r.Got, want)
				}
			}
		})
	}
	t.Run("key", func(t *testing.T) {
		cfg := site(t, attack.Mode{Once: foil.Redeem}, nil)
		cfg.Logs.(*attack.Journal).Logger().Debug("loaded", "ring", base64.RawURLEncoding.EncodeToString(cfg.Minter.Secrets[0]))
		for _, r := range run(t, cfg, attack.Named("leak")) {
			if r.Got != "a key is in the log" {
				t.Errorf("%s: got %q", r.Name, r.Got)
			}
		}
	})
}

// TestLeakElsewhere shows that the attack does not hold by reading another log.
func TestLeakElsewhere(t *testing.T) {
	cfg := site(t, attack.Mode{Once: foil.Redeem}, nil)
	cfg.Logs = &attack.Journal{}
	for _, r := range run(t, cfg, attack.Named("leak")) {
		if r.OK {
			t.Errorf("%s: %s", r.Name, r.Got)
		}
	}
}
