//go:build unix

package soak_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/keyring/readyz"
	"github.com/foilmcp/foil/observe/prom"
	"github.com/foilmcp/foil/openbao"
)

// orders are what a replica reads first. It lives until its input ends.
type orders struct {
	File     string        `json:"file"` // path of the ring; or else the others:
	Addr     string        `json:"addr"`
	RoleID   string        `json:"role_id"`
	SecretID string        `json:"secret_id"`
	Path     string        `json:"path"`
	MaxStale time.Duration `json:"max_stale"`
}

// A turn is what the test asks of a replica at a time.
type turn struct {
	Seal int      `json:"seal"` // how many tokens
	Open []string `json:"open"`
}

type turned struct {
	Sealed    []sealed `json:"sealed"`
	NotSealed []string `json:"not_sealed"` // errors of Seal
	Opened    []opened `json:"opened"`     // in the order of the turn
	// Stall is the longest that this process was held up since it last told.
	Stall time.Duration `json:"stall"`
}

type sealed struct {
	Token string    `json:"token"`
	Key   string    `json:"key"` // id in the ring
	Began time.Time `json:"began"`
}

type opened struct {
	Reason string    `json:"reason"` // of a refusal
	Error  string    `json:"error"`  // of the server; neither: it was opened
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended"`
	Serial int64     `json:"serial"` // of the ring before
}

// A rotation is the answer to one.
type rotation struct {
	Added    string    `json:"added"` // "" for none
	Serial   int64     `json:"serial"`
	SealFrom time.Time `json:"seal_from"`
	Error    string    `json:"error"`
}

// A replica is a server as a user of the library builds it, but for its API.
type replica struct {
	store keyring.Store
	keys  *keyring.Refresher
	codec *aesgcm.Codec
	guard *foil.Guard
	stall atomic.Int64
}

var (
	request  = foil.Request{Method: foil.MethodToolsCall, Target: "purge", Principal: foil.Fixed("soak")}
	outgoing = foil.Outgoing{State: "what is to be purged"}
)

func newGuard(codec foil.Codec, ttl time.Duration) (*foil.Guard, error) {
	// Single use is not what is tested here: every token is opened twice.
	return foil.New(codec, &foil.Options{Audience: "soak", Once: foil.Off, TTL: ttl, Logger: slog.New(slog.DiscardHandler)})
}

func serve(in io.Reader, out io.Writer) error {
	ctx := context.Background()
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var o orders
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	r := &replica{}
	if r.store, err = o.open(ctx); err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	if r.keys, err = keyring.NewRefresher(ctx, r.store, &keyring.RefresherOptions{MaxStale: o.MaxStale, Logger: quiet}); err != nil {
		return err
	}
	if r.codec, err = aesgcm.New(r.keys, &aesgcm.Options{Logger: quiet}); err != nil {
		return err
	}
	ring, err := r.keys.Ring()
	if err != nil {
		return err
	}
	if r.guard, err = newGuard(r.codec, ring.MaxTTL()); err != nil {
		return err
	}
	ready, err := readyz.Handler(&readyz.Options{Rings: []readyz.Ring{{Name: "tokens", Status: r.keys.Status, Seals: r.codec.SealsByKey}}})
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	if _, err := prom.Rings(registry, prom.Ring{Name: "tokens", Status: r.keys.Status}); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/readyz", ready)
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/turn", r.turn)
	mux.HandleFunc("/rotate", r.rotate)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go r.watch()
	served := make(chan error, 1)
	go func() { served <- (&http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}).Serve(listener) }()
	if _, err := fmt.Fprintln(out, "http://"+listener.Addr().String()); err != nil {
		return err
	}
	go func() { // until the parent is done, or dead
		_, _ = io.Copy(io.Discard, lines)
		served <- nil
	}()
	return <-served
}

func (o *orders) open(ctx context.Context) (keyring.Store, error) {
	if o.File != "" {
		return keyring.OpenFile(o.File), nil
	}
	c, err := openbao.Open(ctx, &openbao.Options{Address: o.Addr, Auth: openbao.AppRole(o.RoleID, o.SecretID, nil), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	return openbao.OpenRing(c, o.Path)
}

// watch notes how long this process was held up by the machine.
func (r *replica) watch() {
	const tick = 20 * time.Millisecond
	last := time.Now()
	for range time.Tick(tick) {
		now := time.Now()
		if late := int64(now.Sub(last) - tick); late > r.stall.Load() {
			r.stall.Store(late)
		}
		last = now
	}
}

func (r *replica) turn(w http.ResponseWriter, req *http.Request) {
	var t turn
	if err := json.NewDecoder(req.Body).Decode(&t); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var done turned
	for _, token := range t.Open {
		o := opened{Began: time.Now(), Serial: r.keys.Status().Serial}
		_, err := r.guard.Open(req.Context(), request, token)
		o.Ended = time.Now()
		switch {
		case errors.Is(err, foil.ErrInvalid):
			o.Reason = string(foil.ReasonOf(err))
		case err != nil:
			o.Error = err.Error()
		}
		done.Opened = append(done.Opened, o)
	}
	for range t.Seal {
		s := sealed{Began: time.Now()}
		var err error
		if s.Token, err = r.guard.Seal(req.Context(), request, outgoing); err != nil {
			done.NotSealed = append(done.NotSealed, err.Error())
			continue
		}
		s.Key = r.codec.RingID(r.codec.KeyID(s.Token))
		done.Sealed = append(done.Sealed, s)
	}
	done.Stall = time.Duration(r.stall.Swap(0))
	_ = json.NewEncoder(w).Encode(&done) // the parent sees that there is none
}

// rotate does what foil keys rotate --every does, when every replica does it at once.
func (r *replica) rotate(w http.ResponseWriter, req *http.Request) {
	var done rotation
	every, err := time.ParseDuration(req.URL.Query().Get("every"))
	if err == nil {
		_, err = r.store.Update(req.Context(), func(ring *keyring.Ring) (*keyring.Ring, error) {
			c, err := ring.Rotate(time.Now(), every)
			if err != nil {
				return nil, err
			}
			done.Added, done.Serial, done.SealFrom = c.Added, c.Ring.Serial(), c.SealFrom
			return c.Ring, nil
		})
	}
	if err != nil {
		done = rotation{Error: err.Error()}
	}
	_ = json.NewEncoder(w).Encode(&done)
}
