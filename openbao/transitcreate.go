package openbao

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// ErrKeyExists says that Create found a key.
var ErrKeyExists = errors.New("openbao: a Transit key exists already")

// Create makes the key: of type aes256-gcm96, which cannot leave the server. A key that
// exists is left alone, and the error matches [ErrKeyExists]. The engine must be there.
// It takes a right that no [Role] has; [Setup] makes a key too.
func (k *TransitKey) Create(ctx context.Context) (*KeyStatus, error) {
	switch _, err := k.Status(ctx); {
	case err == nil:
		return nil, fmt.Errorf("%w: %s", ErrKeyExists, k)
	case status(err) != http.StatusNotFound:
		return nil, err
	}
	// Of two who make it at once both get the one key: making it again does nothing.
	body := map[string]any{"type": "aes256-gcm96"}
	if _, err := k.c.do(ctx, &request{op: "make Transit key", method: "POST", path: k.path(), body: body, tell: true}); err != nil {
		if e := as(err); e.Status == http.StatusNotFound {
			e.hint = "no such engine: make it with foil openbao setup, or bao secrets enable transit"
		}
		return nil, fmt.Errorf("%s: %w", k, err)
	}
	return k.Status(ctx)
}
