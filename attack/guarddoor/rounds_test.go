package guarddoor_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"regexp"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/attack"
)

// lax is a codec that makes a Guard lax in the rounds after the first: it changes
// what is sealed or opened then.
type lax struct {
	foil.Codec
	seal, open func(payload []byte) []byte
}

func (lax) Encrypts() bool { return true }

var later = regexp.MustCompile(`"rnd":([2-9]|1[0-9])`)

func (c lax) Seal(ctx context.Context, payload []byte, expires time.Time) (string, error) {
	if c.seal != nil && later.Match(payload) {
		payload = c.seal(payload)
	}
	return c.Codec.Seal(ctx, payload, expires)
}

func (c lax) Open(ctx context.Context, token string) ([]byte, error) {
	payload, err := c.Codec.Open(ctx, token)
	if err == nil && c.open != nil && later.Match(payload) {
		payload = c.open(payload)
	}
	return payload, err
}

// TestNamesRounds shows that a Guard that is lax in later rounds only turns the rows
// red of what it is lax about, whatever they are in the first round.
func TestNamesRounds(t *testing.T) {
	put := func(claim, value string) func([]byte) []byte {
		re := regexp.MustCompile(claim)
		return func(payload []byte) []byte { return re.ReplaceAllLiteral(payload, []byte(value)) }
	}
	unspent := func(payload []byte) []byte {
		id := make([]byte, 16)
		_, _ = rand.Read(id) // it never fails
		return put(`"jti":"[^"]*"`, `"jti":"`+base64.RawURLEncoding.EncodeToString(id)+`"`)(payload)
	}
	for _, test := range []struct {
		name string
		lax  lax
		want []string
	}{
		{"strict", lax{}, nil},
		{"audience", lax{open: put(`,"aud":"[^"]*"`, `,"aud":"`+service+`"`)}, []string{"other-service", "second-round"}},
		{"single use", lax{open: unspent}, []string{
			"replay-5", "replay-other-replica", "replay-after-restart", "decline-then-accept", "fork", "answers-changed", "lost-answer", "second-round"}},
		{"method", lax{open: put(`"m":"[^"]*"`, `"m":"tools/call"`)}, []string{"other-method"}},
		{"limit of rounds", lax{open: put(`"rnd":[0-9]+`, `"rnd":2`)}, []string{"too-many-rounds", "second-round"}},
		{"flow", lax{seal: put(`"fid":"[^"]*"`, `"fid":"AAAAAAAAAAAAAAAAAAAAAA"`)}, []string{"second-round"}},
		{"deadline", lax{seal: put(`"dl":[0-9.]+`, `"dl":9999999999.5`)}, []string{"second-round"}},
		{"audience when sealing", lax{seal: put(`,"aud":"[^"]*"`, "")}, []string{"fork", "second-round"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := site(t, attack.Mode{Once: foil.Redeem}, func(c foil.Codec) foil.Codec {
				x := test.lax
				x.Codec = c
				return x
			})
			rows := attack.Named("honest", "other-user", "late", "other-method", "other-service", "replay-5", "replay-other-replica", "replay-after-restart",
				"decline-then-accept", "fork", "answers-changed", "lost-answer", "too-many-rounds", "second-round")
			wantRed(t, run(t, cfg, rows), test.want)
		})
	}
}
