package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// view runs fn on a connection of its own, which sees the file as of one moment
// and cannot write to it. It is for what reads much: the calls that write do not
// wait for it. Close ends it.
func (s *Store) view(ctx context.Context, fn func(ctx context.Context, q *sql.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.views.Add(1)
	s.mu.Unlock()
	defer s.views.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(ErrClosed) })()

	err := s.look(ctx, fn)
	switch {
	case err == nil:
		return nil
	case context.Cause(ctx) == ErrClosed:
		return ErrClosed
	case ctx.Err() != nil:
		return fmt.Errorf("sqlite: %w", context.Cause(ctx))
	}
	return fmt.Errorf("sqlite: %w", err)
}

func (s *Store) look(ctx context.Context, fn func(ctx context.Context, q *sql.Conn) error) error {
	if err := s.sharesItself(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn(s.path, "ro"))
	if err != nil {
		return err
	}
	defer db.Close()
	q, err := db.Conn(ctx)
	if err != nil {
		return plain(err)
	}
	defer q.Close()
	if _, err := q.ExecContext(ctx, "BEGIN"); err != nil {
		return plain(err)
	}
	if _, err := readVersion(ctx, q); err != nil { // the first read: from here on nothing changes
		return err
	}
	if err := s.sharesItself(); err != nil { // it was this file, and this log, that was opened
		return err
	}
	if err := fn(ctx, q); err != nil {
		return err
	}
	return nil
}
