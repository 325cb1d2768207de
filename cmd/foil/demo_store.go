package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/attack/storefile"
	"github.com/foilmcp/foil/attack/storeserver"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/store/dsn"
)

// open opens the store that the replicas share, with what it keeps sealed.
func (s *demoSetup) open(ctx context.Context, keys keyring.Current, migrate bool) (dsn.Store, error) {
	sealer, err := atrest.New(keys)
	if err != nil {
		return nil, err
	}
	// No call may go on that the Guard has given up: it would spend a state that
	// nobody was answered.
	return dsn.Open(ctx, s.Store, &dsn.Options{AtRest: sealer, Migrate: migrate, Timeout: demoStoreTimeout})
}

// prepare makes the storage ring and the store, once: the replicas find both
// ready, and what is wrong with a store that the user named is said once. It
// returns the secret of the ring, which must show up nowhere.
func (s *demoSetup) prepare(ctx context.Context) (secret []byte, err error) {
	ring, err := keyring.NewRing(time.Now(), &keyring.RingOptions{Storage: true})
	if err != nil {
		return nil, err
	}
	document := ring.Marshal()
	var parts struct {
		Keys []struct{ Secret string }
	}
	if err := json.Unmarshal(document, &parts); err != nil || len(parts.Keys) != 1 {
		return nil, errors.New("the storage ring cannot be read again")
	}
	if secret, err = base64.RawURLEncoding.DecodeString(parts.Keys[0].Secret); err != nil {
		return nil, errors.New("the secret of the storage ring cannot be read again")
	}
	if err := os.WriteFile(s.Storage, document, 0o600); err != nil {
		return nil, err
	}
	store, err := s.open(ctx, keyring.Fixed(ring), true)
	if err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil {
		return nil, fmt.Errorf("close the store: %w", err)
	}
	return secret, nil
}

// backend is the kind of store, without what else the user said of it.
func (s *demoSetup) backend() string {
	backend, _ := dsn.Backend(s.Store) // it has been opened
	return backend
}

// seam is the battery's hold on the store.
func (s *demoSetup) seam() attack.Store {
	switch s.backend() {
	case dsn.Postgres:
		return storeserver.Postgres{DSN: s.Store}
	case dsn.Redis:
		return storeserver.Redis{URL: s.Store}
	}
	return storefile.File(strings.TrimPrefix(s.Store, dsn.SQLite+":"))
}
