package storagejanitor

import (
	"errors"
	"strings"
	"time"
)

// newFilter reads the arguments of a tool. Its errors are for the caller of the
// tool and tell what to write instead.
func newFilter(prefix string, maxBytes *int64, olderThan string, now time.Time) (Filter, error) {
	f := Filter{Prefix: prefix, MaxBytes: maxBytes}
	if err := checkPrefix(prefix); err != nil {
		return f, err
	}
	if maxBytes != nil && *maxBytes < 0 {
		return f, errors.New("max_bytes must not be negative")
	}
	if olderThan == "" {
		return f, nil
	}
	var err error
	f.OlderThan, err = parseOlderThan(olderThan, now)
	return f, err
}

// checkPrefix refuses what cannot begin the name of an object. It would match
// nothing anyway; the caller is told rather than left to wonder.
func checkPrefix(prefix string) error {
	if len(prefix) > maxName {
		return errors.New("prefix is longer than 1024 bytes, and no object's name is")
	}
	if strings.ContainsRune(prefix, 0) {
		return errors.New("prefix must not contain a NUL character")
	}
	parts := strings.Split(prefix, "/")
	for i, part := range parts {
		last := i == len(parts)-1
		if part == ".." || !last && (part == "" || part == ".") {
			return errors.New(`prefix must be the beginning of an object's name as list_objects gives it, such as "logs/": not absolute, without empty, "." or ".." parts`)
		}
	}
	return nil
}

// parseOlderThan reads an age such as "720h", or a time in RFC 3339.
func parseOlderThan(s string, now time.Time) (time.Time, error) {
	if age, err := time.ParseDuration(s); err == nil {
		if age < 0 {
			return time.Time{}, errors.New(`older_than must not be negative: "720h" means last modified more than 720 hours ago`)
		}
		return now.Add(-age), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, errors.New(`older_than must be an age in hours, minutes and seconds such as "720h" or "1h30m", or a time in RFC 3339 such as "2026-08-01T00:00:00Z"`)
	}
	if t.After(now) {
		return time.Time{}, errors.New("older_than is a time in the future, which every object is older than: leave it out to purge regardless of age")
	}
	return t, nil
}
