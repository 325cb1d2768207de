package openbao

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/foilmcp/foil/replay"
)

// A mark says what may have been forgotten: every ID that expires at or before Swept,
// and every ID that was minted before Restored, both in Unix milliseconds. It only
// ever rises.
type mark struct {
	Swept    int64 `json:"swept"`
	Restored int64 `json:"restored"`
}

// check says why an ID cannot be judged any more.
func (m mark) check(id []byte, until int64) error {
	if until <= m.Swept {
		return replay.ErrSwept
	}
	if len(id) == 16 { // its first six bytes are when it was minted
		var minted int64
		for _, b := range id[:6] {
			minted = minted<<8 | int64(b)
		}
		if minted < m.Restored {
			return replay.ErrRestored
		}
	}
	return nil
}

// readMark returns the mark and the version of its entry; zero if there is none yet.
func readMark(ctx context.Context, k *kv) (mark, int, error) {
	const op = "read sweep mark"
	e, err := k.read(ctx, op, markPath)
	if err != nil || e == nil {
		return mark{}, 0, err
	}
	bad := &Error{Op: op, hint: "the mark was deleted or is not foil's: nothing can be redeemed until it is as it was (bao kv rollback)", cause: ErrUnavailable}
	var m mark
	if e.data == nil || len(e.data) != 2 ||
		json.Unmarshal(e.data["swept"], &m.Swept) != nil || json.Unmarshal(e.data["restored"], &m.Restored) != nil {
		return mark{}, 0, bad
	}
	return m, e.version, nil
}

// raiseMark raises the mark to at least m and returns what it is then.
func raiseMark(ctx context.Context, k *kv, m mark) (mark, error) {
	for range maxRaces {
		old, version, err := readMark(ctx, k)
		if err != nil {
			return mark{}, err
		}
		next := mark{max(old.Swept, m.Swept), max(old.Restored, m.Restored)}
		if next == old {
			return old, nil
		}
		_, err = k.write(ctx, "raise sweep mark", markPath, next, version)
		if err == nil {
			return next, nil
		}
		// A write whose answer was lost shows in the next read.
		if e := as(err); !errors.Is(err, errLost) && (e == nil || !e.unsure) {
			return mark{}, err
		}
		if !pause(ctx, 10*time.Millisecond) {
			return mark{}, fmt.Errorf("openbao: raise sweep mark: %w", err)
		}
	}
	return mark{}, errors.New("openbao: raise sweep mark: others raise it all the time")
}
