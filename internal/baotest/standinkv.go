package baotest

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A kvEntry is what is kept under a path: the versions, the first of which is 1.
type kvEntry struct{ versions []*kvVersion }

type kvVersion struct {
	data      any
	created   time.Time
	deleted   time.Time
	destroyed bool
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func (s *standIn) kv(c *call, engine map[string]*kvEntry, rest string) *reply {
	what, path, _ := strings.Cut(rest, "/")
	path = strings.TrimSuffix(path, "/")
	e := engine[path]
	switch what + " " + c.method {
	case "data GET":
		return s.kvRead(e)
	case "data POST":
		return s.kvWrite(c, engine, path, e)
	case "data DELETE":
		if e != nil {
			e.versions[len(e.versions)-1].deleted = time.Now()
		}
		return s.none()
	case "metadata GET":
		return s.kvMetadata(e)
	case "metadata LIST":
		return s.kvList(engine, path)
	case "metadata DELETE":
		delete(engine, path)
		return s.none()
	case "destroy POST":
		list, _ := c.body["versions"].([]any)
		for _, v := range list {
			if n, ok := v.(float64); ok && e != nil && n >= 1 && int(n) <= len(e.versions) {
				e.versions[int(n)-1].destroyed, e.versions[int(n)-1].data = true, nil
			}
		}
		return s.none()
	}
	return s.as("denied")
}

func (s *standIn) kvRead(e *kvEntry) *reply {
	if e == nil {
		return s.as("kv none")
	}
	n := len(e.versions)
	v := e.versions[n-1]
	name := "kv read"
	if v.destroyed || !v.deleted.IsZero() {
		name = "kv deleted"
	}
	r := s.as(name)
	if name == "kv read" {
		r.set(v.data, "data", "data")
	}
	r.set(stamp(v.deleted), "data", "metadata", "deletion_time").set(v.destroyed, "data", "metadata", "destroyed")
	return r.set(n, "data", "metadata", "version").set(stamp(v.created), "data", "metadata", "created_time")
}

func (s *standIn) kvWrite(c *call, engine map[string]*kvEntry, path string, e *kvEntry) *reply {
	current := 0
	if e != nil {
		current = len(e.versions)
	}
	if options, ok := c.body["options"].(map[string]any); ok {
		if cas, ok := options["cas"].(float64); ok && int(cas) != current {
			return s.as("kv lost")
		}
	}
	if e == nil {
		e = &kvEntry{}
		engine[path] = e
	}
	v := &kvVersion{data: c.body["data"], created: time.Now()}
	e.versions = append(e.versions, v)
	return s.as("kv written").set(len(e.versions), "data", "version").set(stamp(v.created), "data", "created_time")
}

func (s *standIn) kvMetadata(e *kvEntry) *reply {
	if e == nil {
		return s.as("kv none")
	}
	versions := make(map[string]any)
	for i, v := range e.versions {
		versions[strconv.Itoa(i+1)] = map[string]any{"created_time": stamp(v.created), "deletion_time": stamp(v.deleted), "destroyed": v.destroyed}
	}
	return s.as("kv metadata").set(versions, "data", "versions").set(len(e.versions), "data", "current_version")
}

func (s *standIn) kvList(engine map[string]*kvEntry, path string) *reply {
	if path != "" {
		path += "/"
	}
	names := make(map[string]bool)
	for p := range engine {
		if rest, ok := strings.CutPrefix(p, path); ok {
			name, more, deep := strings.Cut(rest, "/")
			if deep && more != "" {
				name += "/"
			}
			names[name] = true
		}
	}
	if len(names) == 0 {
		return s.as("kv none")
	}
	return s.as("kv list").set(slices.Sorted(maps.Keys(names)), "data", "keys")
}
