package sqlite

import (
	"context"
	"time"
)

// restoredFence is by how much Restored raises a fence. Processes that took the
// operation over after the backup was made have numbers above the one in it, and
// must not match.
const restoredFence = 1 << 32

// Restored is to be called once after the file was restored from a backup, with
// no process at work on it, and before any starts. The backup has forgotten what
// was used since it was made, so this records durably that tokens minted before
// now and Options.Skew are refused, in every process: by Use, UseAs and InTx if
// the ID has 16 bytes, and by Begin. It drops all claims and handles, of which
// some may have been redeemed or given up since, and turns what was executing
// into unknown, shutting out the processes that executed it or had taken over
// what was unknown. Such operations are not resumed, as steps may have been done
// since the backup: they stay unknown until an operator resolves them. It returns
// the moment before which tokens are refused. It is one transaction, however long
// it takes, and is bounded by ctx and not by Options.Timeout.
func (s *Store) Restored(ctx context.Context) (before time.Time, err error) {
	mark := ceilMillis(s.opts.Now().Add(s.opts.Skew))
	var set int64
	err = s.writeWithin(ctx, slow, func(c *conn) error {
		bg := context.Background()
		if set = max(mark, c.marks.restored); set > c.marks.restored {
			if _, err := c.sql.ExecContext(bg, `UPDATE sweep_mark SET restored = ?1 WHERE one = 1`, set); err != nil {
				return err
			}
			c.marks.restored = set
		}
		for _, statement := range []string{`DELETE FROM claim`, `DELETE FROM foil_handle`} {
			if _, err := c.sql.ExecContext(bg, statement); err != nil {
				return err
			}
		}
		// What was unknown may have been taken over since the backup, too.
		_, err := c.sql.ExecContext(bg, `UPDATE foil_operation SET state = 4, fence = fence + ?1 WHERE state IN (1, 4)`, restoredFence)
		return err
	})
	if err != nil {
		return time.Time{}, err
	}
	return millis(set), nil
}
