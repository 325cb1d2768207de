package openbao

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/foilmcp/foil/claimcheck"
)

// FuzzTransitToken: of a token there is one spelling. What is taken is written again as
// the same bytes.
func FuzzTransitToken(f *testing.F) {
	body := base64.StdEncoding.EncodeToString(make([]byte, 31))
	for _, seed := range []string{"", "vault:v1:", "vault:v1:" + body, "vault:v01:" + body, "vault:v+1:" + body, "vault:v1:" + body + "\n", "vault:v999999999:" + body, "vault:v1::" + body, "vault:v１:" + body} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		version, ok := parseTransit(token)
		if !ok {
			if version != 0 {
				t.Errorf("version %d of what is no token", version)
			}
			return
		}
		raw, err := base64.StdEncoding.DecodeString(token[strings.LastIndexByte(token, ':')+1:])
		if again := fmt.Sprintf("vault:v%d:%s", version, base64.StdEncoding.EncodeToString(raw)); err != nil || again != token || version < 1 {
			t.Errorf("%q is taken, and is written %q", token, again)
		}
	})
}

// FuzzClaim: the same for claims, whose wrapping token goes to the server.
func FuzzClaim(f *testing.F) {
	for _, seed := range []string{"", claimcheck.Prefix, claimOf("s.recordedrecordedrecorded"), claimOf("hvs.recordedrecordedrecorded"), claimOf("root"), claimOf("s.recordedrecorded recorded"), claimOf("s.recordedrecordedrecorded") + "="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, claim string) {
		token, ok := tokenOf(claim)
		if ok != (token != "") || ok && (claimOf(token) != claim || strings.ContainsAny(token, " \r\n\x00\"/")) {
			t.Errorf("%q holds %q, %v", claim, token, ok)
		}
	})
}
