//go:build unix

package crash_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
)

// The provider is where the effects are: a process that nobody kills, honours
// idempotency keys, and writes down what it sees, in order.

// An event is one line of what the provider has seen.
type event struct {
	Kind  string // "effect", "start" and "end" of a handler, "stall" of a process
	Trial string
	Flow  string
	Fence uint64
	PID   int
	Step  string
	Key   string
	Again bool // the provider had done it already, under the same key
	// Receipt is what the provider answered.
	Receipt string
}

type provider struct {
	mu       sync.Mutex
	events   []event
	receipts map[string]string // by trial and key
}

func provide() error {
	p := &provider{receipts: make(map[string]string)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /event", p.record)
	mux.HandleFunc("GET /journal", p.journal)
	listening(httptest.NewServer(mux).URL, nil)
	return nil
}

// record writes an event down. For an effect it answers with the receipt, which is
// the same for the same key.
func (p *provider) record(w http.ResponseWriter, r *http.Request) {
	var e event
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	receipt := ""
	if e.Kind == "effect" {
		if e.Key = r.Header.Get("Idempotency-Key"); e.Key == "" {
			http.Error(w, "no key", http.StatusBadRequest)
			return
		}
		key := e.Trial + " " + e.Key
		receipt, e.Again = p.receipts[key], p.receipts[key] != ""
		if !e.Again {
			receipt = rand.Text()
			p.receipts[key] = receipt
		}
	}
	e.Receipt = receipt
	p.events = append(p.events, e)
	_, _ = io.WriteString(w, receipt)
}

// journal gives what concerns a trial, and every stall since it began.
func (p *provider) journal(w http.ResponseWriter, r *http.Request) {
	trial := r.FormValue("trial")
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []event
	for _, e := range p.events {
		if e.Trial == trial || e.Kind == "stall" && len(out) > 0 {
			out = append(out, e)
		}
	}
	_ = json.NewEncoder(w).Encode(out)
}

// tell reports an event to the provider at url, and returns the receipt.
func tell(ctx context.Context, url string, e event) (string, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/event", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Idempotency-Key", e.Key)
	b, err := send(req)
	return string(b), err
}

// journalOf returns what the provider has seen of a trial.
func journalOf(ctx context.Context, url, trial string) (events []event, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/journal?trial="+trial, nil)
	if err != nil {
		return nil, err
	}
	b, err := send(req)
	if err != nil {
		return nil, err
	}
	return events, json.Unmarshal(b, &events)
}

func send(req *http.Request) ([]byte, error) {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, b)
	}
	return b, err
}
