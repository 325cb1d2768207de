package foil

import (
	"crypto/rand"
	"encoding/hex"
)

// Claims returns the claim checks of the Guard's store for one call that opens
// no state, such as a flow that never leaves the process. Every call of Claims
// is another presentation: what one redeems is spent for all others. For a
// state that was opened use [Opened.Claims].
func (g *Guard) Claims() *ClaimChecks {
	var by [16]byte
	// It never fails: a process without randomness ends here.
	_, _ = rand.Read(by[:])
	return &ClaimChecks{store: g.o.Claims, by: hex.EncodeToString(by[:])}
}
