package openbao

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/foilmcp/foil/claimcheck"
)

// wrapKind marks what was wrapped here, so that a token that wraps something else
// hands out nothing.
const wrapKind = "foil/claim/v1"

// maxWrap is the longest ttl of a claim.
const maxWrap = 32 * 24 * time.Hour

// ClaimsOptions are the options of [OpenClaims]; nil means the defaults.
type ClaimsOptions struct {
	// MaxPayload is the length of the longest payload; a longer one is
	// claimcheck.ErrTooLarge. Zero means claimcheck.DefaultMaxPayloadBytes.
	MaxPayload int
}

// Claims parks payloads behind response-wrapping tokens of the server, which gives
// each out once. It implements [claimcheck.Store] and is safe for concurrent use.
//
// It differs from the other stores:
//
//   - A payload is handed out exactly once, whoever asks, so that an answer that gets
//     lost takes the payload with it. A Guard therefore refuses Claims with
//     Once: Settle, whose operations may need their plan again.
//   - A redemption is never repeated by the client.
//   - Revoking is redeeming and throwing away: it needs no right to revoke tokens.
//   - Nothing bounds how many claims are parked but the server's own quotas.
//   - A snapshot that is restored brings spent wrapping tokens back, and nothing of
//     foil's knows of it. After a restore let the longest ttl pass before any server
//     of yours redeems, or use another store.
//
// One redemption writes a token, its lease and its index away: about a hundred times
// what Redis writes for one.
type Claims struct {
	c    *Client
	most int
}

var (
	_ claimcheck.Store  = (*Claims)(nil)
	_ claimcheck.Pinger = (*Claims)(nil)
)

// OpenClaims returns the claims of a server. Its client needs the roles "wrapper", to
// issue, and "redeemer", to redeem and revoke.
func OpenClaims(c *Client, opts *ClaimsOptions) (*Claims, error) {
	cl := &Claims{c: c, most: claimcheck.DefaultMaxPayloadBytes}
	if opts != nil && opts.MaxPayload != 0 {
		cl.most = opts.MaxPayload
	}
	if cl.most < 1 || cl.most > 16<<20 {
		return nil, errors.New("openbao: ClaimsOptions.MaxPayload must be 1 byte to 16 MiB")
	}
	return cl, nil
}

type wrapped struct {
	Kind    string `json:"foil"`
	Payload string `json:"payload"`
}

// Issue implements [claimcheck.Store]. ttl is rounded up to a whole second.
func (cl *Claims) Issue(ctx context.Context, payload []byte, ttl time.Duration) (string, error) {
	switch {
	case ttl <= 0 || ttl > maxWrap:
		return "", fmt.Errorf("openbao: ttl of a claim must be more than nothing and at most %v", maxWrap)
	case len(payload) > cl.most:
		return "", claimcheck.ErrTooLarge
	}
	const op = "wrap a payload"
	a, err := cl.c.do(ctx, &request{
		op: op, method: "POST", path: "sys/wrapping/wrap", wrap: ttl,
		body: wrapped{wrapKind, base64.StdEncoding.EncodeToString(payload)},
	})
	if err != nil {
		return "", err
	}
	var doc struct {
		Wrap *struct {
			Token string `json:"token"`
		} `json:"wrap_info"`
	}
	if json.Unmarshal(a.body, &doc) != nil || doc.Wrap == nil || !wrappingToken(doc.Wrap.Token) {
		return "", errAnswer(op, a)
	}
	return claimOf(doc.Wrap.Token), nil
}

// A claim is the prefix and the wrapping token in base64url, so that it is one word.
func claimOf(token string) string {
	return claimcheck.Prefix + base64.RawURLEncoding.EncodeToString([]byte(token))
}

// tokenOf returns the wrapping token in a claim, of which there is one spelling.
func tokenOf(claim string) (token string, ok bool) {
	text, ok := strings.CutPrefix(claim, claimcheck.Prefix)
	if !ok || len(text) > 256 {
		return "", false
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != text || !wrappingToken(string(raw)) {
		return "", false
	}
	return string(raw), true
}

// wrappingToken reports whether s looks like a service token, "s." or "hvs." and
// letters, perhaps with the ID of a namespace behind another dot.
func wrappingToken(s string) bool {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(s, "hv"), "s.")
	if !ok || len(rest) < 16 || len(rest) > 160 {
		return false
	}
	for _, c := range []byte(rest) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// Redeem implements [claimcheck.Store], but for one thing: the same by does not get
// the payload again. If an error other than claimcheck.ErrRedeemed comes back the
// payload may be gone.
func (cl *Claims) Redeem(ctx context.Context, claim, by string) ([]byte, error) {
	if _, err := claimcheck.ByKey(by); err != nil {
		return nil, err
	}
	return cl.unwrap(ctx, claim)
}

func (cl *Claims) unwrap(ctx context.Context, claim string) ([]byte, error) {
	const op = "unwrap a payload"
	if err := ctx.Err(); err != nil {
		return nil, &Error{Op: op, cause: err}
	}
	token, ok := tokenOf(claim)
	if !ok {
		return nil, claimcheck.ErrRedeemed
	}
	a, err := cl.c.do(ctx, &request{op: op, method: "POST", path: "sys/wrapping/unwrap", body: map[string]string{"token": token}, once: true})
	if spent(err) {
		return nil, claimcheck.ErrRedeemed
	}
	if err != nil {
		return nil, err
	}
	var doc struct {
		Data *wrapped `json:"data"`
	}
	if a.status == http.StatusNoContent || json.Unmarshal(a.body, &doc) != nil || doc.Data == nil || doc.Data.Kind != wrapKind {
		// Nothing was wrapped, or not by Issue: it is no claim.
		return nil, claimcheck.ErrRedeemed
	}
	payload, err := base64.StdEncoding.DecodeString(doc.Data.Payload)
	if err != nil {
		return nil, claimcheck.ErrRedeemed
	}
	return payload, nil
}

// spent reports whether an error of unwrapping says that the token is used up, has
// ended or never was one. Of callers at the same moment the server tells some so in
// the words of an internal error.
func spent(err error) bool {
	e := as(err)
	if e == nil {
		return false
	}
	switch e.Status {
	case http.StatusBadRequest:
		return e.said("wrapping token is not valid or does not exist")
	case http.StatusInternalServerError:
		return e.said("fully used already") || e.said("invalid token entry provided for use count decrementing") ||
			e.said("no information found; wrapping token")
	}
	return false
}

// Revoke implements [claimcheck.Store]: it redeems the claim and drops the payload.
func (cl *Claims) Revoke(ctx context.Context, claim string) error {
	if _, err := cl.unwrap(ctx, claim); err != nil && !errors.Is(err, claimcheck.ErrRedeemed) {
		return err
	}
	return nil
}

// Ping implements [claimcheck.Pinger]. It writes nothing.
func (cl *Claims) Ping(ctx context.Context) error { return cl.c.Ping(ctx) }

// IdempotentRedeem implements [claimcheck.IdempotentRedeemer]; it reports false.
func (cl *Claims) IdempotentRedeem() bool { return false }

// Format keeps what is inside out of every verb.
func (cl *Claims) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("openbao.Claims")) }
