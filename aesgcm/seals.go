package aesgcm

// MaxSeals is how many tokens one process seals under one key. It warns at half of it.
// Sixteen processes stay within what random nonces allow (NIST SP 800-38D, section 8.3).
const MaxSeals = refuseAfter

// SealsByKey returns how many tokens this process sealed under each key of the ring,
// by the key's id in the ring. It is empty while there is no ring.
func (c *Codec) SealsByKey() map[string]uint64 {
	seals := make(map[string]uint64)
	t, err := c.keys.Current()
	if err != nil {
		return seals
	}
	t.Each(func(id string, s *sealer) { seals[id] = s.seals.Load() })
	return seals
}
