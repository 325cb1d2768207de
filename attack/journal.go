package attack

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
)

// A Journal is the [Logs] of servers that run in this process: give its Logger
// to all of them. The zero value is ready to use, and safe for concurrent use.
type Journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

var _ Logs = (*Journal)(nil)

// Write appends to the journal.
func (j *Journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

// Logger returns a logger that writes everything.
func (j *Journal) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Written returns it all.
func (j *Journal) Written(context.Context) ([]Writing, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return []Writing{{"the log", bytes.Clone(j.buf.Bytes())}}, nil
}
