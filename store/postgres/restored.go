package postgres

import (
	"context"
	"errors"
	"time"
)

// restoredFence is by how much Restored raises a fence. Processes that took the
// operation over after the backup was made have numbers above the one in it, and
// must not match.
const restoredFence = 1 << 32

// Restored records that the database was restored from a backup, or that a
// standby was promoted which may lack commits, and must be called before it
// serves: what was spent since may look fresh, so tokens minted before now plus
// Options.Skew are refused from then on (replay.ErrRestored, ledger.ErrRestored),
// by the time that IDs of 16 bytes begin with. Claims and handles are deleted,
// as they may have been redeemed or revoked; what was executing becomes unknown,
// and the processes that executed it, or had taken over what was unknown, are
// shut out. Such operations are not resumed, as steps may have been done since the
// backup: they stay unknown until an operator resolves them. It returns the moment
// before which tokens are refused. It may be called again at any time.
func (s *Store) Restored(ctx context.Context) (before time.Time, err error) {
	var mark int64
	var found bool
	err = s.within(ctx, slow, func(st *statements) {
		st.queue(lockTable)
		st.row(&found, []any{&mark}, `UPDATE {s}.mark SET restored = greatest(restored, {up} + $1::bigint) WHERE one RETURNING restored`, ceilDuration(s.opts.Skew))
		st.queue(`DELETE FROM {s}.claim`)
		st.queue(`DELETE FROM {s}.handle`)
		// What was unknown may have been taken over since the backup, too.
		st.queue(`UPDATE {s}.operation SET state = 4, fence = fence + $1::bigint WHERE state IN (1, 4)`, int64(restoredFence))
	})
	if err != nil {
		return time.Time{}, err
	}
	if !found {
		return time.Time{}, errors.New("postgres: " + errNoMark.Error())
	}
	return time.UnixMilli(mark), nil
}
