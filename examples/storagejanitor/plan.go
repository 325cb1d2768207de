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

// errPlan is matched by what is wrong with a plan that was found.
var errPlan = errors.New("storagejanitor: plan")

// A plan is the exact list of what a purge deletes. It is parked in the claim
// store and does not pass through the client, or it is a part of the state.
type plan struct {
	Version int           `json:"v"`
	Objects []plannedItem `json:"objects"`
}

type plannedItem struct {
	Name     string `json:"n"`
	Size     int64  `json:"s"`
	Modified int64  `json:"t"` // Unix nanoseconds
	ID       string `json:"i,omitempty"`
}

func newPlan(objects []Object) *plan {
	p := &plan{Version: planVersion, Objects: make([]plannedItem, len(objects))}
	for i, o := range objects {
		p.Objects[i] = plannedItem{o.Name, o.Size, o.Modified.UnixNano(), o.ID}
	}
	return p
}

func decodePlan(raw []byte) ([]Object, error) {
	var p plan
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("%w: %w", errPlan, err)
	}
	return p.objects()
}

func (p *plan) objects() ([]Object, error) {
	if p.Version != planVersion || len(p.Objects) == 0 {
		return nil, fmt.Errorf("%w: not of this version", errPlan)
	}
	objects := make([]Object, len(p.Objects))
	for i, o := range p.Objects {
		objects[i] = Object{o.Name, o.Size, time.Unix(0, o.Modified), o.ID}
	}
	return objects, nil
}
