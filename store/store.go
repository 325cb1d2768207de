// Package store holds what the stores below it have in common for their
// operators: what foil store and foil ops print. It knows no database.
package store

import (
	"fmt"
	"time"
)

// Stats are figures of one store, as of one moment.
type Stats struct {
	Backend string `json:"backend"` // sqlite, postgres, redis
	Schema  int    `json:"schema"`
	// Spent are the live IDs, Claims the parked payloads, Handles the tokens
	// kept here, and the operations by state.
	Spent      int64 `json:"spent"`
	Claims     int64 `json:"claims"`
	Handles    int64 `json:"handles"`
	Executing  int64 `json:"executing"`
	Succeeded  int64 `json:"succeeded"`
	Failed     int64 `json:"failed"`
	Unknown    int64 `json:"unknown"`
	ClaimBytes int64 `json:"claim_bytes"`
	// SizeBytes is what the store takes on disk or in memory; 0 if unknown.
	SizeBytes int64 `json:"size_bytes"`
	// SweptUntil is the sweep mark of the spent IDs, RestoredAt the restore
	// mark; zero if there is none.
	SweptUntil time.Time `json:"swept_until,omitzero"`
	RestoredAt time.Time `json:"restored_at,omitzero"`
	// Keys are how many rows are sealed at rest under each key of the storage
	// ring, by key id in hex. A key that is not here may leave the ring.
	Keys map[string]int64 `json:"keys"`
}

// Swept is how much a sweep has removed.
type Swept struct {
	Spent      int64 `json:"spent"`
	Claims     int64 `json:"claims"`
	Handles    int64 `json:"handles"`
	Operations int64 `json:"operations"`
}

// A Problem is an invariant that does not hold. It names rows by their key, which
// is no secret, and holds no content.
type Problem struct {
	Table  string `json:"table"`
	Row    string `json:"row"` // hex
	Detail string `json:"detail"`
}

func (p Problem) String() string { return fmt.Sprintf("%s %s: %s", p.Table, p.Row, p.Detail) }
