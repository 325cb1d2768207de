package openbao

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// kv is a KV engine, version 2.
type kv struct {
	c     *Client
	mount string
}

// An entry is the newest version of what is kept under a path.
type entry struct {
	data    map[string]json.RawMessage // nil if that version was deleted
	version int
}

// read returns the entry, or nil if there never was one.
func (k *kv) read(ctx context.Context, op, path string) (*entry, error) {
	a, err := k.c.do(ctx, &request{op: op, method: "GET", path: k.mount + "/data/" + path})
	if err != nil && status(err) != http.StatusNotFound {
		return nil, err
	}
	// A version that was deleted is a 404 that tells which it was.
	var doc struct {
		Data *struct {
			Data     map[string]json.RawMessage `json:"data"`
			Metadata *struct {
				Version int `json:"version"`
			} `json:"metadata"`
		} `json:"data"`
	}
	if json.Unmarshal(a.body, &doc) != nil {
		if err != nil {
			return nil, nil
		}
		return nil, errAnswer(op, a)
	}
	switch {
	case doc.Data == nil && err != nil:
		return nil, nil
	case doc.Data == nil || doc.Data.Metadata == nil || doc.Data.Metadata.Version < 1:
		return nil, &Error{Op: op, Status: a.status, hint: "the answer is not one of a KV engine of version 2: look at the mount", cause: errNotKV}
	}
	return &entry{data: doc.Data.Data, version: doc.Data.Metadata.Version}, nil
}

// write stores data as the version after cas, and nothing if another version is there:
// errLost. It is not repeated: after another error it may have been done or not.
func (k *kv) write(ctx context.Context, op, path string, data any, cas int) (created time.Time, err error) {
	body := map[string]any{"options": map[string]int{"cas": cas}, "data": data}
	return k.put(ctx, &request{op: op, method: "POST", path: k.mount + "/data/" + path, body: body, once: true})
}

func (k *kv) put(ctx context.Context, r *request) (created time.Time, err error) {
	a, err := k.c.do(ctx, r)
	if e := as(err); e != nil && e.Status == http.StatusBadRequest && e.said("check-and-set parameter did not match") {
		return time.Time{}, errLost
	}
	if err != nil {
		return time.Time{}, err
	}
	var doc struct {
		Data struct {
			Version     int       `json:"version"`
			CreatedTime time.Time `json:"created_time"`
		} `json:"data"`
	}
	if json.Unmarshal(a.body, &doc) != nil || doc.Data.Version < 1 || doc.Data.CreatedTime.IsZero() {
		return time.Time{}, errAnswer(r.op, a)
	}
	return doc.Data.CreatedTime, nil
}

// destroyBefore destroys every version before newest that still has its content, and
// returns how many that were.
func (k *kv) destroyBefore(ctx context.Context, path string, newest int) (int, error) {
	const op = "destroy old versions"
	a, err := k.c.do(ctx, &request{op: op, method: "GET", path: k.mount + "/metadata/" + path})
	if err != nil {
		return 0, err
	}
	var doc struct {
		Data struct {
			Versions map[string]struct {
				Destroyed bool `json:"destroyed"`
			} `json:"versions"`
		} `json:"data"`
	}
	if json.Unmarshal(a.body, &doc) != nil {
		return 0, errAnswer(op, a)
	}
	var old []int
	for name, v := range doc.Data.Versions {
		if n, err := strconv.Atoi(name); err == nil && n < newest && !v.Destroyed {
			old = append(old, n)
		}
	}
	if len(old) == 0 {
		return 0, nil
	}
	slices.Sort(old)
	_, err = k.c.do(ctx, &request{op: op, method: "POST", path: k.mount + "/destroy/" + path, body: map[string][]int{"versions": old}})
	return len(old), err
}

func errAnswer(op string, a *answer) error {
	return &Error{Op: op, Status: a.status, hint: "the answer is none that is known", cause: ErrUnavailable, unsure: true}
}
