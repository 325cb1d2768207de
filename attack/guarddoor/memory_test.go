package guarddoor_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/attack"
)

// TestBoundedMemory sends the requests of absurd size, at three sizes each. What
// they make the server allocate is bounded by a constant times what was sent,
// they are refused, a line in the log is all that stays of them, and the honest
// retry is as good as before.
func TestBoundedMemory(t *testing.T) {
	const (
		// perByte covers what this door itself does with a request: it writes
		// it, copies it, and takes it apart into members that it copies.
		perByte = 16
		// perCall is for what does not depend on the request.
		perCall = 64 << 10
		// perLog is for the line in the log.
		perLog = 2 << 10
	)
	argument := func(raw string) func(attack.Members) attack.Members {
		return func(args attack.Members) attack.Members { return args.After(attack.M("x", raw)) }
	}
	for _, test := range []struct {
		name  string
		token func(token string, n int) string // what is presented in its place
		args  func(n int) func(attack.Members) attack.Members
	}{
		{name: "oversize", token: func(token string, n int) string { return token + strings.Repeat("A", n) }},
		{name: "oversize line feeds", token: func(_ string, n int) string { return strings.Repeat("\n", n/2) }},
		{name: "deep arrays", args: func(n int) func(attack.Members) attack.Members {
			return argument(strings.Repeat("[", n/2) + strings.Repeat("]", n/2))
		}},
		{name: "deep objects", args: func(n int) func(attack.Members) attack.Members {
			return argument(strings.Repeat(`{"a":`, n/6) + "1" + strings.Repeat("}", n/6))
		}},
		{name: "long-number", args: func(n int) func(attack.Members) attack.Members { return argument(strings.Repeat("9", n)) }},
		{name: "long fraction", args: func(n int) func(attack.Members) attack.Members { return argument("0." + strings.Repeat("1", n)) }},
		{name: "long exponent", args: func(n int) func(attack.Members) attack.Members { return argument("1e" + strings.Repeat("1", n)) }},
		{name: "great exponent", args: func(n int) func(attack.Members) attack.Members { return argument("1e1234567890") }},
		{name: "ambiguous", args: func(n int) func(attack.Members) attack.Members {
			return argument(`{"a":` + quoted(strings.Repeat("x", n)) + `,"a":1}`)
		}},
		{name: "ambiguous at the end of many keys", args: func(n int) func(attack.Members) attack.Members {
			var b strings.Builder
			b.WriteByte('{')
			for i := 0; b.Len() < n; i++ {
				b.WriteString(quoted("key-"+strings.Repeat("z", i%7)+string(rune('a'+i%26))+strings.Repeat("y", i/182)) + ":1,")
			}
			return argument(b.String() + `"Key-a":1,"KEY-a":2}`)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, n := range []int{64 << 10, 1 << 20, 4 << 20} {
				cfg := site(t, attack.Mode{Once: foil.Redeem}, nil)
				scene, err := cfg.App.Stage(t.Context(), 1)
				if err != nil {
					t.Fatal(err)
				}
				retry := asked(t, cfg, scene)
				bad := *retry
				if test.args != nil {
					call := scene.Tool
					call.Arguments = test.args(n)(call.Arguments)
					args, _ := call.Params().Get("arguments")
					bad.Params = bad.Params.Set("arguments", args)
				} else {
					token, _ := retry.Params.Get("requestState")
					bad.Params = bad.Params.Set("requestState", quoted(test.token(strings.Trim(token, `"`), n)))
				}
				size := len(bad.Params.JSON())
				var reply *attack.Reply
				logged := written(t, cfg)
				got := allocated(func() {
					if reply, err = cfg.Door.Send(t.Context(), &bad); err != nil {
						t.Fatal(err)
					}
				})
				var refusal struct{ Error *foil.WireError }
				if err := json.Unmarshal(reply.Body, &refusal); err != nil || refusal.Error == nil || refusal.Error.Code != foil.Wire(foil.ErrInvalid).Code {
					t.Fatalf("%d bytes were answered %s", size, reply.Body)
				}
				if more := written(t, cfg) - logged; more > 5*perLog {
					t.Errorf("%d bytes left %d in the log", size, more)
				}
				if !raceEnabled && got > uint64(perByte*size+perCall) {
					t.Errorf("%d bytes made the server allocate %d, which is %.1f for each", size, got, float64(got)/float64(size))
				}
				t.Logf("%d bytes: %d allocated", size, got)

				if n, err := scene.Executed(); err != nil || n != 0 {
					t.Errorf("acted %d times, %v", n, err)
				}
				if _, err := cfg.Door.Send(t.Context(), retry); err != nil {
					t.Fatal(err)
				}
				if n, err := scene.Executed(); err != nil || n != 1 {
					t.Errorf("the honest retry acted %d times, %v", n, err)
				}
			}
		})
	}
}

// asked makes the first call and returns the honest retry.
func asked(t *testing.T, cfg *attack.Config, scene *attack.Scene) *attack.Request {
	t.Helper()
	call := scene.Tool
	reply, err := cfg.Door.Send(t.Context(), &attack.Request{Method: call.Method, Target: call.Target, Params: call.Params(), Login: attack.Alice})
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Result struct {
			InputRequests json.RawMessage `json:"inputRequests"`
			RequestState  string          `json:"requestState"`
		}
	}
	if err := json.Unmarshal(reply.Body, &m); err != nil {
		t.Fatal(err)
	}
	answers, err := scene.Accept(m.Result.InputRequests)
	if err != nil {
		t.Fatal(err)
	}
	return &attack.Request{Method: call.Method, Target: call.Target, Login: attack.Alice,
		Params: call.Params().After(attack.M("inputResponses", answers), attack.M("requestState", quoted(m.Result.RequestState)))}
}

// allocated is how many bytes f allocates, at the least of a few times: other
// goroutines of the process are counted too.
func allocated(f func()) uint64 {
	least := ^uint64(0)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

func written(t *testing.T, cfg *attack.Config) int {
	t.Helper()
	all, err := cfg.Logs.Written(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(all[0].Text)
}

func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always marshals
	}
	return string(text)
}

var raceEnabled bool // set by race_test.go: the detector allocates too
