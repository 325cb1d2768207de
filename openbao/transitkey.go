package openbao

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// A TransitKey is a key of a Transit engine, for those who manage it. It never leaves
// the server. It is safe for concurrent use.
//
// Transit needs no schedule: all processes ask the server, so a new version is known
// everywhere at once.
type TransitKey struct {
	c           *Client
	mount, name string
}

// A KeyVersion is one version of a Transit key.
type KeyVersion struct {
	Version int       `json:"version"`
	Created time.Time `json:"created"`
}

// KeyStatus is what a Transit key is like, without secrets.
type KeyStatus struct {
	Type string `json:"type"`
	// Latest is the version that seals, unless MinEncryption is higher.
	Latest int `json:"latest_version"`
	// MinDecryption is the lowest version that still opens. MinEncryption is the
	// lowest that may seal; 0 means the latest alone.
	MinDecryption int `json:"min_decryption_version"`
	MinEncryption int `json:"min_encryption_version"`
	// MinAvailable is the lowest version whose key still exists; 0 means that none
	// was trimmed.
	MinAvailable int `json:"min_available_version"`
	// AutoRotate is how often the server rotates by itself; 0 for never.
	AutoRotate time.Duration `json:"auto_rotate_period"`
	// Versions lists what still opens, oldest first.
	Versions []KeyVersion `json:"versions"`

	// These should all be false: a key that can leave the server is in no custody.
	Exportable      bool `json:"exportable"`
	PlaintextBackup bool `json:"allow_plaintext_backup"`
	DeletionAllowed bool `json:"deletion_allowed"`

	derived    bool
	convergent bool
}

// OpenTransitKey returns the key that path names, which is MOUNT/KEY. Nothing is
// asked of the server.
func OpenTransitKey(c *Client, path string) (*TransitKey, error) {
	mount, name, err := splitPath("a Transit key", path)
	if err != nil {
		return nil, err
	}
	if !validPart(name) {
		return nil, fmt.Errorf("openbao: a Transit key is named MOUNT/KEY, with one slash, not %q", clean(path))
	}
	return &TransitKey{c, mount, name}, nil
}

// String returns "transit:MOUNT/KEY".
func (k *TransitKey) String() string { return "transit:" + k.mount + "/" + k.name }

// Format keeps what is inside out of every verb.
func (k *TransitKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }

func (k *TransitKey) path() string { return k.mount + "/keys/" + k.name }

// Status reads the key.
func (k *TransitKey) Status(ctx context.Context) (*KeyStatus, error) {
	a, err := k.c.do(ctx, &request{op: "read Transit key", method: "GET", path: k.path(), tell: true})
	if err != nil {
		if status(err) == http.StatusNotFound {
			as(err).hint = "no such key: make it with foil openbao setup"
		}
		return nil, fmt.Errorf("%s: %w", k, err)
	}
	var doc struct {
		Data *struct {
			KeyStatus
			AutoRotate int64                      `json:"auto_rotate_period"`
			Keys       map[string]json.RawMessage `json:"keys"`
			Derived    bool                       `json:"derived"`
			Convergent bool                       `json:"convergent_encryption"`
		} `json:"data"`
	}
	if err := json.Unmarshal(a.body, &doc); err != nil || doc.Data == nil || doc.Data.Latest < 1 {
		return nil, fmt.Errorf("%s: %w", k, errAnswer("read Transit key", a))
	}
	s := doc.Data.KeyStatus
	s.AutoRotate = time.Duration(doc.Data.AutoRotate) * time.Second
	s.derived, s.convergent = doc.Data.Derived, doc.Data.Convergent
	for name, raw := range doc.Data.Keys {
		n, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		s.Versions = append(s.Versions, KeyVersion{n, createdAt(raw)})
	}
	slices.SortFunc(s.Versions, func(a, b KeyVersion) int { return a.Version - b.Version })
	return &s, nil
}

