package storagejanitor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// planVersion is raised when a replica of an older release must not act on the
// plan.
const planVersion = 1

// A plan is the exact list of what a purge deletes. It is parked in the claim
// store and never passes through the client.
type plan struct {
	Version int           `json:"v"`
	Objects []plannedItem `json:"objects"`
}

type plannedItem struct {
	Name     string `json:"n"`
	Size     int64  `json:"s"`
	Modified int64  `json:"t"` // Unix nanoseconds
}

func encodePlan(objects []Object) ([]byte, error) {
	p := plan{Version: planVersion, Objects: make([]plannedItem, len(objects))}
	for i, o := range objects {
		p.Objects[i] = plannedItem{o.Name, o.Size, o.Modified.UnixNano()}
	}
	return json.Marshal(p)
}

func decodePlan(raw []byte) ([]Object, error) {
	var p plan
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("storagejanitor: plan: %w", err)
	}
	if p.Version != planVersion || len(p.Objects) == 0 {
		return nil, errors.New("storagejanitor: plan: not of this version")
	}
	objects := make([]Object, len(p.Objects))
	for i, o := range p.Objects {
		objects[i] = Object{o.Name, o.Size, time.Unix(0, o.Modified)}
	}
	return objects, nil
}
