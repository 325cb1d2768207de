package httpdoor_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/attack/httpdoor"
)

// echo answers with the text that it got, as JSON or as an event stream.
func echo(t *testing.T, stream bool) (*httptest.Server, *http.Header) {
	var seen http.Header
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got, _ := json.Marshal(string(body))
		msg := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"got":%s}}`, got)
		if stream {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, ": a comment\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\nevent: message\ndata: %s\n\n", msg)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, msg)
	}))
	t.Cleanup(s.Close)
	return s, &seen
}

func TestSend(t *testing.T) {
	for _, stream := range []bool{false, true} {
		s, seen := echo(t, stream)
		d, err := httpdoor.New(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		r, err := d.Send(t.Context(), &attack.Request{
			Method: "tools/call", Target: "purge", Login: attack.Alice,
			Params: attack.Members{attack.M("name", `"purge"`), attack.M("x", "1"), attack.M("x", `2 `), attack.Member{Name: `"\u0078"`, Value: "1e400"}},
			Meta:   attack.Members{attack.M("a", "1")},
		})
		if err != nil {
			t.Fatal(err)
		}
		var msg struct{ Result struct{ Got string } }
		if err := json.Unmarshal(r.Body, &msg); err != nil {
			t.Fatalf("body %q: %v", r.Body, err)
		}
		want := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},"a":1},"name":"purge","x":1,"x":2 ,"\u0078":1e400}}`
		if msg.Result.Got != want {
			t.Errorf("sent %s\nwant %s", msg.Result.Got, want)
		}
		if r.Replica != 1 || (r.Status == 400) == stream {
			t.Errorf("replica %d, status %d", r.Replica, r.Status)
		}
		for name, want := range map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "purge", "Authorization": "Bearer alice",
			"Content-Type": "application/json",
		} {
			if got := seen.Get(name); got != want {
				t.Errorf("header %s is %q, want %q", name, got, want)
			}
		}
	}
}

func TestTurns(t *testing.T) {
	one, _ := echo(t, false)
	two, _ := echo(t, false)
	d, err := httpdoor.New(one.URL, two.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	send := func(replica int) string {
		r, err := d.Send(t.Context(), &attack.Request{Method: "tools/call", Target: "x", Replica: replica})
		if err != nil {
			return "error"
		}
		return fmt.Sprint(r.Replica)
	}
	got := []string{send(0), send(0), send(0), send(2), send(2)}
	two.Close()
	d.Close()                                    // an idle connection may be noticed late
	got = append(got, send(0), send(0), send(2)) // the dead one is passed over, unless asked for
	d.Move(2, one.URL)
	got = append(got, send(2))
	if want := "1 2 1 2 2 1 1 error 2"; strings.Join(got, " ") != want {
		t.Errorf("answered by %v, want %s", got, want)
	}
}

func TestNoURL(t *testing.T) {
	if _, err := httpdoor.New(); err == nil {
		t.Error("a door to nowhere")
	}
}