// createdAt reads when a version was made: seconds, or an object for keys of pairs.
func createdAt(raw json.RawMessage) time.Time {
	var sec int64
	if json.Unmarshal(raw, &sec) == nil {
		return time.Unix(sec, 0).UTC()
	}
	var pair struct {
		At time.Time `json:"creation_time"`
	}
	_ = json.Unmarshal(raw, &pair) // the zero time says that it is not known
	return pair.At
}

// Rotate adds a version, which seals from now on everywhere, and returns the new
// status. Older versions go on opening.
//
// Transit has no check-and-set: of two callers at once, each adds a version, which
// does no harm. To rotate regularly from many replicas use [TransitKey.AutoRotate].
func (k *TransitKey) Rotate(ctx context.Context) (*KeyStatus, error) {
	_, err := k.c.do(ctx, &request{op: "rotate Transit key", method: "POST", path: k.path() + "/rotate", body: struct{}{}, once: true, tell: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k, err)
	}
	return k.Status(ctx)
}

// AutoRotate lets the server rotate by itself, every so often, at least hourly; 0 ends
// it. It may be called by every replica.
func (k *TransitKey) AutoRotate(ctx context.Context, every time.Duration) (*KeyStatus, error) {
	if every != 0 && every < time.Hour {
		return nil, fmt.Errorf("%s: a server rotates by itself once an hour at most, not every %v", k, every)
	}
	return k.config(ctx, map[string]any{"auto_rotate_period": strconv.FormatInt(int64(every/time.Second), 10) + "s"})
}

func (k *TransitKey) config(ctx context.Context, body map[string]any) (*KeyStatus, error) {
	if _, err := k.c.do(ctx, &request{op: "configure Transit key", method: "POST", path: k.path() + "/config", body: body, tell: true}); err != nil {
		return nil, fmt.Errorf("%s: %w", k, err)
	}
	return k.Status(ctx)
}

// Revoke withdraws version and all versions before it: they open nothing from now on,
// anywhere. If version is the one that seals, another is made first. What may seal
// moves up with what opens. A version that opens nothing already is no error.
func (k *TransitKey) Revoke(ctx context.Context, version int) (*KeyStatus, error) {
	s, err := k.Status(ctx)
	if err != nil {
		return nil, err
	}
	if version < 1 || version > s.Latest {
		return nil, fmt.Errorf("%s: %w: it has versions 1 to %d, not %d", k, ErrVersion, s.Latest, version)
	}
	if version < s.MinDecryption {
		return s, nil
	}
	if version == s.Latest {
		if s, err = k.Rotate(ctx); err != nil {
			return nil, err
		}
		if s.Latest <= version {
			return nil, fmt.Errorf("%s: no new version appeared: a standby may have answered; run the same again", k)
		}
	}
	// What seals must open: the least version that seals goes first.
	if s.MinEncryption != 0 && s.MinEncryption <= version {
		if _, err := k.config(ctx, map[string]any{"min_encryption_version": version + 1}); err != nil {
			return nil, err
		}
	}
	return k.config(ctx, map[string]any{"min_decryption_version": version + 1})
}

// Trim destroys the versions that open nothing any more. It cannot be undone.
func (k *TransitKey) Trim(ctx context.Context) (*KeyStatus, error) {
	s, err := k.Status(ctx)
	if err != nil {
		return nil, err
	}
	if s.MinDecryption <= max(1, s.MinAvailable) {
		return s, nil
	}
	// The server trims only below a least version that seals.
	if s.MinEncryption < s.MinDecryption {
		if _, err := k.config(ctx, map[string]any{"min_encryption_version": s.MinDecryption}); err != nil {
			return nil, err
		}
	}
	if _, err := k.c.do(ctx, &request{op: "trim Transit key", method: "POST", path: k.path() + "/trim", body: map[string]any{"min_available_version": s.MinDecryption}, tell: true}); err != nil {
		return nil, fmt.Errorf("%s: %w", k, err)
	}
	return k.Status(ctx)
}

// ErrVersion says that a key has no such version.
var ErrVersion = errors.New("openbao: no such version")
