package guarddoor_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/replay"
)

// forgetful is a store without a sweep mark: what it has forgotten is new to it.
type forgetful struct{ replay.Store }

func (s forgetful) Use(ctx context.Context, id []byte, expires time.Time) (bool, error) {
	first, err := s.Store.Use(ctx, id, expires)
	if errors.Is(err, replay.ErrSwept) {
		return true, nil
	}
	return first, err
}

// trusting is a store that lets pass what it cannot decide.
type trusting struct{ replay.Store }

func (s trusting) Use(ctx context.Context, id []byte, expires time.Time) (bool, error) {
	first, err := s.Store.Use(ctx, id, expires)
	if err != nil && !errors.Is(err, replay.ErrSwept) {
		return true, nil
	}
	return first, err
}

// TestNamesStore shows that a store which forgets without a mark, or lets pass
// what it cannot decide, turns its row red and no other.
func TestNamesStore(t *testing.T) {
	rows := attack.Named("honest", "replay-5", "replay-other-replica", "replay-after-restart", "fork", "replay-swept", "store-down")
	for _, test := range []struct {
		want string
		wrap func(replay.Store) replay.Store
	}{
		{"replay-swept", func(s replay.Store) replay.Store { return forgetful{s} }},
		{"store-down", func(s replay.Store) replay.Store { return trusting{s} }},
	} {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel()
			var red []string
			for _, r := range run(t, siteOf(t, attack.AESGCM, attack.Mode{Once: foil.Redeem}, nil, test.wrap), rows) {
				if !r.OK {
					red = append(red, r.Name)
				}
			}
			if !slices.Equal(red, []string{test.want}) {
				t.Errorf("red rows %q, want %q", red, test.want)
			}
		})
	}
}
