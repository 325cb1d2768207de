package sdkdoor

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/attack/httpdoor"
	"github.com/foilmcp/foil/replay"
)

// TestOlderClientsSeeNoState plays the honest flow of a client of every older
// version: the SDK asks it within the call, the call acts once, and no state
// leaves the server. One of its own making is refused.
func TestOlderClientsSeeNoState(t *testing.T) {
	for _, version := range mcp.SupportedProtocolVersions() {
		if version >= httpdoor.Protocol {
			continue
		}
		t.Run(version, func(t *testing.T) {
			log := slog.New(slog.DiscardHandler)
			guard, err := foil.New(aesgcm.Ephemeral(), &foil.Options{Audience: "old", Replay: replay.NewMemory(nil), Logger: log})
			if err != nil {
				t.Fatal(err)
			}
			d := &Pipe{replicas: newReplicas(1, &Options{Logger: log}), version: version}
			server := d.serverOf(guard, attack.Alice)
			scene, err := d.Stage(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			send := func(req *attack.Request) string {
				t.Helper()
				c, err := dial(t.Context(), server)
				if err != nil {
					t.Fatal(err)
				}
				defer c.close()
				if err := c.handshake(version); err != nil {
					t.Fatal(err)
				}
				reply, err := c.call(legacyBody(req))
				if err != nil {
					t.Fatal(err)
				}
				return string(reply)
			}
			for i, call := range []attack.Call{scene.Tool, scene.Prompt, scene.Resource} {
				req := &attack.Request{Method: call.Method, Params: call.Params()}
				reply := send(req)
				if !strings.Contains(reply, `"done"`) || strings.Contains(reply, "requestState") {
					t.Errorf("%s: %s", call.Method, reply)
				}
				if n, err := scene.Executed(); err != nil || n != i+1 {
					t.Errorf("%s: acted %d times, %v", call.Method, n, err)
				}
				for _, state := range []string{"v1.AAAA", "made up"} {
					text, err := json.Marshal(state)
					if err != nil {
						t.Fatal(err)
					}
					req.Params = call.Params().After(attack.M("requestState", string(text)))
					if reply := send(req); !strings.Contains(reply, fmt.Sprintf(`"data":%s`, foil.Wire(foil.ErrInvalid).Data)) {
						t.Errorf("%s with a state of its own: %s", call.Method, reply)
					}
				}
				if n, _ := scene.Executed(); n != i+1 {
					t.Errorf("%s: a refused state acted", call.Method)
				}
			}
		})
	}
}
