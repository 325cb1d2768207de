package baotest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
)

// recordedAnswers is what a real server answered, see answers_test.go.
//
//go:embed testdata/answers.json
var recordedAnswers []byte

// An Answer is what a server said.
type Answer struct {
	Status int            `json:"status"`
	Body   map[string]any `json:"body"` // nil for none
}

// Recorded returns the recorded answers by name.
func Recorded() (map[string]Answer, error) {
	var all map[string]Answer
	if err := json.Unmarshal(recordedAnswers, &all); err != nil {
		return nil, fmt.Errorf("baotest: testdata/answers.json: %w", err)
	}
	return all, nil
}

// What differs from one answer to the next is recorded as one of these.
const (
	someTime  = "2026-01-02T03:04:05.678901234Z"
	someToken = "s.recordedrecordedrecorded"
	someText  = "recorded"
)

// scrub replaces what differs from one answer to the next.
func scrub(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = scrub(v[i])
		}
	case map[string]any:
		for name, x := range v {
			text, isText := x.(string)
			switch {
			case isText && text == "":
			case name == "ttl":
				v[name] = 60.0
			case name == "token" || name == "client_token" || name == "id":
				v[name] = someToken
			case isText && (strings.HasSuffix(name, "_time") || name == "expire_time"):
				v[name] = someTime
			case name == "request_id" || name == "accessor" || name == "entity_id" || name == "ciphertext" || name == "uuid" || name == "role_name":
				v[name] = someText
			default:
				if n, ok := x.(float64); ok && n > 1e9 {
					x = 1e9 // seconds since the epoch
				}
				v[name] = scrub(x)
			}
		}
	}
	return v
}

// Scrub replaces, in an answer, what differs from one to the next.
func Scrub(body map[string]any) map[string]any {
	scrub(body)
	return body
}
